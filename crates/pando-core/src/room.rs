//! Requests that take space, on a disk that has none.
//!
//! The shell says with each input whether there is room ([`Now::is_full`](crate::Now)). A request
//! that takes space is refused with `ENOSPC` only once it is known that it has not run: after its
//! outcome was looked for, and nothing of it is on its way here. From then on it does not run,
//! whatever copies of it wait: the refusal is remembered as an outcome is. It is not a record, for
//! which there may be no room. A copy that came before a restart has died with its connection.
//!
//! When even the reserve is used up ([`Now::is_spent`](crate::Now)), so is every other request that
//! changes something: run, it would come to nothing, at the price of [beginning anew](crate::anew).
//! Beginnings and ends of sessions write nothing at first: they wait for room.

use pando_types::Errno;
use pando_types::op::{Op, Request};
use pando_types::reply::Refusal;

use crate::admission::{Asks, asks};
use crate::contract::{ClientTag, Halt, Need, Now};
use crate::ctx::{Ctx, Stop};
use crate::locks::LockKey;
use crate::record::Outcome;
use crate::shard::Shard;
use crate::txn::Txn;

/// Whether a request makes something, and is refused when the disk is full. All others give space
/// back, or need next to none.
#[must_use]
pub const fn takes_space(op: &Op) -> bool {
    matches!(
        op,
        Op::Create { .. }
            | Op::Mkdir(..)
            | Op::Link(..)
            | Op::Rename { .. }
            | Op::SetXattr { .. }
            | Op::WriteData { .. }
    )
}

/// Whether there is no room for a request that has not run.
pub fn is_short(now: Now, request: &Request) -> bool {
    let op = &request.op;
    let changes = || matches!(asks(op), Asks::Changes);
    now.is_full && takes_space(op)
        || now.is_spent
            && changes()
            && !(request.head.id.session.is_local() && may_write_nothing(op))
}

/// What a client of this process has open is in no record, mostly.
const fn may_write_nothing(op: &Op) -> bool {
    matches!(
        op,
        Op::Open { truncate: false, kill: None, .. }
            | Op::OpenName { truncate: false, kill: None, .. }
            | Op::Release(_)
            | Op::ReleaseAll(..)
    )
}

impl Shard {
    /// There is no room for a request that has not run here. `Some`: it waits for this, to find
    /// out.
    pub(crate) fn refuse_for_room(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Option<LockKey>, Halt> {
        let refusal = match self.answers_for(ctx, &request.op) {
            Ok(()) => Refusal::Errno(Errno::ENOSPC),
            Err(Stop::Refuse(refusal)) => refusal,
            Err(Stop::Wait(key)) => return Ok(Some(key)),
            Err(Stop::Halt(Halt::Unreadable(_))) => Refusal::Errno(Errno::EIO),
            Err(Stop::Halt(halt)) => return Err(halt),
        };
        self.note_refusal(request, &refusal);
        self.reply(ctx, tag, request, Err(refusal), Need::Committed);
        Ok(None)
    }

    /// Whether the outcome of a request would be here, if it had run.
    pub(crate) fn answers_for(&mut self, ctx: &Ctx<'_>, op: &Op) -> Result<(), Stop> {
        self.open_place(op)?;
        if let Some((dir, order)) = self.name_of(op) {
            self.own(ctx, dir, order)?;
        }
        Ok(())
    }

    /// It will not run, and that is remembered without a record.
    pub(crate) fn note_refusal(&mut self, request: &Request, refusal: &Refusal) {
        let id = request.head.id;
        let slot = (id.session, id.slot);
        self.running.remove(&slot);
        if matches!(refusal, Refusal::Redirect(_) | Refusal::AskHome | Refusal::Slot(_)) {
            self.counters.redirected += 1;
        } else if id.sequence > 0
            && self.sessions.contains_key(&id.session)
            && self.outcomes.newest(slot) < Some(id.sequence)
        {
            let at = self.name_of(&request.op).map(|(dir, order)| (dir.id, order.0));
            let result = Some(Err(refusal.clone()));
            self.outcomes.refuse(slot, Outcome { sequence: id.sequence, result, at });
        }
    }

    /// Whether there is no room to decide a transaction.
    pub(crate) fn lacks_room(&self, ctx: &Ctx<'_>, txn: &Txn) -> bool {
        ctx.now.is_full && txn.undecided().is_some_and(|request| takes_space(&request.op))
    }
}
