//! The part of a shard that holds sessions.

use alloc::collections::BTreeMap;
use pando_types::{KeyId, Lsn, SessionId};

use crate::state::outcomes::Outcomes;
use crate::state::sessions::holds::Holds;
use crate::state::sessions::leases::Leases;
use crate::state::sessions::log::SessionLog;
use crate::state::sessions::over::Over;
use crate::state::sessions::running::Running;

/// Sessions, their leases, their ends, and the outcomes of their requests.
pub struct Sessions {
    /// Sessions that live, each with the key that it belongs to.
    alive: BTreeMap<SessionId, KeyId>,
    /// Leases of sessions; used by shard 0 only.
    pub(crate) leases: Leases,
    /// Which sessions write, and which hold; used by shard 0 only.
    pub(crate) holds: Holds,
    /// Position in the sequence of begins and ends of sessions, and what is known of ended
    /// sessions.
    pub(crate) log: SessionLog,
    /// Outcomes of requests that ran here.
    pub(crate) outcomes: Outcomes,
    /// Requests of undecided transactions.
    pub(crate) running: Running,
}

impl Sessions {
    /// No session, with these leases.
    pub(crate) fn new(leases: Leases) -> Self {
        Self {
            alive: BTreeMap::new(),
            leases,
            holds: Holds::default(),
            log: SessionLog::default(),
            outcomes: Outcomes::default(),
            running: Running::default(),
        }
    }

    /// Notes that a session lives from now on.
    pub(crate) fn begin(&mut self, session: SessionId, key: KeyId) {
        self.alive.insert(session, key);
    }

    /// Ends a session: nothing of it runs here any more. `position` is that of the end, and the
    /// group at `at` records it. Returns the session's key; `None`: it does not live.
    pub(crate) fn end(&mut self, session: SessionId, position: u64, at: Lsn) -> Option<KeyId> {
        let key = self.alive.remove(&session)?;
        self.log.note_end(at);
        self.log.add_over(session, Over::new(Some(key), position));
        self.leases.drop(session);
        self.holds.ended(session, position);
        self.running.end_session(session);
        Some(key)
    }

    /// Whether a session lives, as far as this shard has heard.
    pub(crate) fn is_alive(&self, session: SessionId) -> bool {
        self.alive.contains_key(&session)
    }

    /// The key of a session that lives.
    pub(crate) fn key_of(&self, session: SessionId) -> Option<KeyId> {
        self.alive.get(&session).copied()
    }

    /// Sessions that live, each with its key.
    pub(crate) fn living(&self) -> impl Iterator<Item = (SessionId, KeyId)> {
        self.alive.iter().map(|(session, key)| (*session, *key))
    }

    /// Whether another session writes than this one, which lives.
    pub(crate) fn others_write(&self, session: SessionId) -> bool {
        let writing = self.alive.len().saturating_sub(self.holds.quiet());
        writing > usize::from(!self.holds.is_quiet(session))
    }

    /// At the start of shard 0: gives each session a whole lease, and begins to count the time
    /// until ends are freed.
    pub(crate) fn begin_leases(&mut self, now: u64) {
        self.log.begin_freeing(now);
        for session in self.alive.keys() {
            self.leases.grant(*session, now);
        }
        let living = self.alive.iter().map(|(session, key)| (*session, *key));
        self.holds.begin(living, self.log.heard().position, now);
    }

    /// Takes over from `old`, when the shard begins anew, what the records do not tell. Leases and
    /// outcomes are kept apart.
    pub(crate) fn keep(&mut self, old: &mut Self, now: u64) {
        let alive = &self.alive;
        let lives = |session: SessionId| alive.contains_key(&session);
        self.holds = old.holds.if_lives(lives);
        self.running.keep(&mut old.running, lives);
        self.log.keep(&mut old.log, now);
    }
}
