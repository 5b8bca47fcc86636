//! What a shard knows of begins and ends of sessions; at shard 0 also how far other shards are.

mod asks;
mod cleaning;
mod telling;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use pando_types::peer::{SessionAsk, SessionEvent};
use pando_types::{Lsn, SessionId, ShardIndex};

pub use self::telling::{Acknowledged, Unheard};
use crate::contract::ClientTag;
use crate::records::record::SessionsHeard;
use crate::state::sessions::over::Over;

/// Pause after a step of cleaning that failed, nanoseconds.
const PUT_OFF: u64 = 10_000_000_000;

/// What a shard knows of begins and ends of sessions, except the sessions that live.
#[derive(Default, Debug)]
pub struct SessionLog {
    /// How far this shard has heard of begins and ends, as its record says.
    heard: SessionsHeard,
    /// Log position of the last group that ended a session.
    ended_at: Lsn,
    /// All shards know the ends up to this position.
    known: u64,
    /// Locks of sessions that ended up to this position may go.
    freed: u64,
    /// At shard 0: positions that are not freed, and when each was reached, nanoseconds.
    reached: VecDeque<(u64, u64)>,
    /// Sessions that are over and have left something here, or may be alive on another shard.
    over: BTreeMap<SessionId, Over>,
    /// Sessions in `over` for which cleaning can do something now.
    unclean: BTreeSet<SessionId>,
    /// Sessions in `unclean` that are cleaned next, in order.
    cleaning: VecDeque<SessionId>,
    /// When cleaning takes up `unclean` again, nanoseconds.
    clean_at: u64,
    /// Whether shard 0 has told something since this shard started.
    is_told: bool,
    /// When this shard last asked shard 0 what it has missed, nanoseconds.
    asked_at: Option<u64>,
    /// Sessions about which shard 0 was asked, and has not answered.
    asks: BTreeMap<SessionId, Ask>,
    /// At shard 0: the newest events.
    events: VecDeque<SessionEvent>,
    /// At shard 0: how far each other shard is.
    others: BTreeMap<ShardIndex, Other>,
    /// At shard 0: for this number of shards, whether one is behind. Each input reads it.
    behind: Option<(u16, bool)>,
    /// At shard 0: when it last told again what was not acknowledged, nanoseconds.
    said_at: u64,
}

/// A question to shard 0 about a session.
#[derive(Debug)]
struct Ask {
    /// When it was last sent, nanoseconds.
    at: u64,
    /// The question.
    what: SessionAsk,
    /// Clients to refuse if there is no such session. Later requests may be of a session that has
    /// begun since.
    of: BTreeSet<ClientTag>,
}

/// How far another shard is, as shard 0 knows.
#[derive(Clone, Copy, Default, Debug)]
struct Other {
    /// The position that the shard has acknowledged since shard 0 started.
    heard: Option<u64>,
    /// Up to where the shard knows that ends are known everywhere.
    known: u64,
    /// Up to where the shard knows that ends are freed.
    freed: u64,
    /// The position that the shard was told last.
    told: u64,
    /// The `known` that the shard was told last.
    told_known: u64,
    /// The `freed` that the shard was told last.
    told_freed: u64,
}

impl SessionLog {
    /// Loads how far this shard has heard, from its record, at the start.
    pub(crate) fn load(&mut self, heard: SessionsHeard) {
        self.heard = heard;
    }

    /// How far this shard has heard of begins and ends.
    pub(crate) const fn heard(&self) -> SessionsHeard {
        self.heard
    }

    /// Up to where ends are known everywhere, and freed.
    pub(crate) const fn known_and_freed(&self) -> (u64, u64) {
        (self.known, self.freed)
    }

    /// Hears of the next begin or end. Returns its position.
    pub(crate) fn hear(&mut self, event: SessionEvent) -> u64 {
        self.heard.position += 1;
        if let SessionEvent::Begins(session, _) = event {
            self.hear_of_last(session.number());
        }
        self.heard.position
    }

    /// Hears of the highest number of a session that has begun.
    pub(crate) fn hear_of_last(&mut self, last: u64) {
        self.heard.last = self.heard.last.max(last);
    }

    /// Hears of all begins and ends up to a position at once.
    pub(crate) fn hear_all(&mut self, position: u64, last: u64) {
        self.heard.position = position;
        self.hear_of_last(last);
    }

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

    /// At shard 0: when the next ends are freed, `grace` after they were heard, nanoseconds.
    pub(crate) fn next_freed(&self, grace: u64) -> Option<u64> {
        self.reached.front().map(|(_, at)| at.saturating_add(grace))
    }
}
