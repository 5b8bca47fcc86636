//! The host: all shards of this process, running, and how they end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use pando_placement::ClusterMap;
use pando_types::{Epoch, ShardIndex};
use parking_lot::Mutex;

use crate::calls::connection::PeerLinks;
use crate::host::shared::{BeforeSync, Shared};

/// All shards of this process, running. [`Host::stop`] ends them in order; so does dropping the
/// host.
pub struct Host {
    pub(crate) shared: Arc<Shared>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Host {
    /// Number of shards that the volume was made with.
    pub fn shards(&self) -> u16 {
        self.shared.shards
    }

    /// Merges into `map` what the shards of this process know.
    pub fn update(&self, map: &mut ClusterMap) {
        for cell in self.shared.hosted() {
            self.shared.with(&cell, |state| {
                if let Some(known) = state.machine.map() {
                    map.merge(known);
                }
            });
        }
    }

    /// The shards that run here, ascending.
    pub fn hosted(&self) -> Vec<ShardIndex> {
        self.shared.hosted().map(|cell| cell.shard).collect()
    }

    /// Epoch of a shard. `None`: the shard does not run here.
    pub fn epoch(&self, shard: ShardIndex) -> Option<Epoch> {
        Some(self.shared.cell(shard)?.epoch)
    }

    /// Sets the links to shards of other processes. Only the first call counts. Until then messages
    /// to those shards are dropped, and the shards send them again.
    pub fn set_links(&self, links: Arc<dyn PeerLinks>) {
        let _ = self.shared.links.set(links);
    }

    /// Sets the hook that is called before each sync of a log. Only the first call counts.
    pub fn set_before_sync(&self, hook: BeforeSync) {
        let _ = self.shared.before_sync.set(hook);
    }

    /// Nanoseconds since a fixed moment. Never goes back.
    pub fn now_nanos(&self) -> u64 {
        self.shared.timer.clock.mono()
    }

    /// Syncs all logs and ends all threads. Unanswered and later calls end with `None`.
    pub fn stop(&self) {
        if self.shared.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shared.jobs.lock().take();
        self.shared.timer.stop();
        self.shared.scrub.request();
        self.shared.hosted().for_each(|cell| cell.sync.request());
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join();
        }
        self.shared.hosted().for_each(|cell| cell.abandon());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}
