//! The session that is alone on its volume, at shard 0 (docs/design/alone.md).

use pando_types::SessionId;
use pando_types::op::Alone;
use pando_types::reply::Body;

use crate::contract::SHARD_0;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, not_here};

impl Shard {
    /// Tells the session that is alone, if any, that another client wants to begin a session.
    /// Returns whether there is one.
    pub(super) fn recall(&mut self, ctx: &Ctx<'_>) -> bool {
        let is_any = self.sessions.alone.recall(ctx.now.nanos);
        self.wake_alone();
        is_any
    }

    fn wake_alone(&mut self) {
        self.queue.resume(self.locks.wake(LockKey::Alone));
    }

    /// Runs [`Op::Alone`](pando_types::op::Op::Alone), at shard 0 only.
    pub(crate) fn alone(
        &mut self,
        ctx: &Ctx<'_>,
        session: SessionId,
        ask: Alone,
    ) -> Result<Body, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(not_here());
        }
        match ask {
            Alone::Ask => {
                // Other shards may serve a session that is over here until they hear of its end.
                let may = self.sessions.is_only(session) && self.have_all_heard();
                let was = self.sessions.alone.is(session);
                let is = may && self.sessions.alone.begin(session, ctx.now.nanos);
                if is && !was {
                    // A question of an earlier period may still wait.
                    self.wake_alone();
                }
                Ok(Body::Alone(is))
            }
            Alone::Await if self.sessions.alone.is_undisturbed(session) => {
                Err(Stop::Wait(LockKey::Alone))
            }
            Alone::Await => Ok(Body::Done),
            Alone::End => {
                self.sessions.alone.over(session);
                self.wake_alone();
                Ok(Body::Done)
            }
        }
    }
}
