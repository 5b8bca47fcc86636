//! Sessions: issued and ended by the coordinator shard, known to all (DESIGN §6). Who does not end his own is taken for
//! dead when its lease is over: see [`crate::leases`].

use pando_types::op::{Alone, Op, Request};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId, SessionId, ShardIndex};

use crate::client::{Ran, not_here};
use crate::contract::ClientTag;
use crate::ctx::{Ctx, Stop};
use crate::keys;
use crate::locks::LockKey;
use crate::record::{Record, SessionRecord};
use crate::shard::Shard;
use crate::txn::plan::{Plan, Session};

/// The shard that issues sessions and lets directories move.
pub const COORDINATOR: ShardIndex = ShardIndex(0);

/// The session that is alone on its volume (docs/design/alone.md). It ends with this process, so nothing of this is recorded.
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

    /// This session is alone no longer.
    pub fn over(&mut self, session: SessionId) {
        if self.is(session) {
            *self = Self::default();
        }
    }
}

impl Shard {
    /// The session lives here from now on.
    pub(crate) fn put_session(&mut self, ctx: &mut Ctx<'_>, session: SessionId, key: KeyId) {
        self.sessions.insert(session, key);
        let record = SessionRecord { root: DirRef::ROOT, key };
        ctx.put(keys::session(session), record.encode());
    }

    /// Tells the session that is alone, if any, that another one wants to begin. Whether there is one.
    fn recall(&mut self) -> bool {
        if self.alone.session.is_none() {
            return false;
        }
        self.alone.is_recalled = true;
        let waiting = self.locks.wake(LockKey::Alone);
        self.ready.extend(waiting);
        true
    }

    /// See [`Op::Alone`].
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
                let is_only = self.sessions.keys().eq([&session]) && !self.locks.any_session();
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

    pub(crate) fn session_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(not_here());
        }
        if !matches!(request.op, Op::EndSession(_)) && self.recall() {
            // Its client comes again.
            return Err(Errno::EBUSY.into());
        }
        let session = match &request.op {
            // One that is not known is over, or never was: nothing of it is anywhere, or somebody ends it.
            Op::EndSession(session) if !self.sessions.contains_key(session) => {
                return Err(Refusal::NoSession.into());
            }
            Op::EndSession(session) => Session::Ends(*session),
            op => Session::Begins { is_local: matches!(op, Op::OpenLocalSession), key: tag.1 },
        };
        self.begin(ctx, tag, request, Plan::Session(session))
    }
}
