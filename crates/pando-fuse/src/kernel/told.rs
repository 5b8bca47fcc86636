//! What the kernel was told of who may do what: it decides by that.
//!
//! The kernel asks again before it decides, and a name's answer comes right before the request that removes or moves it. So
//! what was told last is what it decides by.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use pando_types::{Judged, Name};

/// Parts of the table of nodes, so that threads seldom wait for each other.
const PARTS: usize = 16;
/// Names whose answers are remembered. Each is needed for the length of one system call.
const NAMES: usize = 1024;

/// A name in a directory, by the directory's node.
type Place = (u64, Name);

/// See the module.
pub(super) struct Told {
    nodes: [Mutex<HashMap<u64, Judged, RandomState>>; PARTS],
    names: Mutex<Vec<Option<(Place, Judged)>>>,
    hasher: RandomState,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            nodes: std::array::from_fn(|_| Mutex::default()),
            names: Mutex::new(vec![None; NAMES]),
            hasher: RandomState::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Told {
    fn part(&self, node: u64) -> MutexGuard<'_, HashMap<u64, Judged, RandomState>> {
        lock(&self.nodes[(node % PARTS as u64) as usize])
    }

    fn slot(&self, place: &Place) -> usize {
        (self.hasher.hash_one(place) % NAMES as u64) as usize
    }

    /// The kernel is told this of a node.
    pub(super) fn put(&self, node: u64, judged: Judged) {
        self.part(node).insert(node, judged);
    }

    /// What the kernel was told last of a node.
    pub(super) fn of_node(&self, node: u64) -> Option<Judged> {
        self.part(node).get(&node).copied()
    }

    /// The kernel is told this of what a name leads to.
    pub(super) fn put_name(&self, place: Place, judged: Judged) {
        let slot = self.slot(&place);
        lock(&self.names)[slot] = Some((place, judged));
    }

    /// What the kernel was told last of what a name leads to.
    pub(super) fn of_name(&self, place: &Place) -> Option<Judged> {
        let slot = self.slot(place);
        lock(&self.names)[slot].as_ref().filter(|(known, _)| known == place).map(|known| known.1)
    }

    /// The kernel forgets a node.
    pub(super) fn forget(&self, node: u64) {
        self.part(node).remove(&node);
    }

    /// What was told of names does not count any more.
    pub(super) fn clear_names(&self) {
        lock(&self.names).fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Judged = Judged { mode: 0o755, uid: 1, gid: 1 };
    const TWO: Judged = Judged { mode: 0o700, uid: 2, gid: 2 };

    fn place(dir: u64, name: &str) -> Place {
        (dir, Name::new(name.as_bytes()).expect("valid"))
    }

    #[test]
    fn what_was_told_last_counts() {
        let told = Told::default();
        assert_eq!((told.of_node(7), told.of_name(&place(7, "a"))), (None, None));
        told.put(7, ONE);
        told.put(7, TWO);
        told.put(7 + PARTS as u64, ONE);
        told.put_name(place(7, "a"), ONE);
        assert_eq!((told.of_node(7), told.of_name(&place(7, "a"))), (Some(TWO), Some(ONE)));
        assert_eq!((told.of_name(&place(8, "a")), told.of_name(&place(7, "b"))), (None, None));
        told.forget(7);
        assert_eq!((told.of_node(7), told.of_node(7 + PARTS as u64)), (None, Some(ONE)));
        told.clear_names();
        assert_eq!(told.of_name(&place(7, "a")), None);
    }
}
