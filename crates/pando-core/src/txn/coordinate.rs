//! The coordinator of a transaction: it asks for votes, decides, and finishes or undoes.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pando_types::op::{Place, Request};
use pando_types::peer::{
    Arrival, Change, HashSlotArrival, Peer, PeerMessage, Prepare, RowChange, Seen, Vote,
};
use pando_types::reply::{HashSlotNews, Refusal};
use pando_types::{DirRef, Errno, ShardIndex, TxnId};

use crate::contract::{ClientTag, Halt, Input, Need};
use crate::counters::TxnKind;
use crate::records::keys;
use crate::records::record::{Decided, Record};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, broken};
use crate::state::txn::plan::Plan;
use crate::state::txn::transaction::{Step, StepState, Txn};
use crate::txn::plan::view::{Decision, Next};
use crate::txn::soundness;

/// Number of times in a row that a step is sent on at once. Two shards may send it to each other
/// until one of them has heard of a decision. After that the step waits for the next resend.
const SENT_ON_MAX: u32 = 8;
/// Pause before a transaction that met a `Busy` place begins again, nanoseconds.
const AGAIN_AFTER: u64 = 2_000_000;

/// How safe the log must be before a coordinator's message leaves. A decision waits for a sync. So
/// does a page of a move that names objects, since the target may sync it at any time.
pub(super) fn need_of(message: &PeerMessage) -> Need {
    let names_object = |row: &RowChange| match row {
        RowChange::Put(key, _) => keys::is_slice(key),
        RowChange::Delete(_) | RowChange::DeleteRange(..) => false,
    };
    match message {
        PeerMessage::Finish(_)
        | PeerMessage::Page { synced: true, .. }
        | PeerMessage::HashSlotPage { synced: true, .. } => Need::Synced,
        PeerMessage::Page { rows, .. }
        | PeerMessage::HashSlotPage { rows, .. }
        | PeerMessage::Prepare(
            _,
            Prepare::Arrive(Arrival { rows, .. })
            | Prepare::TakeHashSlot(HashSlotArrival { rows, .. }),
        ) if rows.iter().any(names_object) => Need::Synced,
        _ => Need::Committed,
    }
}

