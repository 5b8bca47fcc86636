//! The coordinator of a transaction: it asks for votes, decides, and finishes or undoes.

use alloc::boxed::Box;
use alloc::sync::Arc;
use pando_types::op::{Place, Request};
use pando_types::peer::{
    Arrival, Change, HashSlotArrival, Peer, PeerMessage, Prepare, RowChange, Seen, Vote,
};
use pando_types::reply::{HashSlotNews, Refusal};
use pando_types::{DirRef, Errno, ShardIndex, TxnId};

use crate::contract::{ClientTag, Halt, Input, Need};
use crate::records::keys;
use crate::records::record::Record;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, broken};
use crate::state::txn::plan::Plan;
use crate::state::txn::transaction::Txn;
use crate::txn::plan::view::{Decision, Next};
use crate::txn::soundness;

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
        if let Some((_, request)) = from {
            self.sessions.running.begin(request.head.id, number);
        }
        let kind = plan.kind();
        self.counters.txns_begun[kind as usize] += 1;
        self.coordinator.enter(number, Txn::new(kind, from, plan));
    }

    pub(super) fn id(&self, number: u64) -> TxnId {
        TxnId { shard: self.config.shard, number }
    }

    /// Takes the next step of a transaction's plan.
    pub(crate) fn advance(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let Some(txn) = self.coordinator.take_out(number) else { return Ok(()) };
        self.acts_on(&txn);
        let result = self.advance_txn(ctx, number, txn);
        self.concerned.note_torn(result.is_err());
        result
    }

    fn advance_txn(&mut self, ctx: &mut Ctx<'_>, number: u64, mut txn: Txn) -> Result<(), Halt> {
        let Some((plan, steps, request)) = txn.planning() else {
            return Err(broken("a decided transaction votes"));
        };
        match plan.next(self, ctx, self.id(number), steps, request) {
            Ok(Next::Ask(place, prepare)) => {
                let to = self.shard_of(ctx, &place)?;
                if self.is_not_awaited(&txn, to) {
                    return self.give_up(ctx, number, txn);
                }
                let step = txn.ask(place.clone(), prepare.clone(), to, ctx.now.nanos);
                self.say(ctx, number, txn, to, step, PeerMessage::Prepare(place, prepare));
                self.coordinator.note_deadline(number, self.config.votes_wait);
                Ok(())
            }
            Ok(Next::Pause) => {
                self.coordinator.put_back_sent(number, txn, None, ctx.now.nanos);
                Ok(())
            }
            Ok(Next::Send(to, message)) => {
                self.say(ctx, number, txn, to, 0, message);
                Ok(())
            }
            // The request's name was split away before it was locked. The outcome must be recorded
            // at the shard that has the name now.
            Ok(Next::Decide(_)) if self.has_strayed(ctx, &txn)? => {
                self.undo_taken(ctx, number, txn, None)
            }
            // The request was not too late when it came. A change of its trail has overtaken it
            // since.
            Ok(Next::Decide(_)) if self.has_trail_changed(txn.request(), txn.steps()) => {
                self.undo_taken(ctx, number, txn, Some(Refusal::Stale))
            }
            // Nothing is decided yet, so a full disk can still refuse.
            Ok(Next::Decide(_)) if self.lacks_room(ctx, &txn) => {
                self.undo_taken(ctx, number, txn, Some(Refusal::Errno(Errno::ENOSPC)))
            }
            Ok(Next::Decide(decision)) => self.decide(ctx, number, txn, decision),
            Ok(Next::Restart) | Err(Stop::Wait(_)) => self.undo_taken(ctx, number, txn, None),
            Err(Stop::Refuse(refusal)) => self.undo_taken(ctx, number, txn, Some(refusal)),
            // The shard was giving a range away. It may have dropped some rows, and has lost the
            // state of the copy.
            Err(Stop::Halt(halt @ Halt::Unreadable(_))) if self.is_given_in_part(number, &txn) => {
                Err(halt)
            }
            Err(Stop::Halt(Halt::Unreadable(_))) => {
                if txn.request().is_none() {
                    self.keep_still(ctx);
                }
                self.undo_taken(ctx, number, txn, Some(Refusal::Errno(Errno::EIO)))
            }
            Err(Stop::Halt(halt)) => Err(halt),
        }
    }

    /// Whether a split, merge or handover stopped in the middle of its decision.
    fn is_given_in_part(&self, number: u64, txn: &Txn) -> bool {
        let moves = matches!(txn.plan(), Some(Plan::Move(_) | Plan::Handover(_)));
        moves && self.migration.copies.get(number).is_none()
    }

    /// Whether the name to which a transaction's outcome belongs is no longer on this shard.
    fn has_strayed(&mut self, ctx: &Ctx<'_>, txn: &Txn) -> Result<bool, Halt> {
        let at = txn.request().and_then(|request| self.name_of(&request.op));
        let Some((dir, order)) = at else { return Ok(false) };
        Ok(!self.headers(ctx, dir.id)?.iter().any(|header| header.range().contains(&order.0)))
    }

    fn say(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        txn: Txn,
        to: ShardIndex,
        step: u16,
        message: PeerMessage,
    ) {
        let sent = Some((to, step, message.clone()));
        self.coordinator.put_back_sent(number, txn, sent, ctx.now.nanos);
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
                if !self.coordinator.has(number) {
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
        let Some(txn) = self.coordinator.get(number) else {
            // The transaction was undone, or is long over: the participant may release its locks.
            let id = self.id(number);
            self.tell(ctx, Need::Committed, from, (id, step), PeerMessage::Finish(None));
            return Ok(());
        };
        let (Some(plan), Some(at)) = (txn.plan(), txn.awaited(step)) else { return Ok(()) };
        let vote = match vote {
            Vote::Yes(seen) if !soundness::answers(&at.prepare, &seen) => {
                self.counters.bad_messages += 1;
                Vote::No(Errno::EIO)
            }
            vote => vote,
        };
        match vote {
            Vote::Yes(seen) => {
                self.coordinator.note_yes(number, from, seen);
                self.advance(ctx, number)
            }
            Vote::No(errno) if plan.goes_on(&at.prepare, errno) => {
                self.coordinator.note_no(number, errno, None);
                self.advance(ctx, number)
            }
            Vote::No(errno) => {
                let again = plan.begins_again(&at.prepare, errno);
                let refusal = (!again).then(|| plan.refusal(&at.prepare, errno));
                self.coordinator.note_no(number, errno, None);
                self.undo(ctx, number, refusal)
            }
            Vote::Overtaken(since) => {
                self.coordinator.note_no(number, Errno::EAGAIN, Some(Seen::Position(since)));
                self.advance(ctx, number)
            }
            Vote::Busy => {
                self.coordinator.note_no(number, Errno::EBUSY, None);
                self.undo(ctx, number, None)
            }
            Vote::Redirect(_) | Vote::HashSlot(_) | Vote::AskHome => {
                let dir = match at.place {
                    Place::Order(dir, _) => Some(dir),
                    _ => None,
                };
                self.sent_elsewhere(ctx, number, from, dir, vote)
            }
        }
    }

    /// Follows a participant that sends the last step to another shard. `dir`: the directory of the
    /// step's name or partition.
    fn sent_elsewhere(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        from: ShardIndex,
        dir: Option<DirRef>,
        vote: Vote,
    ) -> Result<(), Halt> {
        match (vote, dir) {
            (Vote::Redirect(history), Some(dir)) => {
                self.namespace.dirs.learn(dir.id, &history);
                self.ask_again(ctx, number, from, None)
            }
            (Vote::HashSlot(news), dir) => {
                let is_news = self.hear_of_hash_slot(news);
                match dir {
                    // This was known already. So the step asked there for a partition, and the home
                    // knows where that is.
                    Some(dir) if !is_news => self.ask_its_home(ctx, number, from, dir),
                    _ => self.ask_again(ctx, number, from, None),
                }
            }
            (Vote::AskHome, Some(dir)) => self.ask_its_home(ctx, number, from, dir),
            _ => Ok(()),
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
        let Some(mut txn) = self.coordinator.take_out(number) else { return Ok(()) };
        self.acts_on(&txn);
        let to = match (home, txn.steps().last()) {
            (Some(home), _) => home,
            (None, Some(last)) => self.shard_of(ctx, &last.place)?,
            (None, None) => refused_by,
        };
        let Some((message, is_at_once)) = txn.send_on(to) else {
            self.coordinator.put_back(number, txn);
            return Ok(());
        };
        if to != refused_by && is_at_once {
            let (to, step, message) = message;
            self.say(ctx, number, txn, to, step, message);
        } else {
            self.coordinator.put_back_sent(number, txn, Some(message), ctx.now.nanos);
        }
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
        let own = self.config.shard;
        for (index, step) in txn.decide(decision.changes, decision.then) {
            if step.to == own {
                self.finish_here(ctx, id, index, &step.changes)?;
            } else {
                txn.leave(index, step.to, step.changes);
            }
        }
        let remote = !txn.finishing().is_empty();
        if let Some(kind) = txn.kind() {
            self.counters.txns_committed[kind as usize] += 1;
            self.counters.txns_remote[kind as usize] += u64::from(remote);
        }
        if let Some((tag, request)) = txn.asker() {
            // The answer does not wait for a sync. All that the transaction changed on other shards
            // stays locked until they hear of the synced decision.
            self.answer(ctx, tag, request, Ok(decision.body), Need::Committed);
        }
        self.finishing(ctx, number, txn)
    }

    /// Logs what is left to do after the decision, and does it. Forgets the transaction when
    /// nothing is left.
    fn finishing(&mut self, ctx: &mut Ctx<'_>, number: u64, mut txn: Txn) -> Result<(), Halt> {
        for (mut shard, change) in txn.take_then() {
            if let Change::Bury(dir) = &change {
                // The id's hash slot may have been handed over since the decision.
                shard = self.config.map.home(dir.id);
            }
            if shard == self.config.shard {
                self.apply(ctx, &change)?;
            } else {
                txn.leave_change(shard, change);
            }
        }
        if txn.finishing().is_empty() {
            ctx.delete(keys::txn(number));
            return Ok(());
        }
        ctx.put(keys::txn(number), txn.decided().encode());
        let steps = txn.finishing().to_vec();
        self.coordinator.put_back_sent(number, txn, None, ctx.now.nanos);
        for (step, shard, changes) in steps {
            let message = PeerMessage::Finish(Some(changes));
            self.tell(ctx, Need::Synced, shard, (self.id(number), step), message);
        }
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::IntentForgottenEarly) {
            self.coordinator.take_out(number);
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
        let Some(mut txn) = self.coordinator.take_out(number) else { return Ok(()) };
        if txn.has_finished(step, from) {
            return self.finishing(ctx, number, txn);
        }
        self.coordinator.put_back(number, txn);
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
        let left = self.coordinator.get(number).and_then(|txn| txn.finishing_at(step, from));
        let Some(change) = left.and_then(|changes| changes.first()) else { return Ok(()) };
        // As far as this shard knows, the place has not moved. It asks the shard that refused again
        // after a while.
        let Some(to) = self.owner_of(change).filter(|to| *to != from) else { return Ok(()) };
        let Some(mut txn) = self.coordinator.take_out(number) else { return Ok(()) };
        txn.readdress(step, from, to);
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
        let decision = match self.coordinator.get(number) {
            Some(txn) if txn.plan().is_some() => return, // still voting
            Some(txn) => txn.finishing_at(step, from).cloned(),
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
        refusal: Option<Refusal>,
    ) -> Result<(), Halt> {
        match self.coordinator.take_out(number) {
            Some(txn) => self.undo_taken(ctx, number, txn, refusal),
            None => Ok(()),
        }
    }

    /// Undoes a transaction that has been taken out of the table.
    pub(super) fn undo_taken(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        txn: Txn,
        refusal: Option<Refusal>,
    ) -> Result<(), Halt> {
        self.acts_on(&txn);
        let result = self.undo_txn(ctx, number, txn, refusal);
        self.concerned.note_torn(result.is_err());
        result
    }

    fn undo_txn(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        txn: Txn,
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
        let has_changed = self.has_trail_changed(txn.request(), txn.steps());
        let has_changed = has_changed && !is_over;
        let refusal = refusal.map(|refusal| if has_changed { Refusal::Stale } else { refusal });
        let id = self.id(number);
        ctx.trace = txn.trace().unwrap_or(ctx.trace);
        for (step, to) in txn.asked() {
            self.tell(ctx, Need::Committed, to, (id, step), PeerMessage::Finish(None));
        }
        let (plan, client) = txn.into_parts();
        if let Some(plan) = plan {
            plan.abandon(self, ctx, id);
        }
        let Some((tag, request)) = client else { return Ok(()) };
        match refusal {
            Some(refusal) => self.answer(ctx, tag, &request, Err(refusal), Need::Committed),
            None => {
                self.counters.restarts += 1;
                self.sessions.running.wait(request.head.id);
                // Pauses differ by number, so that two transactions that met do not meet again.
                let at = ctx.now.nanos + AGAIN_AFTER + number % 7 * (AGAIN_AFTER / 2);
                let request = Box::new(Arc::unwrap_or_clone(request));
                self.queue.put_off(at, Input::Client(tag, request));
            }
        }
        Ok(())
    }
}
