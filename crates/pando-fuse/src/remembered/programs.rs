//! Files that the kernel knows as programs of their owner or group.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Files that the kernel knows as programs of their owner or group: setuid or setgid is set. They
/// are few.
#[derive(Default)]
pub(crate) struct Programs {
    nodes: Mutex<HashSet<u64>>,
    /// Number of these files. Changes to other files need not wait for the lock.
    count: AtomicUsize,
}

impl Programs {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<u64>) -> T) -> T {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut nodes);
        self.count.store(nodes.len(), Ordering::SeqCst);
        result
    }

    pub(crate) fn add(&self, node: u64) {
        self.change(|nodes| nodes.insert(node));
    }

    pub(crate) fn has(&self, node: u64) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.change(|nodes| nodes.contains(&node))
    }

    pub(crate) fn remove(&self, node: u64) {
        if self.has(node) {
            self.change(|nodes| nodes.remove(&node));
        }
    }
}
