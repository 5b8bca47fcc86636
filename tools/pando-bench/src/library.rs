//! Runs a workload through the client library. One thread has several sessions, each with several
//! operations in flight.
//!
//! ```text
//!   client 0 ─ lane: next file ──► K futures ┐
//!   client 1 ─ lane: next file ──► K futures ┼─ one FuturesUnordered, one thread ─► Transport
//!      …                                     ┘
//! ```
//!
//! A future does one operation after another, and changes its own path in place. So a run measures
//! the library, the transport and the shards. The benchmark adds only a clock reading and a
//! histogram entry.

mod phase;
mod tree;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use pando_client::{Client, Options, Transport, Volume};
use serde::{Deserialize, Serialize};

use crate::{BenchError, Phase, Report, Watch, Workload};
use phase::Lane;
pub(crate) use phase::{TELL, cpu_nanos, drive, requests};
use tree::Tree;

/// The most operations of a client that may be in flight.
pub const IN_FLIGHT_MAX: u32 = 1024;
const _: () = assert!(IN_FLIGHT_MAX <= pando_types::op::MAX_SLOTS as u32);

/// Time limit of the removal after a failed run. The shards may not answer any more.
const CLEAN_FOR: Duration = Duration::from_secs(20);

/// How the benchmark names files to the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// By path from the root, with [`pando_client::path::Paths`].
    Path,
    /// By name in an open directory, with [`pando_client::path::Dir`].
    Handle,
}

/// How the benchmark uses the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Operations of each client in flight, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: u32,
    /// How the benchmark names files.
    pub naming: Naming,
    /// Whether the run leaves its files in place. The caller then removes the whole volume.
    pub keep: bool,
}

/// Runs all phases. It must be polled in a tokio runtime with time enabled. It spawns no task.
pub async fn run(
    transport: Arc<dyn Transport>,
    volume: Volume,
    workload: &Workload,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    workload.check()?;
    if !(1..=IN_FLIGHT_MAX).contains(&settings.in_flight) {
        let why = format!("1 to {IN_FLIGHT_MAX} can be in flight, not {}", settings.in_flight);
        return Err(BenchError::Workload(why));
    }
    let clients = connect(&transport, &volume, workload.clients, settings.in_flight).await?;
    beside_maintenance(&clients, measure_and_clear(&clients, workload, settings, watch)).await
}

/// Opens `clients` sessions, each for `in_flight` operations at a time.
pub(crate) async fn connect(
    transport: &Arc<dyn Transport>,
    volume: &Volume,
    clients: u32,
    in_flight: u32,
) -> Result<Vec<Client>, BenchError> {
    let slots = in_flight.try_into().expect("it was checked");
    let mut all = Vec::new();
    for _ in 0..clients {
        let options = Options { slots, ..Options::default() };
        let client = Client::connect_with(transport.clone(), volume.clone(), options).await;
        all.push(client.map_err(BenchError::operation("opening a session", b""))?);
    }
    Ok(all)
}

/// Runs `work` while it keeps the sessions alive. Returns the result of `work`.
pub(crate) async fn beside_maintenance<T>(clients: &[Client], work: impl Future<Output = T>) -> T {
    let work = pin!(work);
    // Only futures that are woken are polled. So maintenance costs nothing beside many operations.
    let mut alive: FuturesUnordered<_> = clients.iter().map(Client::maintain).collect();
    let alive = pin!(async move { while alive.next().await.is_some() {} });
    match select(work, alive).await {
        Either::Left((result, _)) => result,
        // All sessions have ended, so only `work` remains.
        Either::Right(((), work)) => work.await,
    }
}

async fn measure_and_clear(
    clients: &[Client],
    workload: &Workload,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    let tree = Tree::make(&clients[0], workload).await?;
    let result = measure(clients, &tree, workload, settings, watch).await;
    let clear = tree.clear(&clients[0]);
    wind_up(clients, settings.keep, result, clear, || tree.shown()).await
}

/// Ends a run. Unless `keep`, it removes the run's files; then it ends the sessions. `left` names
/// what remains if that fails.
pub(crate) async fn wind_up<T>(
    clients: &[Client],
    keep: bool,
    result: Result<T, BenchError>,
    clear: impl Future<Output = Result<(), BenchError>>,
    left: impl FnOnce() -> String,
) -> Result<T, BenchError> {
    let cleared = match (&result, keep) {
        (_, true) => Ok(()),
        (Ok(_), false) => clear.await,
        (Err(_), false) => {
            tokio::time::timeout(CLEAN_FOR, clear).await.unwrap_or(Err(BenchError::Interrupted))
        }
    };
    if cleared.is_ok() {
        for client in clients {
            client.close().await.map_err(BenchError::operation("ending a session", b""))?;
        }
    }
    match (result, cleared) {
        (result, Ok(())) => result,
        (Ok(_), Err(cause)) | (Err(cause), Err(_)) => {
            Err(BenchError::LeftBehind { cause: Box::new(cause), left: left() })
        }
    }
}

async fn measure(
    clients: &[Client],
    tree: &Tree,
    workload: &Workload,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Report, BenchError> {
    let mut lanes = Vec::new();
    for (client, index) in clients.iter().zip(0..) {
        lanes.push(Lane::open(client, index, tree, workload, settings.naming).await?);
    }
    let mut phases = Vec::new();
    for &phase in &workload.phases {
        phases.push(phase::run(&lanes, workload, phase, settings.in_flight, watch).await?);
        if matches!(phase, Phase::Create | Phase::Unlink) {
            let inos = tree.census(&clients[0], workload, phase).await?;
            phase::compare(&lanes, &inos, phase)?;
        }
    }
    Ok(Report { workload: workload.clone(), phases })
}
