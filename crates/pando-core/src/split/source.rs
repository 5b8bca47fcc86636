//! A split, merge or handover at its source: pages, rounds, the exchange, the decision.

use alloc::vec::Vec;
use core::ops::Range;
use pando_placement::range;
use pando_types::op::Place;
use pando_types::peer::{
    Arrival, Change, PeerMessage, Prepare, RowChange, Seen, SessionOpens, Tally,
};
use pando_types::reply::Body;
use pando_types::{DirId, DirRef, Lsn, PartitionIndex, Radix, ShardIndex, TxnId};

use crate::contract::{Halt, Row};
use crate::counters::TxnKind;
use crate::records::record::{Header, Record};
use crate::state::ctx::Ctx;
use crate::state::migration::copy::{Copy, GivenUp, Phase};
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};
use crate::state::txn::plan::{Move, What};
use crate::state::txn::transaction::StepState;
use crate::txn::plan::view::{Decision, Next, View};

/// Number of pages from which a copy is worth two more fsyncs, before the exchange. Below it, few
/// names wait for the exchange.
const SYNCED_FROM: u64 = 8;

impl Move {
    pub fn new(
        dir: DirRef,
        target: ShardIndex,
        (partition, radix): (PartitionIndex, Radix),
        what: What,
    ) -> Self {
        Self { dir, target, partition, radix, what, names: 0 }
    }

    pub fn kind(&self) -> TxnKind {
        match self.what {
            What::Split { .. } => TxnKind::Split,
            What::Merge => TxnKind::Merge,
        }
    }

    fn is_merge(&self) -> bool {
        matches!(self.what, What::Merge)
    }

    /// The partition that has the range now.
    fn held(&self) -> PartitionIndex {
        match self.what {
            What::Split { from, .. } => from,
            What::Merge => self.partition,
        }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let number = view.txn.number;
        let Some(mut copy) = view.shard.migration.copies.take_out(number) else {
            return Err(broken("a split or merge has no copy").into());
        };
        let next = match view.votes.0.last() {
            Some(step) if step.state == StepState::Yes => match &step.seen {
                Some(Seen::Arrived(tally)) => return self.decide(view, copy, *tally),
                _ => Err(broken("a partition arrived without a count").into()),
            },
            _ => self.go_on(view, &mut copy),
        };
        view.shard.migration.copies.put(number, copy);
        next
    }

    fn go_on(&mut self, view: &mut View<'_, '_>, copy: &mut Copy) -> Result<Next, Stop> {
        let held = view.shard.held_header(view.ctx, self.dir, self.held())?;
        if self.is_merge() && view.shard.is_small_no_more(self.dir.id, &held) {
            return Ok(Next::Restart);
        }
        self.names = held.entries;
        go_on(self, view, copy)
    }

    /// The orders that move.
    fn orders(&self) -> Range<u64> {
        range(self.partition, self.radix)
    }

