//! Asking for the memory that an insert group will touch, before its first change is applied: the
//! searches then wait together and not one after the other.
//!
//! What the group before touched is still near, and asking for it costs more than it saves: of the
//! records that a create changes, all but one are changed by the next create as well (7 % of
//! creates through a socket, docs/BENCHMARKS-HISTORY.md, "The library over sockets"). So a small
//! group that begins under the same prefix as the one before asks for nothing. (Groups of one
//! change, which have nothing to ask for, do not count.)

use crate::batch::{Batch, Change};
use crate::state::State;
use crate::tree::parts::{Prefix, split};

/// Changes of a group whose places are asked for; more would push each other out.
const PREFETCHED_MAX: usize = 8;

impl State {
    /// Asks for what the changes of the next group will touch.
    #[inline]
    pub(crate) fn prefetch(&mut self, batch: &Batch) {
        if batch.len() < 2 {
            return;
        }
        let mut changes = batch.iter();
        let begins_at = changes.next().and_then(|change| prefix(&change));
        let before = std::mem::replace(&mut self.last_prefix, begins_at);
        if before != begins_at || batch.len() > PREFETCHED_MAX {
            // The first needs no asking: it is next.
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
