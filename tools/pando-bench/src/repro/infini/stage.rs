//! The setup of all measurements: servers behind a relay, and clients that use some ideas or all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pando_client::path::Paths;
use pando_client::{Client, IfThere, Options, Transport, Volume};
use pando_types::{Credentials, Errno};
use serde::Serialize;

use super::failed;
use super::spy::Spy;
use crate::relay::{Passed, Relay};
use crate::repro::Size;
use crate::{BenchError, Watch};

/// The ideas that a client uses to resolve paths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// No idea: it asks for one component after another.
    Sequential,
    /// It guesses directory ids, and remembers no paths.
    Speculative,
    /// It guesses ids and remembers paths, as clients do by default.
    Cached,
}

impl How {
    /// All values, from the slowest client.
    pub const ALL: [Self; 3] = [Self::Sequential, Self::Speculative, Self::Cached];

    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Speculative => "speculative",
            Self::Cached => "cached",
        }
    }

    pub(super) fn options(self) -> Options {
        let all = Options::default();
        match self {
            Self::Sequential => Options { paths_bytes: 0, guesses: false, ..all },
            Self::Speculative => Options { paths_bytes: 0, ..all },
            Self::Cached => all,
        }
    }
}

/// Servers, relay and parameters of a run.
pub struct Stage<'a> {
    /// The transport to the servers, through the relay.
    pub transport: Arc<dyn Transport>,
    /// The volume of these servers.
    pub volume: Volume,
    /// The relay, with a door for each shard in their order.
    pub relay: &'a Relay,
    /// The time that the relay adds to each round trip.
    pub round_trip: Duration,
    /// Median microseconds of a frame's round trip through the relay, without other load.
    pub echo: f64,
    /// How much is measured.
    pub size: Size,
    /// Seed of all random choices.
    pub seed: u64,
    /// Receives the progress, and may interrupt the run.
    pub watch: &'a dyn Watch,
}

impl Stage<'_> {
    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> u16 {
        self.volume.map.shards
    }

    /// Microseconds that the relay adds to each round trip.
    #[must_use]
    pub fn round_trip_micros(&self) -> f64 {
        self.round_trip.as_secs_f64() * 1e6
    }

    /// Chooses one of three values by size: full, quick, tiny.
    pub(super) fn pick<T: Copy>(&self, [full, quick, tiny]: [T; 3]) -> T {
        match self.size {
            Size::Full => full,
            Size::Quick => quick,
            Size::Tiny => tiny,
        }
    }

    /// Connects a client whose requests are noted.
    pub(super) async fn spied(&self, how: How) -> Result<(Client, Arc<Spy>), BenchError> {
        let spy = Arc::new(Spy::new(self.transport.clone()));
        let client = self.connect(spy.clone(), how.options()).await?;
        Ok((client, spy))
    }

    /// Connects a client.
    pub(super) async fn client(&self, how: How) -> Result<Client, BenchError> {
        self.connect(self.transport.clone(), how.options()).await
    }

    /// Connects `count` clients. `options` gives the options of each.
    pub(super) async fn clients(
        &self,
        count: u32,
        options: impl Fn(u32) -> Options,
    ) -> Result<Vec<Client>, BenchError> {
        let connecting = (0..count).map(|nth| self.connect(self.transport.clone(), options(nth)));
        join_all(connecting).await.into_iter().collect()
    }

    async fn connect(
        &self,
        transport: Arc<dyn Transport>,
        options: Options,
    ) -> Result<Client, BenchError> {
        Client::connect_with(transport, self.volume.clone(), options)
            .await
            .map_err(failed("opening a session", b""))
    }

    /// Fails if the run was interrupted.
    pub(super) fn go_on(&self) -> Result<(), BenchError> {
        if self.watch.is_interrupted() { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// Waits until no bytes wait in the relay.
    pub(super) async fn quiet(&self) {
        loop {
            tokio::time::sleep(self.round_trip.max(Duration::from_millis(1)) * 2).await;
            if self.relay.waiting() == 0 {
                return;
            }
        }
    }

    /// The relay's counts for each shard's door.
    pub(super) fn passed(&self) -> Vec<Passed> {
        self.relay.passed()
    }
}

/// Ends all sessions.
pub(super) async fn close(clients: &[Client]) -> Result<(), BenchError> {
    for closed in join_all(clients.iter().map(Client::close)).await {
        closed.map_err(failed("ending a session", b""))?;
    }
    Ok(())
}

/// The tree, with root's credentials.
pub(super) fn paths(client: &Client) -> Paths<'_> {
    Paths::new(client, Credentials::ROOT)
}

/// Makes all directories of a path that are missing.
pub(super) async fn make_dirs(paths: &Paths<'_>, path: &str) -> Result<(), BenchError> {
    let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
    for end in slashes.chain([path.len()]) {
        let part = &path.as_bytes()[..end];
        match paths.mkdir(part, 0o755).await {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(failed("mkdir", part)(errno)),
        }
    }
    Ok(())
}

/// Makes a file. Returns its inode number.
pub(super) async fn make_file(paths: &Paths<'_>, path: &str) -> Result<u64, BenchError> {
    let made = paths.create(path.as_bytes(), 0o644, IfThere::Refuse).await;
    Ok(made.map_err(failed("create", path.as_bytes()))?.0.ino.0)
}
