//! What shard 0 knows of other shards: which events they have heard, and were told.

use alloc::vec::Vec;
use pando_types::ShardIndex;
use pando_types::peer::SessionEvent;

use super::{Other, SessionLog};

/// Events that shard 0 remembers. A shard that is further behind gets the whole table.
const EVENTS_MAX: usize = 4096;
/// The furthest that another shard's position may be ahead of shard 0's. A message that claims more
/// is unsound.
const AHEAD_MAX: u64 = 1 << 32;

/// What a shard has not heard.
#[derive(Clone, Copy)]
pub enum Unheard {
    /// Events that it was not told.
    Untold,
    /// Events that it has not acknowledged.
    Unacknowledged,
}

/// What an acknowledgement means for shard 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// The events are known here.
    Known,
    /// Shard 0 was restored from an older copy, and has gone on to a later position.
    Ahead,
    /// No shard can have heard so much.
    Unsound,
}

impl SessionLog {
    /// Adds a begin or end to the sequence.
    pub(crate) fn add_event(&mut self, event: SessionEvent, now: u64) {
        self.heard.position += 1;
        if let SessionEvent::Begins(session, _) = event {
            self.heard.last = session.number();
        }
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
        self.reached.push_back((self.heard.position, now));
        self.note_said(now);
    }

    /// Notes that something is told now.
    pub(crate) fn note_said(&mut self, now: u64) {
        self.said_at = now;
    }

    /// When what was not acknowledged is told again, nanoseconds.
    pub(crate) fn next_telling(&self, again: u64) -> u64 {
        self.said_at.saturating_add(again)
    }

    /// The position after which a shard has not heard the events. `None`: it has heard all.
    pub(crate) fn unheard_by(&mut self, shard: ShardIndex, unheard: Unheard) -> Option<u64> {
        let floor = self.floor();
        let now = (self.heard.position, self.known, self.freed);
        let other = self.others.entry(shard).or_insert(Other { told: floor, ..Other::default() });
        let Other { heard, told, told_known, told_freed, .. } = *other;
        match unheard {
            Unheard::Unacknowledged => self.is_behind(shard).then(|| heard.unwrap_or(floor)),
            Unheard::Untold => ((told, told_known, told_freed) != now).then_some(told),
        }
    }

    /// All events after a position. `None`: some of them are forgotten.
    pub(crate) fn events_since(&self, since: u64) -> Option<Vec<SessionEvent>> {
        if since < self.floor() {
            return None;
        }
        let newer = self.heard.position.saturating_sub(since) as usize;
        let older = self.events.len().saturating_sub(newer);
        Some(self.events.range(older..).copied().collect())
    }

    /// Notes that a shard is told all that shard 0 knows.
    pub(crate) fn note_told_to(&mut self, shard: ShardIndex) {
        let other = self.others.entry(shard).or_default();
        (other.told, other.told_known, other.told_freed) =
            (self.heard.position, self.known, self.freed);
    }

    /// Notes what a shard acknowledges: all events up to a position, and that ends are known
    /// everywhere, and freed.
    pub(crate) fn acknowledge(
        &mut self,
        shard: ShardIndex,
        position: u64,
        (known, freed): (u64, u64),
        now: u64,
    ) -> Acknowledged {
        if position > self.heard.position.saturating_add(AHEAD_MAX) {
            return Acknowledged::Unsound;
        }
        let is_ahead = position > self.heard.position;
        if is_ahead {
            // Sessions that shard 0 does not know are over.
            self.heard.position = position.saturating_add(1);
            self.reached.push_back((self.heard.position, now));
            self.events.clear();
        }
        let other = self.others.entry(shard).or_default();
        other.heard = other.heard.max(Some(position));
        other.known = other.known.max(known);
        other.freed = other.freed.max(freed);
        if is_ahead { Acknowledged::Ahead } else { Acknowledged::Known }
    }

    /// Notes that a shard asks for the events after a position. What it has heard may not be on its
    /// disk. If it has just started, it has forgotten which ends are known everywhere.
    pub(crate) fn note_asked_by(&mut self, shard: ShardIndex, position: u64) {
        if let Some(other) = self.others.get_mut(&shard) {
            other.heard = other.heard.map(|heard| heard.min(position));
            (other.known, other.freed) = (0, 0);
        }
    }

    /// The position that a shard has acknowledged since shard 0 started.
    pub(crate) fn heard_by(&self, shard: ShardIndex) -> Option<u64> {
        self.others.get(&shard).and_then(|other| other.heard)
    }

    /// Whether one of this number of shards is behind, if that is noted.
    pub(crate) fn is_any_behind(&self, shards: u16) -> Option<bool> {
        self.behind.filter(|(of, _)| *of == shards).map(|(_, is_any)| is_any)
    }

    /// Notes whether one of this number of shards is behind.
    pub(crate) fn note_behind(&mut self, shards: u16, is_any: bool) {
        self.behind = Some((shards, is_any));
    }

    /// All events above this position are in `events`.
    fn floor(&self) -> u64 {
        self.heard.position.saturating_sub(self.events.len() as u64)
    }

    /// Whether a shard has not heard all that shard 0 knows.
    pub(crate) fn is_behind(&self, shard: ShardIndex) -> bool {
        let other = self.others.get(&shard).copied().unwrap_or_default();
        other.heard != Some(self.heard.position)
            || other.known < self.known
            || other.freed < self.freed
    }
}
