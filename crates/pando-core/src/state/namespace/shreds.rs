//! Removed files that lose their slices in steps.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::records::record::Shred;

/// Time after which a step that failed is tried again, nanoseconds.
const AGAIN_AFTER: u64 = 10_000_000_000;
/// Time after which a file is given up if its steps fail, nanoseconds.
const GIVE_UP_AFTER: u64 = 60_000_000_000;

/// When slices could not be read first, and when they are tried again.
#[derive(Clone, Copy)]
struct Stuck {
    since: u64,
    again: u64,
}

/// Removed files that lose their slices in steps.
#[derive(Default)]
pub struct Shreds {
    /// All of them, by the common prefix of the slices' keys.
    all: BTreeMap<Vec<u8>, Shred>,
    /// Those that have slices which could not be read.
    stuck: BTreeMap<Vec<u8>, Stuck>,
    /// No step runs before this time, nanoseconds.
    until: u64,
}

impl Shreds {
    /// Begins a removal in steps.
    pub(crate) fn begin(&mut self, slices: Vec<u8>, shred: Shred) {
        self.all.insert(slices, shred);
        self.until = 0;
    }

    /// Ends a removal in steps.
    pub(crate) fn end(&mut self, slices: &[u8]) -> Option<Shred> {
        let shred = self.all.remove(slices)?;
        self.stuck.remove(slices);
        Some(shred)
    }

    /// Files of which a step is due, at most `most`.
    pub(crate) fn due(&self, now: u64, most: usize) -> Vec<Vec<u8>> {
        if self.all.is_empty() || now < self.until {
            return Vec::new();
        }
        let is_due =
            |slices: &&Vec<u8>| self.stuck.get(*slices).is_none_or(|stuck| stuck.again <= now);
        self.all.keys().filter(is_due).take(most).cloned().collect()
    }

    /// When the next step is due, nanoseconds; `None`: no file is being removed.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let is_any_due = self.all.len() > self.stuck.len();
        let again = self.stuck.values().map(|stuck| stuck.again).min().filter(|_| !is_any_due);
        (!self.all.is_empty()).then_some(self.until.max(again.unwrap_or(0)))
    }

    /// Notes that a step did not meet an unreadable slice.
    pub(crate) fn note_readable(&mut self, slices: &[u8]) {
        self.stuck.remove(slices);
    }

    /// Notes that a step met an unreadable slice. Returns whether it has failed for so long that
    /// the slices are given up.
    pub(crate) fn note_unreadable(&mut self, slices: &[u8], now: u64) -> bool {
        let since = self.stuck.get(slices).map_or(now, |stuck| stuck.since);
        let is_given_up = now >= since.saturating_add(GIVE_UP_AFTER);
        if !is_given_up {
            let again = now.saturating_add(AGAIN_AFTER);
            self.stuck.insert(slices.to_vec(), Stuck { since, again });
        }
        is_given_up
    }

    /// Takes over from `old`, when the shard begins anew, what could not be read. No step runs
    /// before `until`, nanoseconds.
    pub(crate) fn keep(&mut self, old: &mut Self, until: u64) {
        self.stuck = core::mem::take(&mut old.stuck);
        self.stuck.retain(|slices, _| self.all.contains_key(slices));
        self.until = until;
    }
}

/// The lock under which a file is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// No lock. The slices go in steps only if no transaction holds the file's lock.
    Nothing,
    /// No lock, for one of many files that are removed at once. Only a few slices may go now. The
    /// rest go in steps, only if no transaction holds the file's lock.
    NothingOfMany,
    /// The lock of the step that removes the file by its decision. The slices go in steps only if
    /// no other step holds it.
    Its,
}
