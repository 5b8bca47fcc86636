//! Sessions. Shard 0 issues and ends them, and all other shards hear of that in one sequence of
//! events (docs/design/sessions.md). A client that does not end its session loses it when its lease
//! is over: see [`leases`].
//!
//! ```text
//!   client          shard 0                                    every other shard
//!     OpenSession ──► position + 1, record; syncs
//!                     ├── Sessions(events) ──────────────────►   position, record; syncs
//!     ◄── session ────┤   ◄──────────── SessionsHeard(position) ──┘
//!     request ───────────────────────────────────────────────►   session not heard of: it waits
//! ```
//!
//! 1. A session takes its number from shard 0's transaction numbers. So a later session has a
//!    higher number.
//! 2. A session that a shard has not heard of has a number above all sessions that the shard has
//!    heard begin. A session that is neither of these nor alive is over, for ever.
//! 3. A shard that has heard of an end runs nothing of that session. Its outcomes stay until the
//!    end is known everywhere. Its locks stay until the end is freed.

mod hearing;
mod holds;
pub mod leases;
mod over;
mod telling;

use alloc::vec::Vec;
use pando_types::op::{Op, Request};
use pando_types::peer::{SessionEvent, SessionTable};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId, SessionId};

use crate::contract::{ClientTag, Halt, Need, SHARD_0};
use crate::records::keys::{self, Table};
use crate::records::record::{Record, SessionRecord, SessionsHeard};
use crate::state::ctx::Ctx;
use crate::state::sessions::over::Over;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, bad_key, broken, not_here};

impl Shard {
    /// Loads the sessions from their records, at the start.
    pub(crate) fn load_session_records(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Session);
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            if key == prefix {
                self.sessions.log.load(SessionsHeard::decode(&value)?);
                continue;
            }
            let session = keys::session_of(&key).ok_or_else(|| bad_key(Table::Session))?;
            let record = SessionRecord::decode(&value)?;
            match (record.over, record.key) {
                (Some(at), key) => self.sessions.log.add_over(session, Over::new(key, at)),
                (None, Some(key)) => self.sessions.begin(session, key),
                (None, None) => return Err(broken("a session that lives has no key")),
            }
        }
        Ok(())
    }

    /// Records that a session lives from now on.
    pub(crate) fn put_session(&mut self, ctx: &mut Ctx<'_>, session: SessionId, key: KeyId) {
        self.sessions.begin(session, key);
        let record = SessionRecord { root: DirRef::ROOT, key: Some(key), over: None };
        ctx.put(keys::session(session), record.encode());
    }

    /// Whether the session may have begun without this shard having heard of it.
    pub(crate) fn is_unheard(&self, session: SessionId) -> bool {
        self.config.shard != SHARD_0 && session.number() > self.sessions.log.heard().last
    }

    /// Whether a session's opens count: it lives, or may have begun without this shard having heard
    /// of it.
    pub(crate) fn session_lives(&self, session: SessionId) -> bool {
        self.sessions.is_alive(session) || self.is_unheard(session)
    }

    /// Whether a session's locks of files count: it lives, or its end is not freed yet.
    pub(crate) fn session_locks(&self, session: SessionId) -> bool {
        self.session_lives(session) || self.sessions.log.has_locks_yet(session)
    }

    /// Whether a session's outcomes count: it lives, or a shard may still run something of it.
    pub(crate) fn session_counts(&self, session: SessionId) -> bool {
        self.session_lives(session) || self.sessions.log.is_over_somewhere(session)
    }

    /// The sessions that live, and the position up to which this shard has heard.
    pub(crate) fn session_table(&self) -> SessionTable {
        let SessionsHeard { position, last } = self.sessions.log.heard();
        SessionTable { position, last, living: self.session_keys().collect() }
    }

    /// Sessions that are over and have left something here. There is none once every shard has
    /// heard of all ends.
    pub fn sessions_over(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.log.over().map(|(session, _)| session)
    }

    /// Position up to which this shard has heard begins and ends of sessions.
    #[must_use]
    pub const fn sessions_heard(&self) -> u64 {
        self.sessions.log.heard().position
    }

    /// Runs [`Op::OpenSession`], [`Op::OpenLocalSession`] and [`Op::EndSession`], at shard 0 only.
    pub(crate) fn session_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Ran, Stop> {
        if self.config.shard != SHARD_0 {
            return Err(not_here());
        }
        let body = match &request.op {
            // An unknown session is over, or never was.
            Op::EndSession(session) if !self.sessions.is_alive(*session) => {
                return Err(Refusal::NoSession.into());
            }
            Op::EndSession(_) if ctx.now.is_spent => return Err(Errno::ENOSPC.into()),
            Op::EndSession(session) => {
                self.end_everywhere(ctx, *session)?;
                Body::Done
            }
            _ if ctx.now.is_spent => return Err(Errno::ENOSPC.into()),
            op => Body::Session(self.begin_session(ctx, matches!(op, Op::OpenLocalSession), tag.1)),
        };
        // Other shards are told when this is synced, too. A client that ends its session never
        // comes back to check that it ended.
        Ok(Ran::Answer(body, Need::Synced))
    }

    fn begin_session(&mut self, ctx: &mut Ctx<'_>, is_local: bool, key: KeyId) -> SessionId {
        let session = SessionId::new(self.numbers.txn(ctx).number, is_local);
        self.counters.sessions_begun += 1;
        self.sessions.leases.grant(session, ctx.now.nanos);
        self.put_session(ctx, session, key);
        self.sessions.holds.begun(session);
        self.tell_event(ctx, SessionEvent::Begins(session, key));
        session
    }

    /// Ends a session at shard 0, and tells all other shards.
    fn end_everywhere(&mut self, ctx: &mut Ctx<'_>, session: SessionId) -> Result<(), Halt> {
        self.counters.sessions_ended += 1;
        let at = self.sessions.log.heard().position + 1;
        self.end_session(ctx, session, at)?;
        self.look_at_recalls([session]);
        self.tell_event(ctx, SessionEvent::Ends(session));
        Ok(())
    }

    /// Ends the sessions with an expired lease, at shard 0.
    pub(crate) fn end_expired(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        self.sessions.leases.look(ctx.now.nanos);
        if ctx.now.is_spent {
            return Ok(());
        }
        // A local session that holds belongs to this process, so it lives.
        let expired: Vec<_> = self
            .sessions
            .leases
            .expired()
            .filter(|session| !(session.is_local() && self.sessions.holds.is(*session)))
            .collect();
        for session in expired {
            self.counters.sessions_expired += 1;
            self.end_everywhere(ctx, session)?;
        }
        Ok(())
    }
}
