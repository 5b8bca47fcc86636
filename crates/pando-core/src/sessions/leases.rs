//! Leases of sessions: a client that has not been heard of for one lease is taken for dead, and its
//! session is ended everywhere, as if it had said so itself (DESIGN §6, §7). At the coordinator
//! shard only.
//!
//! ```text
//!   begun ──► renewed, renewed … ──► no word for one lease ──► the end of the session
//! ```
//!
//! 1. Leases are soft state: after a restart of this shard every session has a whole one. One that
//!    [begins anew](crate::anew) goes on counting.
//! 2. Time in which this shard did not run (its process was stopped, its machine asleep) is
//!    nobody's fault and does not count: renewals could not arrive. So time is counted in small
//!    steps, and a longer gap as one step.

use alloc::collections::BTreeMap;
use pando_types::SessionId;
use pando_types::reply::{Body, Refusal};

use super::COORDINATOR;
use crate::ctx::{Ctx, Stop};
use crate::shard::Shard;

/// Looks at the clock in one lease: how finely time is counted.
const STEPS: u64 = 8;
/// Sessions that end at one look.
const EXPIRED_MAX: usize = 64;
/// A gap between two looks counts at most so many steps; more than one, since a timer may be late.
const GAP_MAX: u64 = 2;

/// All leases.
#[derive(Debug)]
pub struct Leases {
    /// Length, nanoseconds.
    lease: u64,
    /// Time this shard has been running, nanoseconds.
    running: u64,
    /// The shard's clock when it was last looked at.
    looked: u64,
    /// When each session's lease ends, in terms of `running`.
    until: BTreeMap<SessionId, u64>,
}

impl Leases {
    pub fn new(lease: u64, now: u64) -> Self {
        Self { lease, running: 0, looked: now, until: BTreeMap::new() }
    }

    /// A whole lease from now on.
    pub fn grant(&mut self, session: SessionId, now: u64) {
        self.look(now);
        self.until.insert(session, self.running.saturating_add(self.lease));
    }

    /// The shard has begun anew: what was counted stands, and nobody who lives gets more for it.
    /// Ends of sessions that were under way begin again.
    pub fn keep(&mut self, old: &Self) {
        (self.running, self.looked) = (old.running, old.looked);
        for (session, until) in &mut self.until {
            let whole = old.running.saturating_add(self.lease);
            *until = old.until.get(session).copied().unwrap_or(whole);
        }
    }

    /// The session is over.
    pub fn drop(&mut self, session: SessionId) {
        self.until.remove(&session);
    }

    /// Time goes on.
    pub(super) fn look(&mut self, now: u64) {
        let most = (self.lease / STEPS).saturating_mul(GAP_MAX).max(1);
        self.running += now.saturating_sub(self.looked).min(most);
        self.looked = self.looked.max(now);
    }

    /// Sessions whose lease is over, some at a time: the loss of very many clients is not to stop
    /// all else.
    pub(super) fn expired(&self) -> impl Iterator<Item = SessionId> {
        let is_over = |until: u64| until <= self.running;
        self.until
            .iter()
            .filter(move |(_, until)| is_over(**until))
            .map(|(s, _)| *s)
            .take(EXPIRED_MAX)
    }

    /// When to look at the clock again.
    pub fn next_look(&self) -> Option<u64> {
        let step = (self.lease / STEPS).max(1);
        (!self.until.is_empty()).then(|| self.looked.saturating_add(step))
    }
}

impl Shard {
    /// See [`pando_types::op::Op::Renew`].
    pub(crate) fn renew(&mut self, ctx: &Ctx<'_>, session: SessionId) -> Result<Body, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(crate::client::not_here());
        }
        if !self.sessions.contains_key(&session) {
            return Err(Refusal::NoSession.into());
        }
        self.leases.grant(session, ctx.now.nanos);
        Ok(Body::Lease(self.config.lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 800;
    const ONE: SessionId = SessionId(1);

    fn is_expired(leases: &mut Leases, now: u64) -> bool {
        leases.look(now);
        leases.expired().next().is_some()
    }

    #[test]
    fn a_lease_ends_when_nothing_was_heard_for_its_length() {
        let mut leases = Leases::new(LEASE, 1_000);
        leases.grant(ONE, 1_000);
        for now in (1_100..1_800).step_by(100) {
            assert!(!is_expired(&mut leases, now), "{now}");
        }
        leases.grant(ONE, 1_799);
        assert!(!is_expired(&mut leases, 1_800));
        for now in (1_900..2_599).step_by(100) {
            assert!(!is_expired(&mut leases, now), "{now}");
        }
        assert!(is_expired(&mut leases, 2_599));
    }

    #[test]
    fn time_in_which_the_shard_did_not_run_does_not_count() {
        let mut leases = Leases::new(LEASE, 0);
        leases.grant(ONE, 0);
        assert!(!is_expired(&mut leases, 100));
        assert!(!is_expired(&mut leases, 1_000_000), "at most two steps of eight");
        for now in (1_000_100..1_000_500).step_by(100) {
            assert!(!is_expired(&mut leases, now), "{now}");
        }
        assert!(is_expired(&mut leases, 1_000_500));
    }

    #[test]
    fn who_begins_anew_goes_on_counting() {
        let mut leases = Leases::new(LEASE, 0);
        leases.grant(ONE, 0);
        for now in (100..800).step_by(100) {
            let mut new = Leases::new(LEASE, now);
            new.grant(ONE, now);
            new.keep(&leases);
            leases = new;
            assert!(!is_expired(&mut leases, now), "{now}");
        }
        leases.look(800);
        assert!(leases.expired().eq([ONE]));
    }

    #[test]
    fn without_sessions_nobody_looks() {
        let mut leases = Leases::new(LEASE, 0);
        assert_eq!(leases.next_look(), None);
        leases.grant(ONE, 50);
        assert_eq!(leases.next_look(), Some(150));
        leases.drop(ONE);
        assert_eq!(leases.next_look(), None);
    }
}