impl Shard {
    /// Begins a transaction for a client's request.
    pub(crate) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        plan: Plan,
    ) -> Result<Ran, Stop> {
        let number = self.numbers.txn(ctx).number;
        self.enter(number, Some((tag, request)), plan);
        self.advance(ctx, number)?;
        Ok(Ran::Later)
    }

    /// Puts a transaction into the table. `advance` starts it.
    pub(crate) fn enter(&mut self, number: u64, from: Option<(ClientTag, &Request)>, plan: Plan) {
        if let Some((_, request)) = from
            && request.head.id.sequence > 0
        {
            let id = request.head.id;
            self.sessions.running.insert((id.session, id.slot), (id.sequence, Some(number)));
        }
        let kind = plan.kind();
        self.counters.txns_begun[kind as usize] += 1;
        let txn = Txn {
            kind: Some(kind),
            request: from.map(|(_, request)| Arc::new(request.clone())),
            tag: from.map(|(tag, _)| tag),
            plan: Some(plan),
            steps: Vec::new(),
            sent: None,
            sent_at: 0,
            begun_at: 0,
            asked_at: 0,
            sent_on: 0,
            finishing: Vec::new(),
            then: Vec::new(),
            next_step: 0,
        };
        self.coordinator.txns.insert(number, txn);
        self.coordinator.sent.note(0, number);
    }

    pub(super) fn id(&self, number: u64) -> TxnId {
        TxnId { shard: self.config.shard, number }
    }

    /// Takes the next step of a transaction's plan.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let Some(txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
        self.acts_on(&txn);
        let result = self.advance_txn(ctx, number, txn);
        self.concerned.is_torn |= result.is_err();
        result
    }

    fn advance_txn(&mut self, ctx: &mut Ctx<'_>, number: u64, mut txn: Txn) -> Result<(), Halt> {
        let Some(mut plan) = txn.plan.take() else {
            return Err(broken("a decided transaction votes"));
        };
        let next = plan.next(self, ctx, self.id(number), &txn.steps, txn.request.as_deref());
        txn.plan = Some(plan);
        match next {
            Ok(Next::Ask(place, prepare)) => {
                let to = self.shard_of(ctx, &place)?;
                if self.is_not_awaited(&txn, to) {
                    return self.give_up(ctx, number, txn);
                }
                if txn.steps.is_empty() {
                    txn.begun_at = ctx.now.nanos;
                }
                (txn.asked_at, txn.sent_on) = (ctx.now.nanos, 0);
                let step = txn.steps.len() as u16;
                txn.steps.push(Step {
                    place: place.clone(),
                    prepare: prepare.clone(),
                    to,
                    state: StepState::Asked,
                    seen: None,
                    changes: Vec::new(),
                });
                self.say(ctx, number, txn, to, step, PeerMessage::Prepare(place, prepare));
                self.note_deadline(number);
                Ok(())
            }
            Ok(Next::Pause) => {
                txn.sent = None;
                self.sent_now(ctx, number, &mut txn);
                self.coordinator.txns.insert(number, txn);
                Ok(())
            }
            Ok(Next::Send(to, message)) => {
                self.say(ctx, number, txn, to, 0, message);
                Ok(())
            }
            // The request's name was split away before it was locked. The outcome must be recorded
            // at the shard that has the name now.
            Ok(Next::Decide(_)) if self.has_strayed(ctx, &txn)? => {
                self.undo(ctx, number, txn, None)
            }
            // The request was not too late when it came. A change of its trail has overtaken it
            // since.
            Ok(Next::Decide(_)) if self.has_trail_changed(txn.request.as_deref(), &txn.steps) => {
                self.undo(ctx, number, txn, Some(Refusal::Stale))
            }
            // Nothing is decided yet, so a full disk can still refuse.
            Ok(Next::Decide(_)) if self.lacks_room(ctx, &txn) => {
                self.undo(ctx, number, txn, Some(Refusal::Errno(Errno::ENOSPC)))
            }
            Ok(Next::Decide(decision)) => self.decide(ctx, number, txn, decision),
            Ok(Next::Restart) | Err(Stop::Wait(_)) => self.undo(ctx, number, txn, None),
            Err(Stop::Refuse(refusal)) => self.undo(ctx, number, txn, Some(refusal)),
            // The shard was giving a range away. It may have dropped some rows, and has lost the
            // state of the copy.
            Err(Stop::Halt(halt @ Halt::Unreadable(_))) if self.is_given_in_part(number, &txn) => {
                Err(halt)
            }
            Err(Stop::Halt(Halt::Unreadable(_))) => {
                if txn.request.is_none() {
                    self.keep_still(ctx);
                }
                self.undo(ctx, number, txn, Some(Refusal::Errno(Errno::EIO)))
            }
            Err(Stop::Halt(halt)) => Err(halt),
        }
    }

    /// Whether a split, merge or handover stopped in the middle of its decision.
    fn is_given_in_part(&self, number: u64, txn: &Txn) -> bool {
        let moves = matches!(txn.plan, Some(Plan::Move(_) | Plan::Handover(_)));
        moves && !self.migration.copies.contains_key(&number)
    }

    /// Whether the name to which a transaction's outcome belongs is no longer on this shard.
    fn has_strayed(&mut self, ctx: &Ctx<'_>, txn: &Txn) -> Result<bool, Halt> {
        let at = txn.request.as_deref().and_then(|request| self.name_of(&request.op));
        let Some((dir, order)) = at else { return Ok(false) };
        Ok(!self.headers(ctx, dir.id)?.iter().any(|header| header.range().contains(&order.0)))
    }

    /// Notes that a message was sent now, so that it is sent again if no answer comes.
    fn sent_now(&mut self, ctx: &Ctx<'_>, number: u64, txn: &mut Txn) {
        txn.sent_at = ctx.now.nanos;
        self.coordinator.sent.note(ctx.now.nanos, number);
    }

    fn say(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        mut txn: Txn,
        to: ShardIndex,
        step: u16,
        message: PeerMessage,
    ) {
        txn.sent = Some((to, step, message.clone()));
        self.sent_now(ctx, number, &mut txn);
        self.coordinator.txns.insert(number, txn);
        let need = need_of(&message);
        self.tell(ctx, need, to, (self.id(number), step), message);
    }

    /// The owner of a place, as far as this shard knows.
    pub(super) fn shard_of(&mut self, ctx: &Ctx<'_>, place: &Place) -> Result<ShardIndex, Halt> {
        Ok(match place {
            Place::Order(dir, order) => self.route(ctx, dir.id, *order)?,
            Place::Home(dir) => self.config.map.home(dir.id),
            Place::Link(ino) => self.config.map.link(*ino),
            Place::Shard(shard) => *shard,
        })
    }

    /// Handles a participant's message.
    pub(crate) fn coordinate(&mut self, ctx: &mut Ctx<'_>, peer: Peer) -> Result<(), Halt> {
        let (number, step, from) = (peer.txn.number, peer.step, peer.from);
        if peer.txn.shard != self.config.shard {
            return Ok(());
        }
        match peer.message {
            PeerMessage::Voted(vote) => self.voted(ctx, number, step, from, vote),
            PeerMessage::Finished => self.step_finished(ctx, number, step, from),
            PeerMessage::Ask => {
                self.answer_ask(ctx, number, step, from);
                Ok(())
            }
            PeerMessage::PageDone(pages) => {
                if !self.coordinator.txns.contains_key(&number) {
                    self.tell(
                        ctx,
                        Need::Committed,
                        from,
                        (peer.txn, step),
                        PeerMessage::Finish(None),
                    );
                    return Ok(());
                }
                self.page_done(ctx, number, pages)
            }
            PeerMessage::Elsewhere(news) => self.readdress(ctx, number, step, from, news),
            _ => Ok(()),
        }
    }

    fn voted(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        step: u16,
        from: ShardIndex,
        vote: Vote,
    ) -> Result<(), Halt> {
        let Some(txn) = self.coordinator.txns.get_mut(&number) else {
            // The transaction was undone, or is long over: the participant may release its locks.
            let id = self.id(number);
            self.tell(ctx, Need::Committed, from, (id, step), PeerMessage::Finish(None));
            return Ok(());
        };
        let Some(plan) = txn.plan.as_mut() else { return Ok(()) };
        let last = txn.steps.len().wrapping_sub(1) == usize::from(step);
        let Some(at) = txn.steps.get_mut(usize::from(step)) else { return Ok(()) };
        if !last || at.state != StepState::Asked {
            return Ok(());
        }
        let vote = match vote {
            Vote::Yes(seen) if !soundness::answers(&at.prepare, &seen) => {
                self.counters.bad_messages += 1;
                Vote::No(Errno::EIO)
            }
            vote => vote,
        };
        match vote {
            Vote::Yes(seen) => {
                (at.state, at.to, at.seen) = (StepState::Yes, from, Some(seen));
                self.advance(ctx, number)
            }
            Vote::No(errno) if plan.goes_on(&at.prepare, errno) => {
                at.state = StepState::Refused(errno);
                self.advance(ctx, number)
            }
            Vote::No(errno) => {
                let refusal = plan.refusal(&at.prepare, errno);
                at.state = StepState::Refused(errno);
                let again = plan.begins_again(&at.prepare, errno);
                let Some(txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
                self.undo(ctx, number, txn, (!again).then_some(refusal))
            }
            Vote::Overtaken(since) => {
                (at.state, at.seen) =
                    (StepState::Refused(Errno::EAGAIN), Some(Seen::Position(since)));
                self.advance(ctx, number)
            }
            Vote::Busy => {
                at.state = StepState::Refused(Errno::EBUSY);
                let Some(txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
                self.undo(ctx, number, txn, None)
            }
            Vote::Redirect(history) => {
                let Place::Order(dir, _) = at.place else { return Ok(()) };
                self.namespace.dirs.learn(dir.id, &history);
                self.ask_again(ctx, number, from, None)
            }
            Vote::HashSlot(news) => {
                let dir = match at.place {
                    Place::Order(dir, _) => Some(dir),
                    _ => None,
                };
                let is_news = self.hear_of_hash_slot(news);
                match dir {
                    // This was known already. So the step asked there for a partition, and the home
                    // knows where that is.
                    Some(dir) if !is_news => self.ask_its_home(ctx, number, from, dir),
                    _ => self.ask_again(ctx, number, from, None),
                }
            }
            Vote::AskHome => {
                let Place::Order(dir, _) = at.place else { return Ok(()) };
                self.ask_its_home(ctx, number, from, dir)
            }
        }
    }

    /// Sends the last step to the home of its directory. This shard's knowledge of the partitions
    /// is dropped: it may be of another life of the directory's id.
    fn ask_its_home(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        refused_by: ShardIndex,
        dir: DirRef,
    ) -> Result<(), Halt> {
        self.namespace.dirs.unlearn(dir.id);
        let home = self.config.map.home(dir.id);
        self.ask_again(ctx, number, refused_by, Some(home))
    }

    /// Sends the last step to the owner as it is known now. If that is the shard that just refused,
    /// the step is sent after a while.
    fn ask_again(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        refused_by: ShardIndex,
        home: Option<ShardIndex>,
    ) -> Result<(), Halt> {
        let Some(mut txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
        self.acts_on(&txn);
        let step = txn.steps.len().saturating_sub(1) as u16;
        if let Some(last) = txn.steps.last_mut() {
            let to = match home {
                Some(home) => home,
                None => self.shard_of(ctx, &last.place)?,
            };
            last.to = to;
            let message = PeerMessage::Prepare(last.place.clone(), last.prepare.clone());
            txn.sent_on += 1;
            if to != refused_by && txn.sent_on % SENT_ON_MAX != 0 {
                self.say(ctx, number, txn, to, step, message);
                return Ok(());
            }
            txn.sent = Some((to, step, message));
            self.sent_now(ctx, number, &mut txn);
        }
        self.coordinator.txns.insert(number, txn);
        Ok(())
    }

    fn decide(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        mut txn: Txn,
        decision: Decision,
    ) -> Result<(), Halt> {
        let id = self.id(number);
        for (step, change) in decision.changes {
            txn.steps[step].changes.push(change);
        }
        let own = self.config.shard;
        for (index, step) in txn.steps.iter().enumerate() {
            if step.state != StepState::Yes || !step.prepare.locks() {
                continue;
            }
            if step.to == own {
                self.finish_here(ctx, id, index as u16, &step.changes)?;
            } else {
                txn.finishing.push((index as u16, step.to, step.changes.clone()));
            }
        }
        let remote = !txn.finishing.is_empty();
        if let Some(kind) = txn.kind {
            self.counters.txns_committed[kind as usize] += 1;
            self.counters.txns_remote[kind as usize] += u64::from(remote);
        }
        if let (Some(tag), Some(request)) = (txn.tag, txn.request.take()) {
            // The answer does not wait for a sync. All that the transaction changed on other shards
            // stays locked until they hear of the synced decision.
            self.answer(ctx, tag, &request, Ok(decision.body), Need::Committed);
            txn.request = Some(request);
        }
        (txn.plan, txn.sent, txn.then) = (None, None, decision.then);
        txn.next_step = txn.steps.len() as u16;
        txn.steps.clear();
        self.finishing(ctx, number, txn)
    }

    /// Logs what is left to do after the decision, and does it. Forgets the transaction when
    /// nothing is left.
    fn finishing(&mut self, ctx: &mut Ctx<'_>, number: u64, mut txn: Txn) -> Result<(), Halt> {
        if txn.finishing.is_empty() {
            let own = self.config.shard;
            for (mut shard, change) in core::mem::take(&mut txn.then) {
                if let Change::Bury(dir) = &change {
                    // The id's hash slot may have been handed over since the decision.
                    shard = self.config.map.home(dir.id);
                }
                if shard == own {
                    self.apply(ctx, &change)?;
                } else {
                    txn.finishing.push((txn.next_step, shard, alloc::vec![change]));
                    txn.next_step += 1;
                }
            }
        }
        if txn.finishing.is_empty() {
            ctx.delete(keys::txn(number));
            return Ok(());
        }
        let decided = Decided {
            what: txn.kind.map_or("?", TxnKind::name).to_string(),
            request: txn.request.as_deref().map(|r| r.head.id).unwrap_or_default(),
            steps: txn.finishing.clone(),
            then: txn.then.clone(),
            next_step: txn.next_step,
        };
        ctx.put(keys::txn(number), decided.encode());
        self.sent_now(ctx, number, &mut txn);
        let steps = txn.finishing.clone();
        self.coordinator.txns.insert(number, txn);
        for (step, shard, changes) in steps {
            let message = PeerMessage::Finish(Some(changes));
            self.tell(ctx, Need::Synced, shard, (self.id(number), step), message);
        }
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::IntentForgottenEarly) {
            self.coordinator.txns.remove(&number);
            ctx.delete(keys::txn(number));
        }
        Ok(())
    }

    fn step_finished(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        step: u16,
        from: ShardIndex,
    ) -> Result<(), Halt> {
        let Some(mut txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
        let before = txn.finishing.len();
        txn.finishing.retain(|(s, shard, _)| (*s, *shard) != (step, from));
        if txn.finishing.is_empty() && before > 0 {
            return self.finishing(ctx, number, txn);
        }
        self.coordinator.txns.insert(number, txn);
        Ok(())
    }

    /// Sends a decision to the shard that has taken over its place.
    fn readdress(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        step: u16,
        from: ShardIndex,
        news: HashSlotNews,
    ) -> Result<(), Halt> {
        self.hear_of_hash_slot(news);
        let Some(txn) = self.coordinator.txns.get(&number) else { return Ok(()) };
        let at = txn.finishing.iter().position(|(s, shard, _)| (*s, *shard) == (step, from));
        let change = at.and_then(|at| txn.finishing[at].2.first().cloned());
        let (Some(at), Some(change)) = (at, change) else { return Ok(()) };
        // As far as this shard knows, the place has not moved. It asks the shard that refused again
        // after a while.
        let Some(to) = self.owner_of(&change).filter(|to| *to != from) else { return Ok(()) };
        let Some(mut txn) = self.coordinator.txns.remove(&number) else { return Ok(()) };
        txn.finishing[at].1 = to;
        self.counters.readdressed += 1;
        self.finishing(ctx, number, txn)
    }

    /// The shard that makes a change that needs no prepared record, as far as this shard knows.
    fn owner_of(&self, change: &Change) -> Option<ShardIndex> {
        match change {
            Change::Bury(dir) | Change::NewHome { dir, .. } => Some(self.config.map.home(dir.id)),
            _ => None,
        }
    }

    fn answer_ask(&mut self, ctx: &mut Ctx<'_>, number: u64, step: u16, from: ShardIndex) {
        let id = self.id(number);
        let decision = match self.coordinator.txns.get(&number) {
            Some(txn) if txn.plan.is_some() => return, // still voting
            Some(txn) => txn
                .finishing
                .iter()
                .find(|(s, shard, _)| (*s, *shard) == (step, from))
                .map(|(.., changes)| changes.clone()),
            None => None,
        };
        self.tell(ctx, Need::Synced, from, (id, step), PeerMessage::Finish(decision));
    }

    /// Undoes a transaction that is not decided. It fails with `refusal` or, without one, begins
    /// again.
    pub(crate) fn undo(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        txn: Txn,
        refusal: Option<Refusal>,
    ) -> Result<(), Halt> {
        self.acts_on(&txn);
        let result = self.undo_txn(ctx, number, txn, refusal);
        self.concerned.is_torn |= result.is_err();
        result
    }

    fn undo_txn(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        mut txn: Txn,
        refusal: Option<Refusal>,
    ) -> Result<(), Halt> {
        // A refusal is an outcome, too: it is recorded only at the shard that has the name.
        let is_over = refusal == Some(Refusal::NoSession);
        let has_strayed = match self.has_strayed(ctx, &txn) {
            Err(Halt::Unreadable(_)) if is_over => true,
            has => has?,
        };
        let refusal = if has_strayed { None } else { refusal };
        // The refusal may have its cause in a change of the request's trail.
        let has_changed = self.has_trail_changed(txn.request.as_deref(), &txn.steps);
        let has_changed = has_changed && !is_over;
        let refusal = refusal.map(|refusal| if has_changed { Refusal::Stale } else { refusal });
        let id = self.id(number);
        ctx.trace = txn.trace().unwrap_or(ctx.trace);
        for (index, step) in txn.steps.iter().enumerate() {
            let message = PeerMessage::Finish(None);
            self.tell(ctx, Need::Committed, step.to, (id, index as u16), message);
        }
        if let Some(plan) = txn.plan.take() {
            plan.abandon(self, ctx, id);
        }
        let (Some(tag), Some(request)) = (txn.tag, txn.request) else { return Ok(()) };
        match refusal {
            Some(refusal) => self.answer(ctx, tag, &request, Err(refusal), Need::Committed),
            None => {
                self.counters.restarts += 1;
                let head = request.head.id;
                if head.sequence > 0 {
                    self.sessions.running.insert((head.session, head.slot), (head.sequence, None));
                }
                // Pauses differ by number, so that two transactions that met do not meet again.
                let at = ctx.now.nanos + AGAIN_AFTER + number % 7 * (AGAIN_AFTER / 2);
                let request = Box::new(Arc::unwrap_or_clone(request));
                self.queue.put_off(at, Input::Client(tag, request));
            }
        }
        Ok(())
    }
}
