//! A client renews its session's lease, at shard 0. How leases run is told in
//! [`crate::state::sessions::leases`].

use pando_types::SessionId;
use pando_types::reply::{Body, Refusal};

use crate::contract::SHARD_0;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    /// Runs [`pando_types::op::Op::Renew`]: gives the session a whole lease.
    pub(crate) fn renew(&mut self, ctx: &Ctx<'_>, session: SessionId) -> Result<Body, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(crate::state::stop::not_here());
        }
        if !self.sessions.is_alive(session) {
            return Err(Refusal::NoSession.into());
        }
        self.sessions.leases.grant(session, ctx.now.nanos);
        Ok(Body::Lease(self.config.lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::sessions::leases::Leases;

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
    fn a_lease_that_begins_anew_goes_on_counting() {
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
    fn without_sessions_no_tick_looks() {
        let mut leases = Leases::new(LEASE, 0);
        assert_eq!(leases.next_look(), None);
        leases.grant(ONE, 50);
        assert_eq!(leases.next_look(), Some(150));
        leases.drop(ONE);
        assert_eq!(leases.next_look(), None);
    }
}
