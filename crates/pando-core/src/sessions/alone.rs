//! The session that is alone on its volume, at shard 0 (docs/design/alone.md).

use pando_types::op::Alone;
use pando_types::reply::Body;
use pando_types::{KeyId, SessionId};

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
        self.queue.resume(self.locks.wake(LockKey::Alone));
        is_any
    }

    /// Runs [`Op::Alone`](pando_types::op::Op::Alone), at shard 0 only.
    pub(crate) fn alone(
        &mut self,
        ctx: &Ctx<'_>,
        key: KeyId,
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
                let is = may && self.sessions.alone.begin(session, key, ctx.now.nanos);
                Ok(Body::Alone(is))
            }
            Alone::Await if self.sessions.alone.is_undisturbed(session) => match session.is_local()
            {
                true => Err(Stop::Wait(LockKey::Alone)),
                // A client takes a connection that says nothing for long for a lost one.
                false => Ok(Body::Alone(true)),
            },
            Alone::Await => Ok(Body::Done),
            Alone::End => {
                self.sessions.alone.over(session, key);
                Ok(Body::Done)
            }
        }
    }
}
