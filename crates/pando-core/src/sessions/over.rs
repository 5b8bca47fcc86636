//! What becomes of a session that is over. That it is over is written at once, and little; what it had goes afterwards, in steps of their own.
//!
//! ```text
//!   it lives ──► over: nothing of it runs ──► opens go ──► known everywhere: locks and outcomes go, and the record
//! ```
//!
//! Outcomes stay for as long as another shard might run a request that has run here. Where there are neither locks nor outcomes, the record
//! goes at once.

use alloc::vec::Vec;
use pando_types::reply::Refusal;
use pando_types::{DirRef, KeyId, Lsn, SessionId};

use crate::contract::Halt;
use crate::ctx::{Ctx, LockChange, OpenChange};
use crate::keys;
use crate::record::{OpenAt, Record, SessionRecord};
use crate::shard::Shard;
use crate::shred::Under;

/// Opens, or files with locks, that go in one step.
const STEP: usize = 128;
/// What could not be done is tried again after this long, nanoseconds.
const AGAIN_AFTER: u64 = 1_000_000_000;

/// A session that is over here, and not known to be over everywhere, or has left something.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    /// Whose it was.
    pub key: KeyId,
    /// Position of its end.
    pub at: u64,
}

impl Shard {
    /// The session is over: nothing of it runs here any more. `at`: position of its end.
    pub(crate) fn end_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        at: u64,
    ) -> Result<(), Halt> {
        let Some(key) = self.sessions.remove(&session) else { return Ok(()) };
        let record = SessionRecord { root: DirRef::ROOT, key, over: Some(at) };
        ctx.put(keys::session(session), record.encode());
        self.session_log.note_end(Lsn(ctx.now.seen.0 + 1));
        self.session_log.add_over(session, Over { key, at });
        self.leases.drop(session);
        self.alone.over(session);
        self.running.retain(|(owner, _), _| *owner != session);
        let is_its = |id: pando_types::op::RequestId| id.sequence > 0 && id.session == session;
        let undecided: Vec<u64> = (self.txns.iter())
            .filter(|(_, txn)| txn.undecided().is_some_and(|request| is_its(request.head.id)))
            .map(|(number, _)| *number)
            .collect();
        for number in undecided {
            if let Some(txn) = self.txns.remove(&number) {
                self.undo(ctx, number, txn, Some(Refusal::NoSession))?;
            }
        }
        Ok(())
    }

    /// Something comes here that a session has left which is over, of which there is no record any more: it goes when all have heard what
    /// this shard has.
    pub(crate) fn keep_what_is_left(&mut self, ctx: &mut Ctx<'_>, session: SessionId) {
        if self.session_lives(session) || self.session_log.was_of(session).is_some() {
            return;
        }
        let (key, at) = (KeyId::OWNER, self.session_log.heard.position);
        let record = SessionRecord { root: DirRef::ROOT, key, over: Some(at) };
        ctx.put(keys::session(session), record.encode());
        self.session_log.add_over(session, Over { key, at });
    }

    /// Takes up what sessions that are over have left.
    pub(super) fn tick_over(&mut self, ctx: &Ctx<'_>) {
        self.session_log.clean_again(ctx.now.nanos, AGAIN_AFTER);
    }

    /// A step of what a session that is over has left.
    pub(crate) fn clean_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
    ) -> Result<(), Halt> {
        let opens = self.opens.of_session(session);
        for (ino, at) in opens.iter().take(STEP) {
            self.drop_open_of_over(ctx, session, (*ino, *at))?;
        }
        if opens.len() > STEP {
            self.session_log.clean_soon(session);
            return Ok(());
        }
        let locked: Vec<_> = self.locked.of_session(session).take(STEP + 1).collect();
        let has_left = !locked.is_empty() || self.outcomes.has(session);
        if has_left && self.session_log.is_over_somewhere(session) {
            self.session_log.is_clean(session);
            return Ok(());
        }
        self.outcomes.end(ctx, session);
        for ino in locked.iter().take(STEP) {
            ctx.delete(keys::lock(*ino, session));
            ctx.change_lock(LockChange { session, ino: *ino, is_there: false });
        }
        if locked.len() > STEP {
            self.session_log.clean_soon(session);
        } else {
            ctx.delete(keys::session(session));
            self.session_log.forget_over(session);
        }
        Ok(())
    }

    /// An inode without a name that nobody else has open goes with it.
    fn drop_open_of_over(
        &self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        (ino, at): (pando_types::Ino, OpenAt),
    ) -> Result<(), Halt> {
        ctx.delete(keys::open(ino, session));
        ctx.change_open(OpenChange::Clear(ino, session));
        if at == OpenAt::Link
            && !self.opens.by_others(ino, session)
            && let Some(inode) = self.link_inode(ctx, ino)?
            && inode.attr.nlink == 0
        {
            self.destroy_link(ctx, &inode, Under::NothingOfMany)?;
        }
        Ok(())
    }
}
