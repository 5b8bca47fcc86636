//! Mode and owners of the nodes that the kernel knows, as it was told last.
//!
//! This table permits nothing, since the kernel may have thrown an answer away. It only says for
//! which callers more must be read, and what a removed directory was.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use pando_types::Judged;

/// Number of parts of the table. Several parts make threads seldom wait for each other.
const PARTS: usize = 16;

/// The table of nodes.
pub(crate) struct Told {
    nodes: [Mutex<HashMap<u64, Judged, RandomState>>; PARTS],
}

impl Default for Told {
    fn default() -> Self {
        Self { nodes: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Told {
    fn part(&self, node: u64) -> MutexGuard<'_, HashMap<u64, Judged, RandomState>> {
        let part = &self.nodes[(node % PARTS as u64) as usize];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the kernel is told of a node.
    pub(crate) fn put(&self, node: u64, judged: Judged) {
        self.part(node).insert(node, judged);
    }

    /// What the kernel was told last of a node.
    pub(crate) fn of(&self, node: u64) -> Option<Judged> {
        self.part(node).get(&node).copied()
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        self.part(node).remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_last_counts() {
        let (one, two) =
            (Judged { mode: 0o755, uid: 1, gid: 1 }, Judged { mode: 0o700, uid: 2, gid: 2 });
        let told = Told::default();
        assert_eq!(told.of(7), None);
        told.put(7, one);
        told.put(7, two);
        told.put(7 + PARTS as u64, one);
        assert_eq!((told.of(7), told.of(7 + PARTS as u64)), (Some(two), Some(one)));
        told.forget(7);
        assert_eq!((told.of(7), told.of(7 + PARTS as u64)), (None, Some(one)));
    }
}
