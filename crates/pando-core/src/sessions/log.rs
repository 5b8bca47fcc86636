//! What a shard knows of begins and ends of sessions, and, of shard 0, how far others are.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pando_types::peer::{SessionAsk, SessionEvent};
use pando_types::{Ino, KeyId, Lsn, SessionId, ShardIndex};

use super::Over;
use crate::contract::ClientTag;
use crate::record::SessionsHeard;

/// What sessions have left is taken up again after this long, nanoseconds,
const AGAIN_AFTER: u64 = 1_000_000_000;
/// after this long where only a step of it was made,
const CLEAN_AFTER: u64 = 1_000_000;
/// and after this long where something of it could not be done.
const PUT_OFF: u64 = 10_000_000_000;

/// What a shard knows of begins and ends of sessions, besides those that live.
#[derive(Default, Debug)]
pub struct SessionLog {
    /// What has been heard, as recorded.
    pub heard: SessionsHeard,
    /// Log position of the last end.
    pub(super) ended_at: Lsn,
    /// Ends up to this position are known everywhere.
    pub(super) known: u64,
    /// Locks of sessions that ended up to this position go.
    pub(super) freed: u64,
    /// Of shard 0: when each position was reached, of those that are not freed.
    pub(super) reached: VecDeque<(u64, u64)>,
    /// Sessions that are over, and have something here, or may have something elsewhere.
    pub(super) over: BTreeMap<SessionId, Over>,
    /// Of those, what something can be done about.
    pub(super) unclean: BTreeSet<SessionId>,
    /// Of those, whose turn it is.
    pub(super) cleaning: VecDeque<SessionId>,
    /// When the others are looked at again, nanoseconds.
    pub(super) clean_at: u64,
    /// Shard 0 has told something since this shard started.
    pub(super) is_told: bool,
    /// When shard 0 was last asked for that, nanoseconds.
    pub(super) asked_at: Option<u64>,
    /// Sessions that shard 0 was asked about.
    pub(super) asks: BTreeMap<SessionId, Ask>,
    /// Of shard 0: the newest events, and how far others are.
    pub(super) events: VecDeque<SessionEvent>,
    pub(super) others: BTreeMap<ShardIndex, Other>,
    /// Of shard 0: whether one of so many is behind. Looked at with every input.
    pub(super) behind: Option<(u16, bool)>,
    /// Of shard 0: when it last looked who has not answered, nanoseconds.
    pub(super) said_at: u64,
}

/// Shard 0 was asked about a session.
#[derive(Debug)]
pub(super) struct Ask {
    /// When, nanoseconds.
    pub(super) at: u64,
    pub(super) what: SessionAsk,
    /// The requests that are refused if there is no such session. Later ones may be of one that has
    /// begun since.
    pub(super) of: BTreeSet<ClientTag>,
}

/// How far another shard is.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Other {
    /// What it has said that it has heard, in shard 0's life.
    pub(super) heard: Option<u64>,
    pub(super) known: u64,
    pub(super) freed: u64,
    /// What it was told last.
    pub(super) told: u64,
    pub(super) told_known: u64,
    pub(super) told_freed: u64,
}

impl SessionLog {
    /// Of shard 0, at its start: it does not know when this was reached.
    pub fn begin_freeing(&mut self, now: u64) {
        self.reached = [(self.heard.position, now)].into();
    }

    /// A session ends with the group at this log position.
    pub fn note_end(&mut self, at: Lsn) {
        self.ended_at = at;
    }

    /// Whether an end might be lost with the power yet.
    pub fn is_end_unsynced(&self, durable: Lsn) -> bool {
        durable < self.ended_at
    }

    /// Whose a session was that is over.
    pub fn was_of(&self, session: SessionId) -> Option<Option<KeyId>> {
        self.over.get(&session).map(|over| over.key)
    }

    pub fn add_over(&mut self, session: SessionId, over: Over) {
        self.over.insert(session, over);
        self.unclean.insert(session);
        self.cleaning.push_back(session);
    }

    /// Nothing can be done about it for now.
    pub fn is_clean(&mut self, session: SessionId) {
        self.unclean.remove(&session);
    }

    pub fn forget_over(&mut self, session: SessionId) {
        self.is_clean(session);
        self.over.remove(&session);
    }

