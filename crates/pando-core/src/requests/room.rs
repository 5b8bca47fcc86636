//! Requests that take space, on a disk that has none.
//!
//! The shell says with each input whether there is room ([`Now::is_full`](crate::Now)).
//!
//! 1. A request that takes space is refused with `ENOSPC` only if it is known not to have run. So
//!    this shard must answer for it, no outcome of it may be here, and none may be on its way here.
//! 2. A refused request never runs, whichever copies of it wait. The refusal is remembered like an
//!    outcome, but in memory: there may be no room for a record. A copy from before a restart died
//!    with its connection.
//! 3. When the reserve is used up, too ([`Now::is_spent`](crate::Now)), every other changing
//!    request is refused as well. Its run would fail, and the shard would have to [begin
//!    anew](crate::input::anew).
//! 4. Begins and ends of sessions write nothing at first. They wait for room.

use pando_types::Errno;
use pando_types::op::{Op, Request};
use pando_types::reply::Refusal;

use crate::contract::{ClientTag, Halt, Need, Now};
use crate::records::record::Outcome;
use crate::requests::admission::{Asks, asks};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::Stop;
use crate::state::txn::transaction::Txn;

/// Whether a request takes space, and so is refused when the disk is full. All others free space,
/// or need next to none.
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

/// Whether an operation of a local session may write nothing: most opens of such a session have no
/// record.
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
    /// Refuses a request that has not run here, because there is no room. `Some`: the request waits
    /// for this lock until that is certain.
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

    /// Whether the outcome of a request would be on this shard if it had run. If not, the error
    /// tells where to go or to wait.
    pub(crate) fn answers_for(&mut self, ctx: &Ctx<'_>, op: &Op) -> Result<(), Stop> {
        self.open_place(op)?;
        if let Some((dir, order)) = self.name_of(op) {
            self.own(ctx, dir, order)?;
        }
        Ok(())
    }

    /// Remembers without a record that a request will not run.
    pub(crate) fn note_refusal(&mut self, request: &Request, refusal: &Refusal) {
        let id = request.head.id;
        let slot = (id.session, id.slot);
        self.sessions.running.end(slot);
        if matches!(refusal, Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_)) {
            self.counters.redirected += 1;
        } else if id.sequence > 0
            && self.sessions.is_alive(id.session)
            && self.sessions.outcomes.newest(slot) < Some(id.sequence)
        {
            let at = self.name_of(&request.op).map(|(dir, order)| (dir.id, order.0));
            let result = Some(Err(refusal.clone()));
            self.sessions.outcomes.refuse(slot, Outcome { sequence: id.sequence, result, at });
        }
    }

    /// Whether there is no room to decide a transaction.
    pub(crate) fn lacks_room(&self, ctx: &Ctx<'_>, txn: &Txn) -> bool {
        ctx.now.is_full && txn.undecided().is_some_and(|request| takes_space(&request.op))
    }
}
