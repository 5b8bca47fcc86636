//! A volume for measurements: a server process for each shard, and a relay before all of them. All
//! of it is removed at the end, also after a failure.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use pando_bench::relay::{Door, Place, Relay};
use pando_client::net::{Net, NetOptions, Target};
use pando_client::path::Paths;
use pando_client::{Client, Transport, Volume};
use pando_server::Folder;
use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno};
use pando_wire::Address;
use tempfile::TempDir;

use crate::output::failure::Failure;
use crate::volume::make;
use crate::volume::process::Process;
use crate::volume::program::pando;

/// Tries of a rename while the shards find each other.
const TRIES: u32 = 6;

/// A running volume behind a relay. Fields are dropped in this order.
pub struct Cluster {
    _processes: Vec<Process>,
    pub relay: Relay,
    servers: Vec<Address>,
    _folder: TempDir,
}

/// A connection to the cluster's servers. The runtime in which it was made does the work.
pub struct Way {
    pub transport: Arc<dyn Transport>,
    pub volume: Volume,
}

impl Cluster {
    /// Starts the servers of a new volume. All messages to them and between them pass through the
    /// relay.
    pub fn start(shards: u16, round_trip: Duration) -> Result<Self, Failure> {
        let temporary = make::temporary("pando-repro-")?;
        let folder = Folder::new(&temporary.path().join("volume"))?;
        make::format(&folder, shards)?;
        let doors = temporary.path().to_owned();
        // The servers use no keys, since encryption is no part of the measurement.
        let door = |shard| Door {
            listen: Place::Unix(doors.join(format!("relay-{shard}"))),
            to: Place::Unix(folder.server_socket(shard)),
        };
        let relay = Relay::start((0..shards).map(door).collect(), round_trip)
            .map_err(|error| Failure::plain(format!("cannot start the relay: {error}")))?;
        let program = pando()?;
        let (mut processes, mut servers) = (Vec::new(), Vec::new());
        for (shard, place) in (0..shards).zip(relay.places()) {
            let Place::Unix(at) = place else {
                return Err(Failure::plain("the relay does not listen where it should"));
            };
            let address = Address::Unix(at.clone());
            let words = [
                "server".into(),
                OsString::from(folder.path()),
                "--shard".into(),
                shard.to_string().into(),
                "--advertise".into(),
                address.to_string().into(),
                "--only-advertised".into(),
                "--json".into(),
            ];
            processes.push(Process::start(&program, &words)?.0);
            servers.push(address);
        }
        Ok(Self { _processes: processes, relay, servers, _folder: temporary })
    }

    /// Connects, in the current runtime, and waits until all shards have found each other.
    pub async fn connect(&self) -> Result<Way, Failure> {
        let options = NetOptions { notice: |_| {}, ..NetOptions::default() };
        let target = Target::Servers(self.servers.clone());
        let (net, facts) = Net::connect(&target, options)
            .await
            .map_err(|error| Failure::plain(format!("the servers that were started: {error}")))?;
        let way = Way { transport: net, volume: Volume::from(&facts) };
        way.settle().await?;
        Ok(way)
    }
}

impl Way {
    /// Moves a directory, which needs every shard, until that works.
    async fn settle(&self) -> Result<(), Failure> {
        let failed = |what: &str, errno: Errno| {
            Failure::plain(format!("{what} on the servers that were started: {}", errno.symbol()))
        };
        let client = Client::connect(self.transport.clone(), self.volume.clone())
            .await
            .map_err(|errno| failed("opening a session", errno))?;
        let paths = Paths::new(&client, Credentials::ROOT);
        paths.mkdir(b"/first", 0o755).await.map_err(|errno| failed("mkdir", errno))?;
        let mut tries = 0;
        loop {
            tries += 1;
            match paths.rename(b"/first", b"/second", RenameFlags::default()).await {
                Ok(()) => break,
                Err(Errno::EBUSY) if tries < TRIES => {}
                Err(errno) => return Err(failed("rename", errno)),
            }
        }
        paths.rmdir(b"/second").await.map_err(|errno| failed("rmdir", errno))?;
        client.close().await.map_err(|errno| failed("ending a session", errno))
    }
}
