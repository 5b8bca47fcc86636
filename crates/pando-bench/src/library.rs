//! A workload through the client library: sessions of one thread, each with operations in flight.
//!
//! ```text
//!   client 0 ─ lane: next file ──► K futures ┐
//!   client 1 ─ lane: next file ──► K futures ┼─ one FuturesUnordered, one thread ─► Transport
//!      …                                     ┘
//! ```
//!
//! A future is an operation after the other, with a path of its own that it changes in place, so
//! what is measured is the library, the transport and the shards: the bench adds a clock reading
//! and a histogram's bucket.

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

/// Most operations of a client in flight.
pub const IN_FLIGHT_MAX: u32 = 1024;
const _: () = assert!(IN_FLIGHT_MAX <= pando_types::op::MAX_SLOTS as u32);

/// Cleaning up takes no longer than this when a run has failed: the shards may be gone.
const CLEAN_FOR: Duration = Duration::from_secs(20);

/// How files are named to the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// By path from the root: [`pando_client::path::Paths`].
    Path,
    /// By name in a directory held on to: [`pando_client::path::Dir`].
    Handle,
}

/// How the library is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Operations of a client in flight, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: u32,
    /// How files are named.
    pub naming: Naming,
    /// Whether what was made is left to whoever throws the whole volume away.
    pub keep: bool,
}

/// Runs all phases. To be polled in a tokio runtime whose time is enabled; nothing is spawned.
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

/// Opens so many sessions, each for so many operations in flight.
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

/// What comes of `work`, while sessions are kept alive beside it.
pub(crate) async fn beside_maintenance<T>(clients: &[Client], work: impl Future<Output = T>) -> T {
    let work = pin!(work);
    // Only what is woken is polled: beside many operations in flight, this costs nothing.
    let mut alive: FuturesUnordered<_> = clients.iter().map(Client::maintain).collect();
    let alive = pin!(async move { while alive.next().await.is_some() {} });
    match select(work, alive).await {
        Either::Left((result, _)) => result,
        // Sessions are kept alive for as long as there are any.
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

/// Ends a run: what it made is cleared away, unless it is to be kept, and then the sessions end.
/// `left` names what stays where that fails.
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
