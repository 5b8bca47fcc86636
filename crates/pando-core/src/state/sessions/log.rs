//! What a shard knows of begins and ends of sessions; at shard 0 also how far other shards are.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pando_types::peer::{SessionAsk, SessionEvent};
use pando_types::{Ino, KeyId, Lsn, SessionId, ShardIndex};

use crate::contract::ClientTag;
use crate::records::record::SessionsHeard;
use crate::state::sessions::over::Over;

/// Pause before unfinished cleaning of ended sessions is taken up again, nanoseconds.
pub const AGAIN_AFTER: u64 = 1_000_000_000;
/// Pause after a step of cleaning that leaves more to do, nanoseconds.
pub const CLEAN_AFTER: u64 = 1_000_000;
/// Pause after a step of cleaning that failed, nanoseconds.
pub const PUT_OFF: u64 = 10_000_000_000;

/// What a shard knows of begins and ends of sessions, except the sessions that live.
#[derive(Default, Debug)]
pub struct SessionLog {
    /// How far this shard has heard of begins and ends, as its record says.
    pub heard: SessionsHeard,
    /// Log position of the last group that ended a session.
    pub(crate) ended_at: Lsn,
    /// All shards know the ends up to this position.
    pub(crate) known: u64,
    /// Locks of sessions that ended up to this position may go.
    pub(crate) freed: u64,
    /// At shard 0: positions that are not freed, and when each was reached, nanoseconds.
    pub(crate) reached: VecDeque<(u64, u64)>,
    /// Sessions that are over and have left something here, or may be alive on another shard.
    pub(crate) over: BTreeMap<SessionId, Over>,
    /// Sessions in `over` for which cleaning can do something now.
    pub(crate) unclean: BTreeSet<SessionId>,
    /// Sessions in `unclean` that are cleaned next, in order.
    pub(crate) cleaning: VecDeque<SessionId>,
    /// When cleaning takes up `unclean` again, nanoseconds.
    pub(crate) clean_at: u64,
    /// Whether shard 0 has told something since this shard started.
    pub(crate) is_told: bool,
    /// When this shard last asked shard 0 what it has missed, nanoseconds.
    pub(crate) asked_at: Option<u64>,
    /// Sessions about which shard 0 was asked, and has not answered.
    pub(crate) asks: BTreeMap<SessionId, Ask>,
    /// At shard 0: the newest events.
    pub(crate) events: VecDeque<SessionEvent>,
    /// At shard 0: how far each other shard is.
    pub(crate) others: BTreeMap<ShardIndex, Other>,
    /// At shard 0: for this number of shards, whether one is behind. Each input reads it.
    pub(crate) behind: Option<(u16, bool)>,
    /// At shard 0: when it last told again what was not acknowledged, nanoseconds.
    pub(crate) said_at: u64,
}

/// A question to shard 0 about a session.
#[derive(Debug)]
pub(crate) struct Ask {
    /// When it was last sent, nanoseconds.
    pub(crate) at: u64,
    /// The question.
    pub(crate) what: SessionAsk,
    /// Clients to refuse if there is no such session. Later requests may be of a session that has
    /// begun since.
    pub(crate) of: BTreeSet<ClientTag>,
}

/// How far another shard is, as shard 0 knows.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Other {
    /// The position that the shard has acknowledged since shard 0 started.
    pub(crate) heard: Option<u64>,
    /// Up to where the shard knows that ends are known everywhere.
    pub(crate) known: u64,
    /// Up to where the shard knows that ends are freed.
    pub(crate) freed: u64,
    /// The position that the shard was told last.
    pub(crate) told: u64,
    /// The `known` that the shard was told last.
    pub(crate) told_known: u64,
    /// The `freed` that the shard was told last.
    pub(crate) told_freed: u64,
}

impl SessionLog {
    /// Begins to count the time until ends are freed, at the start of shard 0. It does not know
    /// when the position of its records was reached.
    pub fn begin_freeing(&mut self, now: u64) {
        self.reached = [(self.heard.position, now)].into();
    }

    /// Notes that the group at this log position ends a session.
    pub fn note_end(&mut self, at: Lsn) {
        self.ended_at = at;
    }

    /// Whether a loss of power could undo an end.
    pub fn is_end_unsynced(&self, durable: Lsn) -> bool {
        durable < self.ended_at
    }

    /// The key of a session that is over, if the key is known. `None`: the session is not in
    /// `over`.
    pub fn was_of(&self, session: SessionId) -> Option<Option<KeyId>> {
        self.over.get(&session).map(|over| over.key)
    }

    pub fn add_over(&mut self, session: SessionId, over: Over) {
        self.over.insert(session, over);
        self.unclean.insert(session);
        self.cleaning.push_back(session);
    }

    /// Notes that nothing can be cleaned of a session for now.
    pub fn is_clean(&mut self, session: SessionId) {
        self.unclean.remove(&session);
    }

