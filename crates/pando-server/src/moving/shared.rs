//! What the threads of all moves of a process share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pando_net::Keys;
use pando_types::{Epoch, ShardIndex};
use pando_wire::{MoveStage, Moving};
use parking_lot::{Condvar, Mutex};

use crate::common::log::say;
use crate::common::options::HostOptions;
use crate::folder::layout::Folder;
use crate::folder::lock::FolderLock;
use crate::folder::move_notes::Coming;
use crate::folder::superblock::Superblock;
use crate::host::shards::Host;
use crate::moving::faults::Faults;
use crate::moving::going::Going;
use crate::net::peers::hosts::Hosts;
use crate::net::server::Server;

pub(crate) struct Shared {
    pub(crate) folder: Folder,
    pub(crate) superblock: Superblock,
    pub(crate) options: HostOptions,
    pub(crate) keys: Option<Keys>,
    pub(crate) host: Arc<Host>,
    pub(crate) lock: Mutex<FolderLock>,
    pub(crate) faults: Faults,
    pub(crate) hosts: OnceLock<Arc<Hosts>>,
    pub(crate) server: OnceLock<Weak<Server>>,
    /// Moves to this process, current and ended.
    pub(crate) coming: Mutex<BTreeMap<ShardIndex, Moving>>,
    pub(crate) going: Mutex<Going>,
    pub(crate) is_stopped: AtomicBool,
    pub(crate) stopping: Condvar,
    pub(crate) waiting: Mutex<()>,
}

impl Shared {
    pub(crate) fn note(&self, shard: ShardIndex, change: impl FnOnce(&mut Moving)) {
        let fresh = || Moving {
            shard,
            from: Vec::new(),
            to: self
                .hosts
                .get()
                .map_or_else(Vec::new, |hosts| hosts.here(shard, Epoch(0)).addresses),
            stage: MoveStage::Copying,
            copied: 0,
            total: 0,
        };
        change(self.coming.lock().entry(shard).or_insert_with(fresh));
    }

    /// All moves. Those to this process come first: the tool that asked for one takes the first
    /// that it finds.
    pub(crate) fn all_moves(&self) -> Vec<Moving> {
        let mut moves: Vec<Moving> = self.coming.lock().values().cloned().collect();
        moves.extend(self.going.lock().under_way(Instant::now()));
        moves
    }

    /// Removes a copy that was not complete when an earlier process of this folder ended.
    pub(crate) fn forget_copy(&self, shard: ShardIndex) {
        let copy = self.folder.coming(shard.0);
        // If the lock is taken, this process or another one works on the copy.
        let mut lock = self.lock.lock();
        if copy.exists() && !lock.holds(shard.0) && lock.add(&self.folder, shard.0).is_ok() {
            // Another process may have completed the copy before this one got the lock.
            if matches!(Coming::read(&self.folder, shard.0), Ok(None)) {
                self.remove(&copy);
            }
            lock.release(shard.0);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Waits for `time`, or until the process stops.
    pub(crate) fn pause(&self, time: Duration) {
        let mut waiting = self.waiting.lock();
        if !self.is_stopped() {
            self.stopping.wait_for(&mut waiting, time);
        }
    }

    /// Removes a store with its files. Complains if that fails.
    pub(crate) fn remove(&self, path: &PathBuf) {
        if let Err(error) = std::fs::remove_dir_all(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            say(&format!("cannot remove {}: {error}", path.display()));
        }
    }
}
