//! The coordinator of a transaction: it takes one step of the plan after the other.

use pando_types::op::{Place, Request};
use pando_types::peer::{Peer, PeerMessage};
use pando_types::reply::Refusal;
use pando_types::{Errno, ShardIndex, TxnId};

use crate::contract::{ClientTag, Halt, Need};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;
use crate::state::stop::{Ran, Stop, broken};
use crate::state::txn::plan::Plan;
use crate::state::txn::transaction::Txn;
use crate::txn::plan::view::Next;
use crate::txn::tell::need_of;

impl Shard {
    /// Begins a transaction for a client's request.
    pub(crate) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        tag: ClientTag,
        request: &Request,
        plan: Plan,
    ) -> Result<Ran, Stop> {
        if ctx.lent.is_some() {
            return Err(Stop::Wait(LockKey::Beyond));
        }
        let number = self.numbers.txn(ctx).number;
        self.enter(number, Some((tag, request)), plan, ctx.under);
        self.advance(ctx, number)?;
        Ok(Ran::Later)
    }

    /// Puts a transaction into the table. `advance` starts it.
    /// `under` is the grant of the part that its holder has changed.
    pub(crate) fn enter(
        &mut self,
        number: u64,
        from: Option<(ClientTag, &Request)>,
        plan: Plan,
        under: Option<TxnId>,
    ) {
        if let Some((_, request)) = from {
            self.sessions.running.begin(request.head.id, number);
        }
        let kind = plan.kind();
        self.counters.txns_begun[kind as usize] += 1;
        self.coordinator.enter(number, Txn::new(kind, from, plan).passes(under));
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
    pub(super) fn has_strayed(&mut self, ctx: &Ctx<'_>, txn: &Txn) -> Result<bool, Halt> {
        let at = txn.request().and_then(|request| self.name_of(&request.op));
        let Some((dir, order)) = at else { return Ok(false) };
        Ok(!self.headers(ctx, dir.id)?.iter().any(|header| header.range().contains(&order.0)))
    }

    pub(super) fn say(
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
}