    pub fn forget_over(&mut self, session: SessionId) {
        self.is_clean(session);
        self.over.remove(&session);
    }

    /// Whether the session is over here, and its end is not known everywhere.
    pub fn is_over_somewhere(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.known)
    }

    /// Whether locks of a session that is over must stay for now.
    pub fn has_locks_yet(&self, session: SessionId) -> bool {
        self.over.get(&session).is_some_and(|over| over.at > self.freed)
    }

    /// All sessions that are over and still kept here.
    pub fn over(&self) -> impl Iterator<Item = (SessionId, &Over)> {
        self.over.iter().map(|(session, over)| (*session, over))
    }

    /// The next session to clean.
    pub fn next_to_clean(&mut self) -> Option<SessionId> {
        self.cleaning.pop_front().filter(|session| self.over.contains_key(session))
    }

    pub fn is_cleaning(&self) -> bool {
        !self.cleaning.is_empty()
    }

    /// Notes that cleaning has more to do, after other work.
    pub fn clean_soon(&mut self, now: u64) {
        self.clean_at = now.saturating_add(CLEAN_AFTER);
    }

    /// Notes that an inode could not be read.
    pub fn note_stuck(&mut self, session: SessionId, ino: Ino) {
        if let Some(over) = self.over.get_mut(&session) {
            over.stuck.push(ino);
        }
    }

    /// After all inodes were tried: queues those that could not be read for a later try. Returns
    /// whether there are any.
    pub fn take_up_stuck(&mut self, session: SessionId, now: u64) -> bool {
        let Some(over) = self.over.get_mut(&session) else { return false };
        let is_stuck = !over.stuck.is_empty();
        if is_stuck {
            over.opens = Some(core::mem::take(&mut over.stuck));
            self.clean_at = now.saturating_add(PUT_OFF);
        }
        is_stuck
    }

    /// Inodes that an ended session had open when cleaning began, and that are not cleaned yet.
    pub fn opens_of_over(&mut self, session: SessionId) -> Option<&mut Vec<Ino>> {
        self.over.get_mut(&session)?.opens.as_mut()
    }

    pub fn set_opens_of_over(&mut self, session: SessionId, opens: Vec<Ino>) {
        if let Some(over) = self.over.get_mut(&session) {
            over.opens = Some(opens);
        }
    }

    /// Queues all unfinished sessions for cleaning, when their time has come.
    pub fn clean_again(&mut self, now: u64) {
        if self.cleaning.is_empty() && now >= self.clean_at && !self.unclean.is_empty() {
            self.clean_at = now.saturating_add(AGAIN_AFTER);
            self.cleaning.extend(&self.unclean);
        }
    }

    /// Takes in how far ends are known everywhere, and freed. An end that is known everywhere is
    /// freed, too.
    pub(crate) fn learn_known(&mut self, known: u64, freed: u64) {
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

    /// At shard 0: the highest position that was reached at least `grace` ago. A shard that has not
    /// heard it by now is away.
    pub(crate) fn free(&mut self, now: u64, grace: u64) -> u64 {
        let mut freed = self.freed;
        while let Some((position, at)) = self.reached.front()
            && at.saturating_add(grace) <= now
        {
            freed = freed.max(*position);
            self.reached.pop_front();
        }
        freed
    }

    /// Takes over from `old`, when the shard begins anew, what the records do not tell.
    pub fn keep(&mut self, old: &mut Self, now: u64) {
        (self.known, self.freed, self.ended_at) = (old.known, old.freed, old.ended_at);
        self.reached = core::mem::take(&mut old.reached);
        self.reached.retain(|(position, _)| *position <= self.heard.position);
        self.cleaning.clear();
        // The step that failed may have been one of cleaning.
        let is_put_off = old.clean_at > now;
        self.clean_at = if is_put_off { old.clean_at } else { now.saturating_add(PUT_OFF) };
        self.events = core::mem::take(&mut old.events);
        // Events of a dropped group have not been told.
        let dropped = old.heard.position.saturating_sub(self.heard.position);
        self.events.truncate(self.events.len().saturating_sub(dropped as usize));
        self.others = core::mem::take(&mut old.others);
        for other in self.others.values_mut() {
            other.told = other.told.min(self.heard.position);
        }
        (self.said_at, self.behind) = (old.said_at, None);
        (self.is_told, self.asked_at) = (old.is_told, old.asked_at);
    }

    /// All events above this position are in `events`.
    pub(crate) fn floor(&self) -> u64 {
        self.heard.position.saturating_sub(self.events.len() as u64)
    }

    pub(crate) fn is_behind(&self, shard: ShardIndex) -> bool {
        let other = self.others.get(&shard).copied().unwrap_or_default();
        other.heard != Some(self.heard.position)
            || other.known < self.known
            || other.freed < self.freed
    }
}
