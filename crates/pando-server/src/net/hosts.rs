//! Who hosts which shard, as far as this process knows.

use pando_net::{HostsFolder, Stream, newest, open, this_host};
use pando_types::{Epoch, ShardIndex};
use pando_wire::{Address, Hosting, Role};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::timeout;

use super::links::Way;
use super::say;

/// A server that is asked at the start has this long to answer.
const JOIN_WITHIN: Duration = Duration::from_secs(3);

/// The table, in memory and in files that this volume's other processes on the same folder read.
#[derive(Debug)]
pub struct Hosts {
    folder: HostsFolder,
    known: Mutex<Vec<Hosting>>,
    own: Vec<Hosting>,
    /// How many the volume has.
    shards: u16,
}

impl Hosts {
    /// What the folder tells, and what this process hosts itself: shards with their epochs.
    pub(super) fn new(
        folder: HostsFolder,
        shards: u16,
        own: &[(ShardIndex, Epoch)],
        addresses: &[Address],
    ) -> Self {
        let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
        let host = this_host();
        let own: Vec<Hosting> = own
            .iter()
            .map(|&(shard, epoch)| Hosting { shard, epoch, host, addresses: addresses.clone() })
            .collect();
        let hosts = Self { known: Mutex::new(folder.read()), folder, own, shards };
        hosts.learn(&hosts.own);
        hosts.own.iter().for_each(|hosting| hosts.write(hosting));
        hosts
    }

    /// All that is known.
    #[must_use]
    pub fn all(&self) -> Vec<Hosting> {
        self.known.lock().clone()
    }

    /// What this process hosts.
    #[must_use]
    pub fn own(&self) -> &[Hosting] {
        &self.own
    }

    /// Who hosts a shard.
    #[must_use]
    pub fn get(&self, shard: ShardIndex) -> Option<Hosting> {
        self.known.lock().iter().find(|hosting| hosting.shard == shard).cloned()
    }

    /// Takes over what others know better.
    pub fn learn(&self, heard: &[Hosting]) {
        let there_are = heard.iter().filter(|hosting| hosting.shard.0 < self.shards);
        let heard: Vec<Hosting> = there_are.cloned().collect();
        let new = newest(&mut self.known.lock(), &heard);
        new.iter().for_each(|hosting| self.write(hosting));
    }

    /// Looks again at what other processes have written, and restores what this one has, should it be gone.
    pub fn refresh(&self) {
        let heard = self.folder.read();
        newest(&mut self.known.lock(), &heard);
        self.own.iter().for_each(|hosting| self.write(hosting));
    }

    /// Whether one that says it hosts these is not what is known to be newer: `Err` names the shard.
    pub(super) fn check(&self, speakers: &[Hosting]) -> Result<(), ShardIndex> {
        let known = self.known.lock();
        for speaker in speakers {
            if speaker.shard.0 >= self.shards {
                return Err(speaker.shard);
            }
            let is_here = self.own.iter().any(|own| own.shard == speaker.shard);
            let is_newer =
                |known: &Hosting| known.shard == speaker.shard && known.epoch > speaker.epoch;
            if is_here || known.iter().any(is_newer) {
                return Err(speaker.shard);
            }
        }
        Ok(())
    }

    fn write(&self, hosting: &Hosting) {
        if let Err(error) = self.folder.write(hosting) {
            say(&format!("cannot note where shard {} is: {error}", hosting.shard));
        }
    }
}

/// Asks servers elsewhere who hosts what. One that does not answer is named and passed over: shards that start later
/// tell it by themselves.
pub(super) async fn join(way: &Way, servers: &[Address]) {
    for address in servers {
        let attempt = async {
            let stream = Stream::connect(address).await.map_err(|error| error.to_string())?;
            let opened = open(stream, way.volume, Role::Tool, way.secret.as_ref()).await;
            opened.map_err(|error| error.to_string())
        };
        match timeout(JOIN_WITHIN, attempt).await {
            Ok(Ok(opened)) => way.hosts.learn(&opened.welcome.hosts),
            Ok(Err(error)) => say(&format!("cannot ask {address} who hosts what: {error}")),
            Err(_) => say(&format!("cannot ask {address} who hosts what: no answer")),
        }
    }
}
