//! The session that is alone on its volume (docs/design/alone.md).

use alloc::collections::BTreeMap;
use pando_types::op::Alone;
use pando_types::reply::Body;
use pando_types::{Errno, KeyId, SessionId};

use super::COORDINATOR;
use crate::client::not_here;
use crate::ctx::Stop;
use crate::locks::LockKey;
use crate::shard::Shard;

/// The session that is alone. It ends with this process, so nothing of this is recorded.
#[derive(Default, Debug)]
pub struct AloneSession {
    session: Option<SessionId>,
    /// Another session wants to begin.
    is_recalled: bool,
}

impl AloneSession {
    /// Whether it is this one.
    pub fn is(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// What is left of this where only these sessions live.
    pub fn if_lives(&self, sessions: &BTreeMap<SessionId, KeyId>) -> Self {
        let session = self.session.filter(|session| sessions.contains_key(session));
        Self { session, is_recalled: session.is_some() && self.is_recalled }
    }

    /// This session is alone no longer.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            *self = Self::default();
        }
    }
}

impl Shard {
    /// Tells the session that is alone, if any, that another one wants to begin. Whether there is
    /// one.
    pub(super) fn recall(&mut self) -> bool {
        if self.alone.session.is_none() {
            return false;
        }
        self.alone.is_recalled = true;
        let waiting = self.locks.wake(LockKey::Alone);
        self.ready.extend(waiting);
        true
    }

    /// See [`Op::Alone`](pando_types::op::Op::Alone).
    pub(crate) fn alone(&mut self, session: SessionId, ask: Alone) -> Result<Body, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(not_here());
        }
        // Others outlive this process, and what is known of them here.
        if !session.is_local() {
            return Err(Errno::EPERM.into());
        }
        match ask {
            Alone::Ask => {
                // One that is over here may be served by other shards until they hear of it.
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
