//! How versions of directories spread: at shard 0 to all shards, elsewhere from shard 0.

use alloc::collections::BTreeMap;
use pando_types::{ShardIndex, TxnId};

use crate::contract::Config;

/// State of the spreading of versions.
#[derive(Default, Debug)]
pub struct Broadcast {
    /// At shard 0: how far the other shards are.
    others: BTreeMap<ShardIndex, Other>,
    /// At shard 0: for this number of shards, the version up to which the slowest knows all. Each
    /// input reads it.
    slowest: (u16, u64),
    /// At shard 0: versions that not all shards know yet.
    pending: BTreeMap<u64, Pending>,
    /// When this shard last asked, or when shard 0 last told again what was not acknowledged,
    /// nanoseconds.
    said_at: u64,
    /// When this shard first asked, nanoseconds.
    asking_since: Option<u64>,
}

/// How far another shard is, as shard 0 knows.
#[derive(Clone, Copy, Default, Debug)]
struct Other {
    /// The version up to which it has acknowledged all, since shard 0 started.
    known: u64,
    /// The version that it was told last.
    told: u64,
    /// When it was told that version, nanoseconds.
    told_at: u64,
    /// Since when it has not acknowledged what it was told, nanoseconds.
    silent_since: Option<u64>,
}

/// A version that not all shards know yet.
#[derive(Debug)]
pub struct Pending {
    /// The step that waits for the version.
    pub(crate) at: (TxnId, u16),
    /// The step's coordinator.
    pub(crate) from: ShardIndex,
    /// When the version is given up, nanoseconds.
    pub(crate) until: u64,
}

impl Broadcast {
    /// Whether this shard has asked for so long that shard 0 must be away.
    pub fn is_waiting_in_vain(&self, config: &Config, now: u64) -> bool {
        self.asking_since.is_some_and(|since| since.saturating_add(config.versions_wait) <= now)
    }

    /// Notes that this shard asks shard 0 now.
    pub(crate) fn ask(&mut self, now: u64) {
        self.asking_since.get_or_insert(now);
        self.said_at = now;
    }

    /// Notes that shard 0 has answered.
    pub(crate) fn end_asking(&mut self) {
        self.asking_since = None;
    }

    /// Whether this shard has asked, and was not answered.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking_since.is_some()
    }

    /// When this shard asks or tells again, nanoseconds.
    pub(crate) fn next_saying(&self, again: u64) -> u64 {
        self.said_at.saturating_add(again)
    }

    /// Notes that what was not acknowledged is told again now.
    pub(crate) fn note_said(&mut self, now: u64) {
        self.said_at = now;
    }

    /// At shard 0: whether a step waits for a version.
    pub(crate) fn has_step(&self, at: (TxnId, u16)) -> bool {
        self.pending.values().any(|pending| pending.at == at)
    }

    /// At shard 0: lets a step wait until all shards know a version, given out now.
    pub(crate) fn begin(&mut self, version: u64, pending: Pending, now: u64) {
        if self.pending.is_empty() {
            self.said_at = now;
            // Earlier messages may have been lost, and no version needs to gather.
            self.others.values_mut().for_each(|other| other.told = other.known);
        }
        self.pending.insert(version, pending);
    }

    /// Forgets a step that no longer waits.
    pub(crate) fn forget(&mut self, at: (TxnId, u16)) {
        self.pending.retain(|_, pending| pending.at != at);
    }

    /// Takes the step with the lowest version, if that is known up to `known`.
    pub(crate) fn take_known(&mut self, known: u64) -> Option<(u64, Pending)> {
        let first = self.pending.first_entry()?;
        (*first.key() <= known).then(|| first.remove_entry())
    }

    /// Takes a step that has waited for too long.
    pub(crate) fn take_late(&mut self, now: u64) -> Option<Pending> {
        let late = self.pending.iter().find(|(_, pending)| pending.until <= now);
        let version = late.map(|(version, _)| *version)?;
        self.pending.remove(&version)
    }

    /// When the next version is given up, nanoseconds.
    pub(crate) fn next_late(&self) -> Option<u64> {
        self.pending.values().map(|pending| pending.until).min()
    }

    /// At shard 0: the version up to which a shard has acknowledged.
    pub(crate) fn known_by(&self, shard: ShardIndex) -> u64 {
        self.others.get(&shard).map_or(0, |other| other.known)
    }

    /// At shard 0: the version up to which all of this number of shards know, if that is noted.
    pub(crate) fn known_by_all(&self, shards: u16) -> Option<u64> {
        Some(self.slowest).filter(|(of, _)| *of == shards).map(|(_, known)| known)
    }

    /// At shard 0: notes the version up to which all of this number of shards know.
    pub(crate) fn note_known_by_all(&mut self, shards: u16, known: u64) {
        self.slowest = (shards, known);
    }

    /// At shard 0: whether a shard has not acknowledged what it was told for `wait` nanoseconds.
    pub(crate) fn is_told_in_vain(&self, now: u64, wait: u64) -> bool {
        let is_silent = |other: &Other| {
            other.silent_since.is_some_and(|since| since.saturating_add(wait) <= now)
        };
        self.others.values().any(is_silent)
    }

    /// At shard 0: tells a shard the versions up to `version` now. Returns the version after which
    /// it does not know them. `None`: it knows all, or its answer is due within `again`
    /// nanoseconds.
    pub(crate) fn tell(
        &mut self,
        shard: ShardIndex,
        version: u64,
        now: u64,
        again: u64,
    ) -> Option<u64> {
        let other = self.others.entry(shard).or_default();
        let until = other.told_at.saturating_add(again);
        if other.known >= version || (other.told > other.known && now < until) {
            return None;
        }
        (other.told, other.told_at) = (version, now);
        other.silent_since.get_or_insert(now);
        Some(other.known)
    }

    /// At shard 0: notes that a shard acknowledges all versions up to this one.
    pub(crate) fn acknowledge(&mut self, shard: ShardIndex, version: u64) {
        let other = self.others.entry(shard).or_default();
        other.known = version.max(other.known);
        other.silent_since = None;
    }
}
