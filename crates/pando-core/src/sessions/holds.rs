//! Which sessions write, and of which the kernel may remember, at shard 0 (docs/design/holds.md).

use alloc::vec::Vec;
use pando_types::hold::Holding;
#[cfg(feature = "planted")]
use pando_types::hold::Said;
use pando_types::reply::{Body, Refusal};
use pando_types::{Errno, KeyId, SessionId};

use crate::contract::SHARD_0;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::sessions::holds::Recalled;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, not_here};

impl Shard {
    /// Runs [`Op::Hold`](pando_types::op::Op::Hold), at shard 0 only.
    pub(crate) fn hold(
        &mut self,
        ctx: &Ctx<'_>,
        key: KeyId,
        session: SessionId,
        says: Holding,
    ) -> Result<Body, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(not_here());
        }
        let (now, lives) = (ctx.now.nanos, self.sessions.is_alive(session));
        match says {
            Holding::Ask(_) if !lives => Ok(Body::Holds(false)),
            Holding::Ask(number) => {
                // Other shards may serve a session that is over here until they hear of its end.
                let may = !self.sessions.others_write(session) && self.have_all_heard_of_writers();
                Ok(Body::Holds(self.sessions.holds.ask((session, key), number, may, now)))
            }
            Holding::Await => match self.sessions.holds.is_recalled(session, now) {
                Recalled::Yes => Ok(Body::Done),
                Recalled::NotYet => Ok(Body::Holds(true)),
                Recalled::Wait => Err(Stop::Wait(LockKey::Hold(session))),
            },
            Holding::End(said) => {
                if self.sessions.holds.end((session, key), said, ctx.now.epoch, lives) {
                    self.look_at_recalls([session]);
                }
                Ok(Body::Done)
            }
            Holding::Wake(_) | Holding::Quiet(_) if !lives => Err(Refusal::NoSession.into()),
            Holding::Wake(number) => {
                let (recalled, writes) = self.sessions.holds.wake(session, number, now);
                self.look_at_recalls(recalled);
                #[cfg(feature = "planted")]
                let writes = writes || self.is_planted(crate::Planted::WokenBesideHolder);
                // The client asks again.
                if writes { Ok(Body::Done) } else { Err(Errno::EBUSY.into()) }
            }
            Holding::Quiet(said) => {
                #[cfg(feature = "planted")]
                let said = match self.is_planted(crate::Planted::LateQuietCounts) {
                    true => Said { number: self.sessions.holds.newest(session), ..said },
                    false => said,
                };
                self.sessions.holds.be_quiet(session, said, ctx.now.epoch);
                Ok(Body::Done)
            }
        }
    }

    /// Answers questions of these sessions whether they are recalled.
    pub(super) fn look_at_recalls(&mut self, sessions: impl IntoIterator<Item = SessionId>) {
        for session in sessions {
            self.queue.resume(self.locks.wake(LockKey::Hold(session)));
        }
    }

    /// Answers questions that have waited long enough.
    pub(super) fn tick_holds(&mut self, now: u64) {
        let due: Vec<_> = self.sessions.holds.take_due(now);
        self.look_at_recalls(due);
    }
}
