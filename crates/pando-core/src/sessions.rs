//! Sessions: issued and ended by the coordinator shard, known to all (DESIGN §6). Who does not end his own is taken for
//! dead when its lease is over: see [`crate::leases`].

use alloc::collections::BTreeMap;
use pando_types::op::{Alone, Op, Request};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId, SessionId, ShardIndex, TxnId};

use crate::client::{Ran, not_here};
use crate::contract::ClientTag;
use crate::ctx::{Ctx, Stop};
use crate::keys;
use crate::locks::LockKey;
use crate::record::{Record, SessionRecord};
use crate::shard::Shard;
use crate::txn::Txn;
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

    /// The same, if that session is one of these.
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
    /// The session lives here from now on.
    pub(crate) fn put_session(&mut self, ctx: &mut Ctx<'_>, session: SessionId, key: KeyId) {
        self.sessions.insert(session, key);
        let record = SessionRecord { root: DirRef::ROOT, key };
        ctx.put(keys::session(session), record.encode());
    }

    /// Whether the end of a session is prepared here, or waits for transactions of the session. None of its requests is run then.
    pub(crate) fn is_ending(&self, session: SessionId) -> bool {
        self.ending.contains_key(&session) || self.locks.free(LockKey::Session(session)).is_err()
    }

    /// What the vote of this shard waits for before a session begins or ends. Transactions of the session that this shard coordinates
    /// are decided or undone first, and no request begins another one meanwhile. What a decision has yet to change is locked
    /// until it is changed. So nobody sees a change by a session that is over.
    pub(crate) fn see_session(&mut self, txn: TxnId, session: SessionId) -> Result<(), Stop> {
        self.must_have_joined()?;
        self.locks.free_for(LockKey::Session(session), txn)?;
        if self.runs_any_of(session) {
            self.ending.insert(session, txn);
            return Err(Stop::Wait(LockKey::Session(session)));
        }
        self.ending.remove(&session);
        Ok(())
    }

    fn runs_any_of(&self, session: SessionId) -> bool {
        self.txns.values().any(|txn| txn.holds_up() == Some(session))
    }

    /// A transaction, which is in no table now, is decided or undone: the end of its session may have waited for that.
    pub(crate) fn no_longer_votes(&mut self, txn: &Txn) {
        let Some(session) = txn.holds_up() else { return };
        if self.ending.contains_key(&session) && !self.runs_any_of(session) {
            let waiting = self.locks.wake(LockKey::Session(session));
            self.ready.extend(waiting);
        }
    }

    /// This transaction ends no session any more: whoever waits for that goes on.
    pub(crate) fn forget_ending(&mut self, txn: TxnId) {
        let session = self.ending.iter().find(|(_, by)| **by == txn).map(|(session, _)| *session);
        if let Some(session) = session {
            self.ending.remove(&session);
            let waiting = self.locks.wake(LockKey::Session(session));
            self.ready.extend(waiting);
        }
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
                // One that is over here may have to hear of it on other shards, which serve it until then.
                let is_settled =
                    !self.locks.any_session() && !self.txns.values().any(Txn::is_about_a_session);
                let is_only = self.sessions.keys().eq([&session]) && is_settled;
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
