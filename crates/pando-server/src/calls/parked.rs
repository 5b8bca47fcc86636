//! Requests that wait in a shard since its store is behind its writers.
//!
//! 1. Each has a tag in [`crate::calls::pending`]. A repetition takes over the tag, and is not
//!    parked a second time.
//! 2. Stopped requests leave in the order in which they came.

use std::collections::{BTreeMap, HashSet, VecDeque};

use pando_core::contract::ClientTag;
use pando_types::op::Request;

/// A request that waits.
pub(crate) struct Parked {
    pub(crate) tag: ClientTag,
    pub(crate) request: Box<Request>,
    /// When it was parked, by the clock of timers.
    pub(crate) since: u64,
}

/// All requests of a shard that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls {
    /// They wait for a time. The number tells those apart that are due together.
    slowed: BTreeMap<(u64, u64), Parked>,
    numbers: u64,
    /// They wait for a checkpoint, oldest first.
    stopped: VecDeque<Parked>,
    tags: HashSet<ClientTag, foldhash::fast::RandomState>,
}

impl ParkedCalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.tags.len()
    }

    pub(crate) fn has(&self, tag: ClientTag) -> bool {
        self.tags.contains(&tag)
    }

    pub(crate) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    pub(crate) fn stop(&mut self, parked: Parked) {
        self.tags.insert(parked.tag);
        self.stopped.push_back(parked);
    }

    pub(crate) fn slow(&mut self, until: u64, parked: Parked) {
        self.numbers += 1;
        self.tags.insert(parked.tag);
        self.slowed.insert((until, self.numbers), parked);
    }

    /// The oldest request that waits for a checkpoint.
    pub(crate) fn pop_stopped(&mut self) -> Option<Parked> {
        let parked = self.stopped.pop_front()?;
        self.tags.remove(&parked.tag);
        Some(parked)
    }

    /// A request whose time has come.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Parked> {
        let first = self.slowed.first_entry().filter(|first| first.key().0 <= now)?;
        let parked = first.remove();
        self.tags.remove(&parked.tag);
        Some(parked)
    }

    /// When the next request is due. `None`: none waits for a time.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.slowed.first_key_value().map(|((until, _), _)| *until)
    }

    pub(crate) fn clear(&mut self) {
        self.slowed.clear();
        self.stopped.clear();
        self.tags.clear();
    }
}

/// Requests that wait since the store is behind, and when to look at the store again.
pub(crate) struct Brake {
    /// Most memory of the store's trees, bytes.
    pub(crate) limit: usize,
    /// Bytes that may be written before the store is asked again. 0: it is asked for each request
    /// that could wait.
    pub(crate) left: u64,
    pub(crate) parked: ParkedCalls,
    /// When the timer runs the shard for slowed requests. `u64::MAX`: it was not asked.
    pub(crate) planned: u64,
    /// A checkpoint has ended: the oldest stopped request runs in any case.
    pub(crate) is_turn: bool,
}

impl Brake {
    pub(crate) fn new(limit: usize) -> Self {
        let parked = ParkedCalls::default();
        Self { limit, left: 0, parked, planned: u64::MAX, is_turn: false }
    }

    /// Notes that so many bytes were written.
    #[inline]
    pub(crate) const fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// A checkpoint or merge was installed: the store has to be asked again.
    pub(crate) const fn note_installed(&mut self, is_checkpoint: bool) {
        self.left = 0;
        self.is_turn |= is_checkpoint;
    }
}