    fn decide(&self, view: &mut View<'_, '_>, copy: Copy, moved: Tally) -> Result<Next, Stop> {
        let (shard, ctx) = (&mut *view.shard, &mut *view.ctx);
        // A frozen range changes only by a decision that lost its lock with the power. In that case
        // the move begins anew.
        if copy.changes() > 0 && !shard.tail_unlocked(self.is_merge()) {
            shard.migration.copies.put(view.txn.number, copy);
            return Ok(Next::Restart);
        }
        let mut header = shard.held_header(ctx, self.dir, self.held())?;
        match self.what {
            What::Split { spread, .. } => {
                header.radix = self.radix;
                header.spread = Some(spread);
                header.entries = header.entries.saturating_sub(moved.entries);
                header.subdirs = header.subdirs.saturating_sub(moved.subdirs);
                ctx.set_header(self.dir.id, header);
                shard.counters.splits_moved += 1;
                shard.counters.entries_moved += moved.entries;
            }
            What::Merge => {
                ctx.drop_header(self.dir.id, self.orders().start);
                shard.migration.merges.forget((self.dir.id, self.partition));
                shard.counters.merges_moved += 1;
                shard.counters.entries_given_back += moved.entries;
            }
        }
        shard.migration.note_moved(Lsn(ctx.now.seen.0 + 1));
        ctx.stat.0 -= moved.inodes.cast_signed();
        ctx.add_bytes(moved.bytes.cast_signed().wrapping_neg());
        let orders = self.orders();
        shard.clear_range(ctx, self.dir.id, &orders);
        for SessionOpens { ino, .. } in shard.namespace.opens.in_range(self.dir.id, &orders) {
            if let Some(at) = shard.namespace.opens.place(ino) {
                shard.clear_opens(ctx, ino, at);
            }
        }
        shard.queue.resume(shard.locks.release(copy.key(), view.txn));
        let own = Change::Own { dir: self.dir, partition: self.partition };
        let changes = alloc::vec![(view.votes.0.len() - 1, own)];
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body: Body::Done }))
    }

    /// Gives the move up: the range is open again, and the target drops what it has.
    pub fn abandon(self, shard: &mut Shard, ctx: &mut Ctx<'_>, txn: TxnId) {
        shard.tell(ctx, crate::Need::Committed, self.target, (txn, 0), PeerMessage::Finish(None));
        let is_wanted = shard.migration.copies.get(txn.number).is_some_and(Copy::is_wanted);
        shard.forget_copy(txn);
        let counters = &mut shard.counters;
        match (self.what, is_wanted) {
            (What::Split { .. }, true) => counters.splits_yielded += 1,
            (What::Split { .. }, false) => {
                counters.splits_failed += 1;
                shard.pause_target(ctx, self.target);
            }
            (What::Merge, true) => counters.merges_yielded += 1,
            (What::Merge, false) => counters.merges_failed += 1,
        }
        if self.is_merge() {
            shard.look_again(ctx, self.dir, self.partition);
        }
    }
}

/// What a live copy sends to its target. Splits, merges and handovers differ in it.
pub trait Mover {
    /// The message with one page of rows.
    fn page(&self, copy: &Copy, rows: Vec<RowChange>) -> Next;
    /// Outcomes of requests in what moves, and floors.
    fn outcomes(&self, shard: &Shard, ctx: &Ctx<'_>) -> Result<Vec<Row>, Halt>;
    /// The exchange: all rows that are left, opens and outcomes.
    fn ask(&self, view: &mut View<'_, '_>, copy: &Copy, rows: Vec<RowChange>)
    -> Result<Next, Stop>;
}

impl Mover for Move {
    fn outcomes(&self, shard: &Shard, ctx: &Ctx<'_>) -> Result<Vec<Row>, Halt> {
        let orders = self.orders();
        shard.slots_for(ctx, |at: Option<(DirId, u64)>| {
            at.is_some_and(|(dir, order)| dir == self.dir.id && orders.contains(&order))
        })
    }

    fn page(&self, copy: &Copy, rows: Vec<RowChange>) -> Next {
        let message = PeerMessage::Page {
            dir: self.dir,
            partition: self.partition,
            given_back: self.is_merge().then_some(self.names),
            radix: self.radix,
            number: copy.pages(),
            synced: copy.syncs(),
            rows,
        };
        Next::Send(self.target, message)
    }

