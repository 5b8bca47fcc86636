//! The session that is alone on its volume, at shard 0 (docs/design/alone.md).

use alloc::collections::BTreeMap;
use pando_types::op::Alone;
use pando_types::reply::Body;
use pando_types::{Errno, KeyId, SessionId};

use super::COORDINATOR;
use crate::client::not_here;
use crate::ctx::Stop;
use crate::locks::LockKey;
use crate::shard::Shard;

/// The session that is alone, if any. It ends with this process, so it has no record.
#[derive(Default, Debug)]
pub struct AloneSession {
    session: Option<SessionId>,
    /// Whether another client wants to begin a session.
    is_recalled: bool,
}

impl AloneSession {
    /// Whether `session` is alone.
    pub fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// A copy for a shard that begins anew: it is empty if the session is not in `sessions`.
    pub fn if_lives(&self, sessions: &BTreeMap<SessionId, KeyId>) -> Self {
        let session = self.session.filter(|session| sessions.contains_key(session));
        Self { session, is_recalled: session.is_some() && self.is_recalled }
    }

    /// Ends that `session` is alone.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            *self = Self::default();
        }
    }
}

impl Shard {
    /// Tells the session that is alone, if any, that another client wants to begin a session.
    /// Returns whether there is one.
    pub(super) fn recall(&mut self) -> bool {
        if self.alone.session.is_none() {
            return false;
        }
        self.alone.is_recalled = true;
        let waiting = self.locks.wake(LockKey::Alone);
        self.ready.extend(waiting);
        true
    }

    /// Runs [`Op::Alone`](pando_types::op::Op::Alone), at shard 0 only.
    pub(crate) fn alone(&mut self, session: SessionId, ask: Alone) -> Result<Body, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(not_here());
        }
        // Other sessions outlive this process, and nothing about them is recorded here.
        if !session.is_local() {
            return Err(Errno::EPERM.into());
        }
        match ask {
            Alone::Ask => {
                // Other shards may serve a session that is over here until they hear of its end.
                let is_only = self.sessions.keys().eq([&session]) && self.have_all_heard();
                if is_only && !self.alone.is_recalled {
                    self.alone.session = Some(session);
                }
                Ok(Body::Alone(self.alone.is(session)))
            }
            Alone::Await if self.alone.is(session) && !self.alone.is_recalled => {
                Err(Stop::Wait(LockKey::Alone))
            }
            Alone::Await => Ok(Body::Done),
            Alone::End => {
                self.alone.over(session);
                Ok(Body::Done)
            }
        }
    }
}