    /// Whether the session is over here, and perhaps not everywhere.
    pub fn is_over_somewhere(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.known)
    }

    /// Whether locks of a session that is over stay for now.
    pub fn has_locks_yet(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.freed)
    }

    /// All of them.
    pub fn over(&self) -> impl Iterator<Item = (SessionId, &Over)> {
        self.over.iter().map(|(session, over)| (*session, over))
    }

    /// Whose turn it is.
    pub fn next_to_clean(&mut self) -> Option<SessionId> {
        self.cleaning.pop_front().filter(|session| self.over.contains_key(session))
    }

    pub fn is_cleaning(&self) -> bool {
        !self.cleaning.is_empty()
    }

    /// There is more to do, after what others want.
    pub fn clean_soon(&mut self, now: u64) {
        self.clean_at = now.saturating_add(CLEAN_AFTER);
    }

    /// An inode could not be read.
    pub fn note_stuck(&mut self, session: SessionId, ino: Ino) {
        if let Some(over) = self.over.get_mut(&session) {
            over.stuck.push(ino);
        }
    }

    /// All inodes have been tried. Whether some could not be read: they are tried again later.
    pub fn take_up_stuck(&mut self, session: SessionId, now: u64) -> bool {
        let Some(over) = self.over.get_mut(&session) else { return false };
        let is_stuck = !over.stuck.is_empty();
        if is_stuck {
            over.opens = Some(core::mem::take(&mut over.stuck));
            self.clean_at = now.saturating_add(PUT_OFF);
        }
        is_stuck
    }

    /// Inodes that a session that is over had open when that was first looked at, and that were not
    /// seen to yet.
    pub fn opens_of_over(&mut self, session: SessionId) -> Option<&mut Vec<Ino>> {
        self.over.get_mut(&session)?.opens.as_mut()
    }

    pub fn set_opens_of_over(&mut self, session: SessionId, opens: Vec<Ino>) {
        if let Some(over) = self.over.get_mut(&session) {
            over.opens = Some(opens);
        }
    }

    /// What was put off is taken up.
    pub fn clean_again(&mut self, now: u64) {
        if self.cleaning.is_empty() && now >= self.clean_at && !self.unclean.is_empty() {
            self.clean_at = now.saturating_add(AGAIN_AFTER);
            self.cleaning.extend(&self.unclean);
        }
    }

    /// Locks may be free before an end is known everywhere, and are when it is.
    pub(super) fn learn_known(&mut self, known: u64, freed: u64) {
        let freed = freed.max(known).max(self.freed);
        let known = known.max(self.known);
        if (known, freed) == (self.known, self.freed) {
            return;
        }
        (self.known, self.freed) = (known, freed);
        let over: Vec<_> =
            self.over.iter().filter(|(_, over)| over.at <= freed).map(|(s, _)| *s).collect();
        self.unclean.extend(&over);
        self.cleaning.extend(over);
    }

    /// Of shard 0: what was reached so long ago that whoever has not heard it is away.
    pub(super) fn free(&mut self, now: u64, grace: u64) -> u64 {
        let mut freed = self.freed;
        while let Some((position, at)) = self.reached.front()
            && at.saturating_add(grace) <= now
        {
            freed = freed.max(*position);
            self.reached.pop_front();
        }
        freed
    }

    /// The shard has begun anew: what its records do not tell stays.
    pub fn keep(&mut self, old: &mut Self, now: u64) {
        (self.known, self.freed, self.ended_at) = (old.known, old.freed, old.ended_at);
        self.reached = core::mem::take(&mut old.reached);
        self.reached.retain(|(position, _)| *position <= self.heard.position);
        self.cleaning.clear();
        // It may have been a step of that which could not be done.
        let is_put_off = old.clean_at > now;
        self.clean_at = if is_put_off { old.clean_at } else { now.saturating_add(PUT_OFF) };
        self.events = core::mem::take(&mut old.events);
        // What was dropped has not been told.
        let dropped = old.heard.position.saturating_sub(self.heard.position);
        self.events.truncate(self.events.len().saturating_sub(dropped as usize));
        self.others = core::mem::take(&mut old.others);
        for other in self.others.values_mut() {
            other.told = other.told.min(self.heard.position);
        }
        (self.said_at, self.behind) = (old.said_at, None);
        (self.is_told, self.asked_at) = (old.is_told, old.asked_at);
    }

    /// All events above this position are remembered.
    pub(super) fn floor(&self) -> u64 {
        self.heard.position.saturating_sub(self.events.len() as u64)
    }

    pub(super) fn is_behind(&self, shard: ShardIndex) -> bool {
        let other = self.others.get(&shard).copied().unwrap_or_default();
        other.heard != Some(self.heard.position)
            || other.known < self.known
            || other.freed < self.freed
    }
}
