//! The session that is alone on its volume, at shard 0 (docs/design/alone.md).

use pando_types::op::Alone;
use pando_types::reply::Body;
use pando_types::{Errno, SessionId};

use crate::contract::SHARD_0;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, not_here};

impl Shard {
    /// Tells the session that is alone, if any, that another client wants to begin a session.
    /// Returns whether there is one.
    pub(super) fn recall(&mut self) -> bool {
        let is_any = self.sessions.alone.recall();
        if is_any {
            self.queue.resume(self.locks.wake(LockKey::Alone));
        }
        is_any
    }

    /// Runs [`Op::Alone`](pando_types::op::Op::Alone), at shard 0 only.
    pub(crate) fn alone(&mut self, session: SessionId, ask: Alone) -> Result<Body, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(not_here());
        }
        // Other sessions outlive this process, and nothing about them is recorded here.
        if !session.is_local() {
            return Err(Errno::EPERM.into());
        }
        match ask {
            Alone::Ask => {
                // Other shards may serve a session that is over here until they hear of its end.
                if self.sessions.is_only(session) && self.have_all_heard() {
                    self.sessions.alone.begin(session);
                }
                Ok(Body::Alone(self.sessions.alone.is(session)))
            }
            Alone::Await if self.sessions.alone.is_undisturbed(session) => {
                Err(Stop::Wait(LockKey::Alone))
            }
            Alone::Await => Ok(Body::Done),
            Alone::End => {
                self.sessions.alone.over(session);
                Ok(Body::Done)
            }
        }
    }
}
