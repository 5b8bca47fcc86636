//! Prefetches the memory that an insert group will touch, before its first change is applied. The
//! searches then wait for memory together, and not one after the other.
//!
//! Memory that the previous group touched is still in the caches, and prefetching it costs more
//! than it saves. Of the records that a create changes, the next create changes all but one again.
//! (This is 7 % of creates through a socket: docs/BENCHMARKS-HISTORY.md, "The library over
//! sockets".) So a small group under the prefix of the previous group prefetches nothing. Groups of
//! one change do not count: they have nothing to prefetch.

use crate::db::state::current::State;
use crate::log::batch::{Batch, Change};
use crate::tree::parts::{Prefix, split};

/// Most changes of a group for which memory is prefetched. More would evict each other.
const PREFETCHED_MAX: usize = 8;

impl State {
    /// Prefetches what the changes of the next group will touch.
    #[inline]
    pub(crate) fn prefetch(&mut self, batch: &Batch) {
        if batch.len() < 2 {
            return;
        }
        let mut changes = batch.iter();
        let begins_at = changes.next().and_then(|change| prefix(&change));
        let before = std::mem::replace(&mut self.last_prefix, begins_at);
        if before != begins_at || batch.len() > PREFETCHED_MAX {
            // The first change needs no prefetch: it is applied next.
            self.prefetch_each(changes.take(PREFETCHED_MAX));
        }
    }

    fn prefetch_each<'b>(&self, changes: impl Iterator<Item = Change<'b>>) {
        for change in changes {
            if let Change::Put { index, key, .. } | Change::Delete { index, key } = change
                && let Some(tree) = self.active.of(index)
            {
                tree.prefetch(key);
            }
        }
    }
}

fn prefix(change: &Change<'_>) -> Option<Prefix> {
    match change {
        Change::Put { key, .. } | Change::Delete { key, .. } => Some(split(key).0),
        _ => None,
    }
}
