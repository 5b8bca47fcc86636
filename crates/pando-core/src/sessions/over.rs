//! What happens to a session that is over. Its end is written at once, and takes little. What the
//! session had is cleaned afterwards, in steps.
//!
//! ```text
//!   it lives ──► over: nothing of it runs ──► opens go ──► freed: locks go ──► known everywhere: outcomes go, and the record
//! ```
//!
//! Outcomes stay as long as another shard might run a request that has run here. If there are
//! neither locks nor outcomes, the record goes at once.

use alloc::vec::Vec;
use pando_types::reply::Refusal;
use pando_types::{DirRef, Ino, Lsn, SessionId};

use crate::contract::Halt;
use crate::records::keys;
use crate::records::record::{OpenAt, Record, SessionRecord};
use crate::state::ctx::{Ctx, LockChange, OpenChange};
use crate::state::namespace::shreds::Under;
use crate::state::sessions::over::Over;
use crate::state::shard::Shard;

/// Opens, or files with locks, that one step removes.
const STEP: usize = 128;

impl Shard {
    /// Ends a session on this shard: nothing of it runs here any more. Its undecided transactions
    /// are undone. `at`: position of its end.
    pub(crate) fn end_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        at: u64,
    ) -> Result<(), Halt> {
        let key = self.sessions.end(session, at, Lsn(ctx.now.seen.0 + 1));
        if key.is_none() {
            return Ok(());
        }
        self.grants.forget_requests(session);
        let record = SessionRecord { root: DirRef::ROOT, key, over: Some(at) };
        ctx.put(keys::session(session), record.encode());
        let is_its = |id: pando_types::op::RequestId| id.sequence > 0 && id.session == session;
        let undecided: Vec<u64> = (self.coordinator.undecided())
            .filter(|(_, request)| is_its(request.head.id))
            .map(|(number, _)| number)
            .collect();
        for number in undecided {
            self.undo(ctx, number, Some(Refusal::NoSession))?;
        }
        Ok(())
    }

    /// Keeps what arrives here from a session that is over and has no record any more. It goes when
    /// all shards have heard what this shard has heard.
    pub(crate) fn keep_what_is_left(&mut self, ctx: &mut Ctx<'_>, session: SessionId) {
        if self.session_lives(session) || self.sessions.log.was_of(session).is_some() {
            return;
        }
        let (key, at) = (None, self.sessions.log.heard().position);
        let record = SessionRecord { root: DirRef::ROOT, key, over: Some(at) };
        ctx.put(keys::session(session), record.encode());
        self.sessions.log.add_over(session, Over::new(key, at));
    }

    /// Runs one step of the cleaning of an ended session.
    pub(crate) fn clean_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
    ) -> Result<(), Halt> {
        let now = ctx.now.nanos;
        if !self.sessions.log.has_begun_cleaning(session) {
            let opens = self.namespace.opens.of_session(session);
            #[cfg(feature = "planted")]
            let opens = match self.is_planted(crate::Planted::OpensOutlive) {
                true => Vec::new(),
                false => opens,
            };
            self.sessions.log.begin_cleaning(session, opens);
        }
        let Some((step, has_more)) = self.sessions.log.take_opens(session, STEP) else {
            return Ok(());
        };
        for ino in step {
            match self.drop_open_of_over(ctx, session, ino) {
                // An inode that cannot be read does not hold up the others.
                Err(Halt::Unreadable(_)) => self.sessions.log.note_stuck(session, ino),
                done => done?,
            }
        }
        if has_more {
            self.sessions.log.clean_soon(now);
            return Ok(());
        }
        let is_stuck = self.sessions.log.take_up_stuck(session, now);
        let locked: Vec<_> =
            self.namespace.program_locks.of_session(session).take(STEP + 1).collect();
        let keeps_locks = !locked.is_empty() && self.sessions.log.has_locks_yet(session);
        if !keeps_locks {
            for ino in locked.iter().take(STEP) {
                ctx.delete(keys::lock(*ino, session));
                ctx.change_lock(LockChange { session, ino: *ino, is_there: false });
            }
            if locked.len() > STEP {
                self.sessions.log.clean_soon(now);
                return Ok(());
            }
        }
        let waits = keeps_locks || self.sessions.outcomes.has(session);
        if is_stuck || waits && self.sessions.log.is_over_somewhere(session) {
            if !is_stuck {
                self.sessions.log.is_clean(session);
            }
            return Ok(());
        }
        self.sessions.outcomes.end(ctx, session);
        ctx.delete(keys::session(session));
        self.sessions.log.forget_over(session);
        Ok(())
    }

    /// Removes one open of an ended session. An inode without a name goes with it if no other
    /// session has it open.
    fn drop_open_of_over(
        &self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        ino: Ino,
    ) -> Result<(), Halt> {
        if self.namespace.opens.count_of(ino, session) == 0 {
            return Ok(());
        }
        if self.namespace.opens.place(ino) == Some(OpenAt::Link)
            && !self.namespace.opens.by_others(ino, session)
            && let Some(inode) = self.link_inode(ctx, ino)?
            && inode.attr.nlink == 0
        {
            self.destroy_link(ctx, &inode, Under::NothingOfMany)?;
        }
        ctx.delete(keys::open(ino, session));
        ctx.change_open(OpenChange::Clear(ino, session));
        Ok(())
    }
}