    fn ask(
        &self,
        view: &mut View<'_, '_>,
        copy: &Copy,
        rows: Vec<RowChange>,
    ) -> Result<Next, Stop> {
        let (shard, ctx) = (&mut *view.shard, &*view.ctx);
        let held = shard.held_header(ctx, self.dir, self.held())?;
        let header = match self.what {
            What::Split { spread, .. } => Header {
                partition: self.partition,
                radix: self.radix,
                change: 0,
                spread: Some(spread),
                ..held
            },
            What::Merge => held,
        };
        let header = Header { entries: 0, subdirs: 0, ..header };
        shard.counters.split_rows_frozen += rows.len() as u64;
        let orders = self.orders();
        let arrival = Arrival {
            dir: self.dir,
            header: header.encode(),
            given_back: self.is_merge(),
            pages: copy.pages(),
            rows,
            tally: Tally::default(),
            opens: shard.namespace.opens.in_range(self.dir.id, &orders),
            slots: copy.last_outcomes(),
            heard: shard.sessions_heard(),
        };
        Ok(Next::Ask(Place::Shard(self.target), Prepare::Arrive(arrival)))
    }
}

/// Takes the next step of a copy: a page, a round, or the exchange.
pub fn go_on(mover: &dyn Mover, view: &mut View<'_, '_>, copy: &mut Copy) -> Result<Next, Stop> {
    let now = view.ctx.now.nanos;
    copy.begin_step(now);
    if copy.is_copying() {
        return go_on_reading(mover, view, copy);
    }
    loop {
        if copy.is_in_round() {
            return send_changes(mover, view, copy);
        }
        let shard = &mut *view.shard;
        let (is_frozen, is_open) = (copy.phase() == Phase::Frozen, copy.phase() == Phase::Open);
        let is_much = copy.changes() > shard.config.split_page_rows;
        if is_much && (is_frozen || is_open && copy.is_gaining()) {
            copy.begin_round();
            shard.counters.split_rounds += 1;
            shard.counters.split_rounds_frozen += u64::from(is_frozen);
        } else if is_frozen {
            return send_last(mover, view, copy);
        } else if is_open && !copy.is_synced() && copy.pages() >= SYNCED_FROM {
            // Both logs may have up to a second's groups to sync. Names in the range must not wait
            // for that.
            copy.sync();
            return send_changes(mover, view, copy);
        } else if shard.is_copy_quiet(copy) {
            copy.freeze();
            shard.locks.set_hold(copy.key(), view.txn, copy.moved().frozen());
        } else {
            if is_open {
                copy.close(now);
                shard.locks.set_hold(copy.key(), view.txn, copy.moved().closing());
            }
            copy.wait();
            shard.counters.splits_awaiting += 1;
            return Ok(Next::Pause);
        }
    }
}

/// Sends the next page while some rows have never been read.
fn go_on_reading(
    mover: &dyn Mover,
    view: &mut View<'_, '_>,
    copy: &mut Copy,
) -> Result<Next, Stop> {
    let config = &view.shard.config;
    let limits = (config.split_dirty_rows, config.handover_rate);
    let (rows, are_changes) = copy.next_page(view.ctx, config.split_page_rows, limits)?;
    if are_changes {
        view.shard.counters.split_rows_again += rows.len() as u64;
    }
    Ok(mover.page(copy, rows))
}

/// Sends one page of changes.
fn send_changes(mover: &dyn Mover, view: &mut View<'_, '_>, copy: &mut Copy) -> Result<Next, Stop> {
    let rows = copy.take_changes(view.ctx, view.shard.config.split_page_rows)?;
    view.shard.counters.split_rows_again += rows.len() as u64;
    Ok(mover.page(copy, rows))
}

/// Sends what is left of a frozen range: changes and outcomes, in the end by the exchange.
fn send_last(mover: &dyn Mover, view: &mut View<'_, '_>, copy: &mut Copy) -> Result<Next, Stop> {
    let (shard, ctx) = (&*view.shard, &*view.ctx);
    let mut rows = copy.take_changes(ctx, shard.config.split_page_rows)?;
    // A page may end by its bytes before it has all the rows.
    if copy.changes() > 0 {
        return Ok(mover.page(copy, rows));
    }
    // No further request runs on what is frozen, so its outcomes are complete.
    if copy.lacks_outcomes() {
        copy.note_outcomes(mover.outcomes(shard, ctx)?);
    }
    let outcomes = copy.take_outcomes(shard.config.outcome_bytes);
    if outcomes.is_empty() {
        return mover.ask(view, copy, rows);
    }
    rows.extend(outcomes);
    // The target keeps these outcomes whatever becomes of the move. So the source must not lose
    // them any more.
    copy.await_sync();
    Ok(mover.page(copy, rows))
}

impl Shard {
    /// The target has logged the pages below `pages`. 0: it has lost a page, or the parent may not
    /// take the partition back.
    pub(crate) fn page_done(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        pages: u64,
    ) -> Result<(), Halt> {
        // Without a copy the move is decided, and this message is a repetition.
        if self.migration.copies.get(number).is_none() {
            return Ok(());
        }
        if pages == 0 {
            return self.give_up_copy(ctx, number, GivenUp::AtFault);
        }
        let (now, dirty_rows) = (ctx.now.nanos, self.config.split_dirty_rows);
        let noted = self.migration.copies.note_page(number, pages, now, dirty_rows);
        self.counters.split_pages += u64::from(noted.is_some());
        if noted == Some(true) { self.advance(ctx, number) } else { Ok(()) }
    }
}
