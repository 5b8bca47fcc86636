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
        if self.sessions.alone.session.is_none() {
            return false;
        }
        self.sessions.alone.is_recalled = true;
        self.queue.resume(self.locks.wake(LockKey::Alone));
        true
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
                let is_only = self.sessions.alive.keys().eq([&session]) && self.have_all_heard();
                if is_only && !self.sessions.alone.is_recalled {
                    self.sessions.alone.session = Some(session);
                }
                Ok(Body::Alone(self.sessions.alone.is(session)))
            }
            Alone::Await if self.sessions.alone.is(session) && !self.sessions.alone.is_recalled => {
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
