//! Leases of sessions, at shard 0 only. If a client has not been heard of for one lease, its
//! session is ended everywhere, as if the client had ended it.
//!
//! ```text
//!   begun ──► renewed, renewed … ──► silent for one lease ──► the end of the session
//! ```
//!
//! 1. Leases are soft state. After a restart of this shard every session has a whole lease. A shard
//!    that [begins anew](crate::input::anew) goes on counting.
//! 2. Time in which this shard did not run does not count, because renewals could not arrive: its
//!    process was stopped, or its machine slept. So time is counted in small steps, and a longer
//!    gap counts as two steps at most (docs/decisions/leases-count-running-time.md).

use alloc::collections::BTreeMap;
use pando_types::SessionId;

/// Looks at the clock in one lease.
pub const STEPS: u64 = 8;

/// Sessions that end at one look.
pub const EXPIRED_MAX: usize = 64;

/// Most steps that a gap between two looks counts for. It is above one, because a timer may be
/// late.
pub const GAP_MAX: u64 = 2;

/// The leases of all sessions.
#[derive(Debug)]
pub struct Leases {
    /// Length of a lease, nanoseconds.
    lease: u64,
    /// Time that this shard has been running, nanoseconds.
    running: u64,
    /// The shard's clock at the last look, nanoseconds.
    looked: u64,
    /// When each session's lease ends, on the scale of `running`.
    until: BTreeMap<SessionId, u64>,
}

impl Leases {
    pub fn new(lease: u64, now: u64) -> Self {
        Self { lease, running: 0, looked: now, until: BTreeMap::new() }
    }

    /// Gives a session a whole lease from now on.
    pub fn grant(&mut self, session: SessionId, now: u64) {
        self.look(now);
        self.until.insert(session, self.running.saturating_add(self.lease));
    }

    /// Takes over counted time from `old`, when the shard begins anew. No living session gets a
    /// longer lease by it. If a session's end was dropped with its group, the session gets a whole
    /// lease.
    pub fn keep(&mut self, old: &Self) {
        (self.running, self.looked) = (old.running, old.looked);
        for (session, until) in &mut self.until {
            let whole = old.running.saturating_add(self.lease);
            *until = old.until.get(session).copied().unwrap_or(whole);
        }
    }

    /// Drops the lease of a session that is over.
    pub fn drop(&mut self, session: SessionId) {
        self.until.remove(&session);
    }

    /// Counts the time since the last look.
    pub fn look(&mut self, now: u64) {
        let most = (self.lease / STEPS).saturating_mul(GAP_MAX).max(1);
        self.running += now.saturating_sub(self.looked).min(most);
        self.looked = self.looked.max(now);
    }

    /// Sessions with an expired lease, a limited number at a time. So the loss of very many clients
    /// does not stop all other work.
    pub fn expired(&self) -> impl Iterator<Item = SessionId> {
        let is_over = |until: u64| until <= self.running;
        self.until
            .iter()
            .filter(move |(_, until)| is_over(**until))
            .map(|(s, _)| *s)
            .take(EXPIRED_MAX)
    }

    /// When to look at the clock again, nanoseconds; `None`: there is no session.
    pub fn next_look(&self) -> Option<u64> {
        let step = (self.lease / STEPS).max(1);
        (!self.until.is_empty()).then(|| self.looked.saturating_add(step))
    }
}
