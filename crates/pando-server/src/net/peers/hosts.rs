//! The table of hosts: which server hosts which shard, as far as this process knows.

use pando_net::{HostsFolder, newest, this_host};
use pando_types::{Epoch, SHARDS_MAX, ShardIndex};
use pando_wire::{Address, Hosting};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::common::log::say;

/// The table of hosts, in memory and in files. Other processes of this volume read the files of
/// their folder.
#[derive(Debug)]
pub struct Hosts {
    folder: HostsFolder,
    known: Mutex<Vec<Hosting>>,
    own: Mutex<Vec<Hosting>>,
    /// Addresses at which others find this process's shards.
    addresses: Vec<String>,
    /// Notified when a shard of this process has come or gone.
    pub(crate) changed: Notify,
}

impl Hosts {
    /// Reads the folder's table, and adds the shards that this process hosts, with their epochs.
    pub(crate) fn new(
        folder: HostsFolder,
        own: &[(ShardIndex, Epoch)],
        addresses: &[Address],
    ) -> Self {
        let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
        let hosts = Self {
            known: Mutex::new(folder.read()),
            folder,
            own: Mutex::default(),
            addresses,
            changed: Notify::new(),
        };
        own.iter().for_each(|&(shard, epoch)| hosts.add_own(shard, epoch));
        hosts
    }

    /// This process as the host of a shard.
    #[must_use]
    pub fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting {
        Hosting { shard, epoch, host: this_host(), addresses: self.addresses.clone() }
    }

    /// This process hosts a shard from now on.
    pub(crate) fn add_own(&self, shard: ShardIndex, epoch: Epoch) {
        let hosting = self.here(shard, epoch);
        {
            let mut own = self.own.lock();
            own.retain(|own| own.shard != shard);
            own.push(hosting.clone());
        }
        newest(&mut self.known.lock(), std::slice::from_ref(&hosting));
        self.write(&hosting);
        self.changed.notify_waiters();
    }

    /// This process no longer hosts a shard.
    pub(crate) fn drop_own(&self, shard: ShardIndex) {
        self.own.lock().retain(|own| own.shard != shard);
        self.changed.notify_waiters();
    }

    fn is_own(&self, shard: ShardIndex) -> bool {
        self.own.lock().iter().any(|own| own.shard == shard)
    }

    /// Returns once another process hosts the shard.
    pub(crate) async fn afar(&self, shard: ShardIndex) {
        loop {
            let changed = self.changed.notified();
            if !self.is_own(shard) {
                return;
            }
            changed.await;
        }
    }

    /// All hosts that are known.
    #[must_use]
    pub fn all(&self) -> Vec<Hosting> {
        self.known.lock().clone()
    }

    /// The shards that this process hosts.
    #[must_use]
    pub fn own(&self) -> Vec<Hosting> {
        self.own.lock().clone()
    }

    /// Host of a shard. `None`: it is not known.
    #[must_use]
    pub fn get(&self, shard: ShardIndex) -> Option<Hosting> {
        self.known.lock().iter().find(|hosting| hosting.shard == shard).cloned()
    }

    /// Takes over the hosts with later epochs than those known here.
    pub fn learn(&self, heard: &[Hosting]) {
        let there_are = heard.iter().filter(|hosting| hosting.shard.0 < SHARDS_MAX);
        let heard: Vec<Hosting> = there_are.cloned().collect();
        let new = newest(&mut self.known.lock(), &heard);
        new.iter().for_each(|hosting| self.write(hosting));
    }

    /// Reads again what other processes have written, and restores the files of this process if
    /// they are gone.
    pub fn refresh(&self) {
        let heard = self.folder.read();
        newest(&mut self.known.lock(), &heard);
        self.own().iter().for_each(|hosting| self.write(hosting));
    }

    /// Checks that no newer host is known of the shards that a peer speaks for. `Err`: the first
    /// shard for which there is one.
    pub(crate) fn check(&self, speakers: &[Hosting]) -> Result<(), ShardIndex> {
        let known = self.known.lock();
        for speaker in speakers {
            if speaker.shard.0 >= SHARDS_MAX {
                return Err(speaker.shard);
            }
            let is_here = self.is_own(speaker.shard);
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
            say(&format!("cannot store the address of shard {}: {error}", hosting.shard));
        }
    }
}
