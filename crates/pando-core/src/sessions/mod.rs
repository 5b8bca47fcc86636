//! Sessions: issued and ended by the coordinator shard, heard of by all others in one sequence
//! (docs/design/sessions.md). A client that does not end its own session is taken for dead when its
//! lease is over: see [`leases`].
//!
//! ```text
//!   client          shard 0                                    every other shard
//!     OpenSession ──► position + 1, record; syncs
//!                     ├── Sessions(events) ──────────────────►   position, record; syncs
//!     ◄── session ────┤   ◄──────────── SessionsHeard(position) ──┘
//!     request ───────────────────────────────────────────────►   not heard of yet: it waits
//! ```
//!
//! 1. A session is numbered as a transaction of shard 0 would be, so a later one has a higher
//!    number.
//! 2. What a shard has not heard of has a number above all that it has heard begin. What is neither
//!    that nor alive is over, for ever.
//! 3. A shard that has heard of an end runs nothing of that session. Its locks and outcomes stay
//!    until the end is known everywhere.

mod alone;
mod hearing;
pub mod leases;
mod log;
mod over;
mod telling;

use alloc::vec::Vec;
use pando_types::op::{Op, Request};
use pando_types::peer::{SessionEvent, SessionTable};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId, SessionId, ShardIndex};

pub use alone::AloneSession;
pub use log::SessionLog;
pub use over::Over;

use crate::client::{Ran, not_here};
use crate::contract::{ClientTag, Halt, Need};
use crate::ctx::{Ctx, Stop, broken};
use crate::keys::{self, Table};
use crate::record::{Record, SessionRecord, SessionsHeard};
use crate::shard::Shard;

/// The shard that issues sessions and lets directories move.
pub const COORDINATOR: ShardIndex = ShardIndex(0);

impl Shard {
    /// From the records, at the start.
    pub(crate) fn load_session_records(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Session);
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            if key == prefix {
                self.session_log.heard = SessionsHeard::decode(&value)?;
                continue;
            }
            let session = keys::session_of(&key).ok_or_else(|| broken("a session's key"))?;
            let record = SessionRecord::decode(&value)?;
            match (record.over, record.key) {
                (Some(at), key) => self.session_log.add_over(session, Over::new(key, at)),
                (None, Some(key)) => {
                    self.sessions.insert(session, key);
                }
                (None, None) => return Err(broken("a session that lives is nobody's")),
            }
        }
        Ok(())
    }

    /// The session lives here from now on.
    pub(crate) fn put_session(&mut self, ctx: &mut Ctx<'_>, session: SessionId, key: KeyId) {
        self.sessions.insert(session, key);
        let record = SessionRecord { root: DirRef::ROOT, key: Some(key), over: None };
        ctx.put(keys::session(session), record.encode());
    }

    /// Whether nothing has been heard here of such a session: it may have begun.
    pub(crate) fn is_unheard(&self, session: SessionId) -> bool {
        self.config.shard != COORDINATOR && session.number() > self.session_log.heard.last
    }

    /// Whether what the session has counts: it lives, or may have begun without having been heard
    /// of here.
    pub(crate) fn session_lives(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session) || self.is_unheard(session)
    }

    /// Whether locks of the session count: it lives, or a shard that can be reached may still run
    /// something of it.
    pub(crate) fn session_locks(&self, session: SessionId) -> bool {
        self.session_lives(session) || self.session_log.has_locks_yet(session)
    }

    /// Whether outcomes of the session count: a shard may still run something of it.
    pub(crate) fn session_counts(&self, session: SessionId) -> bool {
        self.session_lives(session) || self.session_log.is_over_somewhere(session)
    }

    /// What this shard knows of sessions.
    pub(crate) fn session_table(&self) -> SessionTable {
        let SessionsHeard { position, last } = self.session_log.heard;
        SessionTable { position, last, living: self.session_keys().collect() }
    }

    /// Sessions that are over, and of which something is left here. None, once every shard has
    /// heard of all ends.
    pub fn sessions_over(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.session_log.over().map(|(session, _)| session)
    }

    /// How many begins and ends of sessions have been heard here.
    #[must_use]
    pub const fn sessions_heard(&self) -> u64 {
        self.session_log.heard.position
    }

    /// See [`Op::OpenSession`], [`Op::OpenLocalSession`], [`Op::EndSession`].
    pub(crate) fn session_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        if self.config.shard != COORDINATOR {
            return Err(not_here());
        }
        let body = match &request.op {
            // One that is not known is over, or never was.
            Op::EndSession(session) if !self.sessions.contains_key(session) => {
                return Err(Refusal::NoSession.into());
            }
            Op::EndSession(_) if ctx.now.is_spent => return Err(Errno::ENOSPC.into()),
            Op::EndSession(session) => {
                self.end_everywhere(ctx, *session)?;
                Body::Done
            }
            _ if ctx.now.is_spent => return Err(Errno::ENOSPC.into()),
            // Its client comes again.
            _ if self.recall() => return Err(Errno::EBUSY.into()),
            op => Body::Session(self.begin_session(ctx, matches!(op, Op::OpenLocalSession), tag.1)),
        };
        // Others hear of it then, too. And who ends a session never comes back to see that it
        // ended.
        Ok(Ran::Answer(body, Need::Synced))
    }

    fn begin_session(&mut self, ctx: &mut Ctx<'_>, is_local: bool, key: KeyId) -> SessionId {
        let session = SessionId::new(self.numbers.txn(ctx).number, is_local);
        self.counters.sessions_begun += 1;
        self.leases.grant(session, ctx.now.nanos);
        self.put_session(ctx, session, key);
        self.tell_event(ctx, SessionEvent::Begins(session, key));
        session
    }

    /// Of shard 0: the session is over, and all others hear of it.
    fn end_everywhere(&mut self, ctx: &mut Ctx<'_>, session: SessionId) -> Result<(), Halt> {
        self.counters.sessions_ended += 1;
        let at = self.session_log.heard.position + 1;
        self.end_session(ctx, session, at)?;
        self.tell_event(ctx, SessionEvent::Ends(session));
        Ok(())
    }

    /// Ends the sessions whose lease is over.
    pub(crate) fn end_expired(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        self.leases.look(ctx.now.nanos);
        if ctx.now.is_spent {
            return Ok(());
        }
        // One that is alone is of this process: it lives.
        let expired: Vec<_> =
            self.leases.expired().filter(|session| !self.alone.is(*session)).collect();
        for session in expired {
            self.counters.sessions_expired += 1;
            self.end_everywhere(ctx, session)?;
        }
        Ok(())
    }
}
