//! Requests of clients: each changing request runs exactly once.
//!
//! 1. The outcome of a changing request is a record in the same insert group as its changes (of a
//!    local session it is kept in memory). A repetition finds it before anything else is examined.
//! 2. One outcome per request slot of a session is enough: a slot's next request comes only after
//!    the last one was answered. So no outcomes need collecting
//!    (docs/decisions/outcomes-by-request-slot.md).
//! 3. Refusals are outcomes, too. So a late repetition cannot succeed where the request was
//!    refused.

use alloc::boxed::Box;
use pando_types::op::{Op, Request};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{DirId, DirRef, Errno, Lsn, Order};

use crate::contract::{ClientTag, Halt, Input, Need, Now, Out};
use crate::requests::room;
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop};

impl Shard {
    pub(crate) fn client(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: Box<Request>,
    ) -> Result<(), Halt> {
        let result = self.ask(ctx, tag, &request);
        if let Ok(Some(key)) = result {
            self.counters.waited += 1;
            self.recall_lock(ctx.now, key);
            self.locks.wait(key, Input::Client(tag, request));
            return Ok(());
        }
        self.concerned.note_asked(tag, request);
        result.map(|_| ())
    }

    /// Handles a request of a client. `Some`: the request waits for this lock.
    fn ask(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Option<LockKey>, Halt> {
        self.counters.requests += 1;
        ctx.meta.request = request.head.id;
        ctx.changes_for = request.op.needs_wake().then_some(request.head.id.session);
        if let Err(refusal) = self.admit(tag, request) {
            self.reply(ctx, tag, request, Err(refusal), Need::Committed);
            return Ok(None);
        }
        if request.head.heard > 0
            && let Some(key) = self.must_have_heard(ctx, request.head.heard)
        {
            return Ok(Some(key));
        }
        let repeated = match self.repeated(ctx, tag, request) {
            // Whether the request ran, or its outcome, cannot be read.
            Err(Halt::Unreadable(_)) => Repeated::Refuse(Refusal::Errno(Errno::EIO)),
            repeated => repeated?,
        };
        match repeated {
            Repeated::No if room::is_short(ctx.now, request) => {
                self.refuse_for_room(ctx, tag, request)
            }
            Repeated::No => self.run_first(ctx, tag, request),
            Repeated::Answer(result) => {
                self.counters.repeated += 1;
                self.reply(ctx, tag, request, result, Need::Committed);
                Ok(None)
            }
            Repeated::Refuse(refusal) => {
                self.reply(ctx, tag, request, Err(refusal), Need::Committed);
                Ok(None)
            }
            Repeated::UnderWay => Ok(None),
            Repeated::Wait(key) => Ok(Some(key)),
            Repeated::Over => self.refuse_as_over(ctx, tag, request),
        }
    }

    /// Runs a request that has not run, unless its trail has changed. `Some`: the request waits for
    /// this lock.
    fn run_first(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Option<LockKey>, Halt> {
        // `Stale` is recorded as an outcome, so only the shard that owns the name may give it. From
        // another shard it could reach the owner as a floor, which says that the request ran.
        let judged = match self.check_trail(ctx, request) {
            Err(Stop::Refuse(stale)) if request.head.id.sequence > 0 => {
                self.answers_for(ctx, &request.op).and(Err(Stop::Refuse(stale)))
            }
            judged => judged,
        };
        let waited = match ctx.changes_for {
            Some(session) => self.readers_have_heard(session),
            None => Ok(()),
        };
        let refusal = match judged.and(waited).and_then(|()| self.run(ctx, tag, request)) {
            Ok(Ran::Answer(body, need)) => {
                self.answer(ctx, tag, request, Ok(body), need);
                return Ok(None);
            }
            Ok(Ran::Later) => return Ok(None),
            Err(Stop::Wait(key)) => {
                ctx.discard();
                return Ok(Some(key));
            }
            Err(Stop::Refuse(refusal)) => refusal,
            // Until here it has only read and collected its changes, so discarding them undoes it.
            Err(Stop::Halt(Halt::Unreadable(_))) if !self.concerned.is_torn() => {
                Refusal::Errno(Errno::EIO)
            }
            Err(Stop::Halt(halt)) => return Err(halt),
        };
        ctx.discard();
        self.answer(ctx, tag, request, Err(refusal), Need::Committed);
        Ok(None)
    }

    /// Refuses a request of an ended session. Only the shard that would run the request says so.
    /// Another shard may not have heard of the end, and may still run it.
    fn refuse_as_over(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Option<LockKey>, Halt> {
        let refusal = match self.answers_for(ctx, &request.op) {
            Err(Stop::Wait(key)) => return Ok(Some(key)),
            Err(Stop::Refuse(
                there @ (Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_)),
            )) => there,
            Err(Stop::Halt(Halt::Unreadable(_))) => Refusal::Errno(Errno::EIO),
            Err(Stop::Halt(halt)) => return Err(halt),
            Ok(()) | Err(Stop::Refuse(_)) => Refusal::NoSession,
        };
        self.sessions.running.end((request.head.id.session, request.head.id.slot));
        self.reply(ctx, tag, request, Err(refusal), Need::Committed);
        Ok(None)
    }

    fn repeated(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
    ) -> Result<Repeated, Halt> {
        let id = request.head.id;
        if id.sequence == 0 {
            return Ok(Repeated::No);
        }
        let was_of = self.sessions.log.was_of(id.session);
        let was_its = was_of.flatten().map(|key| key == tag.1);
        match self.is_its(tag.1, id.session).or(was_its) {
            Some(true) => {}
            Some(false) => return Ok(Repeated::Refuse(Refusal::NoSession)),
            // The session may have begun: shard 0 may be telling of it, and of its key.
            None if self.is_unheard(id.session) => {
                self.ask_about(ctx, id.session, tag);
                return Ok(Repeated::Wait(LockKey::Session(id.session)));
            }
            None => return Ok(Repeated::Over),
        }
        if was_of.is_none()
            && let Some((sequence, txn)) = self.sessions.running.get((id.session, id.slot))
            && sequence >= id.sequence
        {
            if sequence > id.sequence {
                // The client has been answered already, or it would not have sent a later request.
                return Ok(Repeated::Answer(Err(Refusal::Answered)));
            }
            #[cfg(feature = "planted")]
            let txn = txn.filter(|_| self.planted != Some(crate::Planted::CopyRunsBeside));
            if txn.is_some_and(|number| self.coordinator.answer_at(number, tag)) {
                return Ok(Repeated::UnderWay);
            }
            // The request waits to begin again. This repetition may begin it as well.
            return Ok(Repeated::No);
        }
        let slot = (id.session, id.slot);
        match self.sessions.outcomes.newest(slot) {
            Some(newest) if newest == id.sequence => {
                let outcome = self.sessions.outcomes.load_newest(ctx, slot)?;
                match outcome.and_then(|o| o.result) {
                    Some(result) => Ok(Repeated::Answer(result)),
                    None => self.ran_elsewhere(ctx, &request.op),
                }
            }
            Some(newest) if newest > id.sequence => Ok(Repeated::Answer(Err(Refusal::Answered))),
            #[cfg(feature = "planted")]
            _ if was_of.is_some() && self.is_planted(crate::Planted::EndedSessionRuns) => {
                Ok(Repeated::No)
            }
            _ if was_of.is_some() => Ok(Repeated::Over),
            _ => Ok(Repeated::No),
        }
    }

    /// Answers a repetition of which this shard has only the floor. The request ran, and its
    /// outcome is with its name. The name may be on its way here, or on another shard.
    fn ran_elsewhere(&mut self, ctx: &Ctx<'_>, op: &Op) -> Result<Repeated, Halt> {
        let Some((dir, order)) = self.name_of(op) else {
            return Ok(Repeated::Answer(Err(Refusal::Answered)));
        };
        match self.own(ctx, dir, order) {
            Ok(_) => Ok(Repeated::Answer(Err(Refusal::Answered))),
            Err(Stop::Refuse(refusal)) => Ok(Repeated::Answer(Err(refusal))),
            Err(Stop::Wait(key)) => Ok(Repeated::Wait(key)),
            Err(Stop::Halt(halt)) => Err(halt),
        }
    }

    /// Answers a request. Records the outcome of a changing request, unless the answer is a
    /// redirect.
    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        result: Result<Body, Refusal>,
        need: Need,
    ) {
        #[cfg(feature = "planted")]
        let result = match self.is_planted(crate::Planted::RanAndRefused) && ctx.now.is_full {
            true => result.and(Err(Refusal::Errno(Errno::ENOSPC))),
            false => result,
        };
        self.record(ctx, request, &result);
        let amendment = match result.is_ok() {
            true => self.amend(ctx, request),
            false => None,
        };
        self.reply(ctx, tag, request, result, need);
        if let (Some(amendment), Some(reply)) = (amendment, ctx.last_reply()) {
            reply.amendment = Some(amendment.into());
        }
    }

    /// Records the outcome of a changing request, unless the answer is a redirect.
    pub(crate) fn record(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &Request,
        result: &Result<Body, Refusal>,
    ) {
        let id = request.head.id;
        if id.sequence == 0 {
            return;
        }
        self.sessions.running.end((id.session, id.slot));
        if matches!(result, Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_))) {
            self.counters.redirected += 1;
            return;
        }
        // `Stale` is recorded like any refusal. This shard may be able to judge the trail when a
        // late repetition comes.
        self.counters.stale_trails += u64::from(matches!(result, Err(Refusal::Stale)));
        if !self.sessions.is_alive(id.session) {
            return;
        }
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::OutcomeNotRecorded)
            || (self.is_planted(crate::Planted::LocalOutcomeForgotten) && id.session.is_local())
        {
            return;
        }
        let at = self.name_of(&request.op).map(|(dir, order)| (dir.id, order.0));
        self.sessions.outcomes.note(ctx, (id.session, id.slot), id.sequence, result, at);
    }

    /// The name to which an operation's outcome belongs. An operation on a directory itself gives
    /// order 0, which is on the directory's home.
    pub(crate) fn name_of(&self, op: &Op) -> Option<(DirRef, Order)> {
        use pando_types::op::{FileAt, Target};
        let (dir, name) = match op {
            Op::DirSetAttr(dir, _)
            | Op::SetXattr { target: Target::Dir(dir), .. }
            | Op::RemoveXattr(Target::Dir(dir), _) => return Some((*dir, Order(0))),
            Op::Create { dir, name, .. }
            | Op::Mkdir(dir, name, _)
            | Op::Unlink(dir, name)
            | Op::Rmdir(dir, name)
            | Op::Link(_, dir, name) => (dir, name),
            Op::Rename { from, name, .. } => (from, name),
            Op::OpenName { dir, name, .. } => (dir, name),
            Op::SetAttr(file, _)
            | Op::Open { file, .. }
            | Op::Release(file)
            | Op::WriteData { file, .. }
            | Op::SetXattr { target: Target::File(file), .. }
            | Op::RemoveXattr(Target::File(file), _) => match &file.at {
                FileAt::Name(dir, name) => (dir, name),
                FileAt::Link => return None,
            },
            _ => return None,
        };
        Some((*dir, self.order(name)))
    }

    /// Names to which outcomes of undecided transactions will belong, locked or not yet. They stay
    /// on this shard until the decision.
    pub(crate) fn undecided_names(&self) -> impl Iterator<Item = (DirId, u64)> {
        self.coordinator.undecided().filter_map(|(_, request)| {
            let (dir, order) = self.name_of(&request.op)?;
            Some((dir.id, order.0))
        })
    }

    pub(crate) fn reply(
        &self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        result: Result<Body, Refusal>,
        need: Need,
    ) {
        // A redirected client may fsync at the new owner. If power loss then undid the transfer
        // here, its change would vanish, and stale clients would not find the new owner. So the
        // redirect waits until the transfer is durable. It asks for a sync: the sync of the
        // decision may have begun before this.
        let is_elsewhere =
            matches!(result, Err(Refusal::Redirect(_) | Refusal::AskHome | Refusal::HashSlot(_)));
        let need = match need {
            Need::Committed if is_elsewhere && self.migration.is_move_unsynced(ctx.now.durable) => {
                Need::Synced
            }
            // A power loss must not bring the ended session back: not for its client, nor for a
            // client that has its locks since.
            Need::Committed
                if (matches!(result, Err(Refusal::NoSession)) || request.head.heard > 0)
                    && self.sessions.log.is_end_unsynced(ctx.now.durable) =>
            {
                Need::Synced
            }
            need => need,
        };
        let reply = self.reply_of(ctx.now, request, result);
        ctx.send(need, Out::Reply(tag, Box::new(reply)));
    }

    pub(crate) fn reply_of(
        &self,
        now: Now,
        request: &Request,
        result: Result<Body, Refusal>,
    ) -> Reply {
        let (version, news) = self.news_for(request);
        Reply {
            id: request.head.id,
            trace: request.head.trace,
            shard: self.config.shard,
            epoch: now.epoch,
            durable: now.durable,
            seen: Lsn(now.seen.0 + 1),
            version,
            clock: now.wall,
            result,
            news,
            amendment: None,
        }
    }
}

enum Repeated {
    No,
    /// The request ran, with this result.
    Answer(Result<Body, Refusal>),
    /// The request is refused with this, whether it ran or not.
    Refuse(Refusal),
    UnderWay,
    Wait(LockKey),
    /// The session is over, and no outcome is here.
    Over,
}
