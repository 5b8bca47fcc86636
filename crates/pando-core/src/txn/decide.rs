//! The end of a transaction: its decision, and what is left to do after it, or its undoing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use pando_types::ShardIndex;
use pando_types::peer::{Change, PeerMessage};
use pando_types::reply::{HashSlotNews, Refusal};

use crate::contract::{Halt, Input, Need};
use crate::records::keys;
use crate::records::record::Record;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;
use crate::txn::plan::view::Decision;

/// Pause before a transaction that met a `Busy` place begins again, nanoseconds.
const AGAIN_AFTER: u64 = 2_000_000;

impl Shard {
    pub(super) fn decide(
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
            ctx.under = txn.under();
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

    pub(super) fn step_finished(
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
    pub(super) fn readdress(
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
            Change::Bury(dir) | Change::NewHome { dir, .. } | Change::NewLentHome { dir, .. } => {
                Some(self.config.map.home(dir.id))
            }
            _ => None,
        }
    }

    pub(super) fn answer_ask(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        step: u16,
        from: ShardIndex,
    ) {
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
