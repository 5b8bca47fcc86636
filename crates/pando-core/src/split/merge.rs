//! Merges: when a partition is given back to its parent, and the merge within one shard.
//!
//! Partition (i, r) can be merged if it has not split since its birth, and its parent has depth r,
//! too. (The parent is i without its top bit.) The two are then the halves of the former parent.
//! Depths shrink in the reverse order of growth, until the directory is (0, 0) again.
//!
//! 1. A partition is small at an eighth of its threshold. It is taken back only if both together
//!    have less than half of the parent's threshold. So thousands of creates lie before the next
//!    split.
//! 2. The owner of the small partition begins. It looks when a change leaves the partition small,
//!    and when its header is read from the store (after a restart). It looks when the parent's
//!    owner says that the parent has become ready, and some time after an attempt in vain. None of
//!    this is recorded, so a partition that is not used costs nothing.
//! 3. The parent's owner decides whether the parent may take the partition back, at the first page
//!    and at the exchange.

use alloc::boxed::Box;
use pando_placement::{birth_radix, child, parent, shard_of};
use pando_types::peer::{Behalf, Floor, Peer, PeerMessage};
use pando_types::reply::Spread;
use pando_types::{DirId, DirRef, PartitionIndex, Radix, ShardIndex, TxnId};

use crate::contract::{Halt, Input, Need, Out};
use crate::counters::TxnKind;
use crate::records::record::Header;
use crate::split::COPIES_MAX;
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::copy::Copy;
use crate::state::shard::Shard;
use crate::state::txn::plan::{Move, Plan, What};
use crate::state::txn::transaction::Txn;

/// Most live copies of a shard that are merges. The others are left for splits.
const MERGES_MAX: usize = COPIES_MAX / 2;

impl Shard {
    /// Notes a partition that a change has left small.
    pub(crate) fn note_shrinkage(&mut self, dir: DirId, header: &Header) {
        if self.is_small(dir, header) {
            let dir = DirRef { id: dir, ino: header.ino };
            self.migration.merges.note(dir, header.partition);
        }
    }

    /// Notes small partitions among those that have just had their headers read.
    pub(crate) fn note_loaded(&mut self) {
        for (dir, header) in self.namespace.dirs.take_loaded() {
            self.note_shrinkage(dir, &header);
        }
    }

    /// Queues the next waiting partition, if another merge may begin.
    pub(crate) fn note_room(&mut self) {
        if self.migration.merges.wants_room() && self.has_room() {
            self.migration.merges.give_room();
        }
    }

    fn has_room(&self) -> bool {
        let is_merge = |(number, _): &(u64, &Copy)| {
            self.coordinator.get(*number).and_then(Txn::kind) == Some(TxnKind::Merge)
        };
        self.copies_under_way(false) < COPIES_MAX
            && self.migration.copies.all().filter(is_merge).count() < MERGES_MAX
    }

    fn is_small(&self, dir: DirId, header: &Header) -> bool {
        header.is_as_born() && header.entries <= self.threshold(dir, header.partition) / 8
    }

    /// Whether the partition has grown too much for the present attempt.
    pub(crate) fn is_small_no_more(&self, dir: DirId, header: &Header) -> bool {
        header.entries > self.threshold(dir, header.partition) / 4
    }

    /// The shard that has a partition at present.
    fn owner(&self, dir: DirId, spread: &Spread, index: PartitionIndex) -> ShardIndex {
        match index.0 {
            0 => self.config.map.home(dir),
            _ => shard_of(spread, index),
        }
    }

    /// Merges a partition into its parent, if it is still small and no other task holds it.
    pub(crate) fn consider_merge(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<(), Halt> {
        if self.migration.is_still(ctx.now.nanos) {
            self.look_again(ctx, dir, index);
            return Ok(());
        }
        let header = self.header_of(ctx, dir.id, index)?;
        let header = header.filter(|h| h.ino == dir.ino && self.is_small(dir.id, h));
        let spread = header.as_ref().and_then(|h| h.spread);
        let (Some(header), Some(spread), Some(into)) = (header, spread, parent(index)) else {
            self.migration.merges.forget((dir.id, index));
            return Ok(());
        };
        let key = LockKey::Partition(dir.id, index);
        if self.locks.hold(key).is_some() {
            self.look_again(ctx, dir, index);
            return Ok(());
        }
        let target = self.owner(dir.id, &spread, into);
        if target == self.config.shard {
            return self.merge_here(ctx, dir, &header);
        }
        if !self.has_room() {
            self.migration.merges.wait_for_room(dir, index);
            return Ok(());
        }
        let txn = self.numbers.txn(ctx);
        self.locks.take(key, txn, Hold::Copy);
        let copy = Copy::new(dir, index, header.range(), ctx.now.nanos);
        self.migration.copies.put(txn.number, copy);
        let merge = Move::new(dir, target, (index, header.radix), What::Merge);
        self.enter(txn.number, None, Plan::Move(merge), None);
        self.advance(ctx, txn.number)
    }

    fn merge_here(&mut self, ctx: &mut Ctx<'_>, dir: DirRef, header: &Header) -> Result<(), Halt> {
        let index = header.partition;
        let may = self.may_take_back(ctx, dir, (index, header.radix), header.entries)?;
        let Some(parent) = may.filter(|_| self.is_quiet(dir.id, &header.range())) else {
            self.look_again(ctx, dir, index);
            return Ok(());
        };
        let whole = parent.with(header);
        ctx.drop_header(dir.id, header.range().start);
        ctx.set_header(dir.id, whole.clone());
        self.migration.merges.forget((dir.id, index));
        self.counters.merges_local += 1;
        self.tell_next(ctx, dir, &whole);
        Ok(())
    }

    /// The header of the parent, if it may take back a partition of `entries` names. For that it
    /// must be here, have that partition's depth, and not be held or handed over with its hash
    /// slot. Both together must be small.
    pub(crate) fn may_take_back(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        (index, radix): (PartitionIndex, Radix),
        entries: u64,
    ) -> Result<Option<Header>, Halt> {
        let Some(into) = parent(index) else { return Ok(None) };
        let found = self.header_of(ctx, dir.id, into)?;
        let fits = |h: &Header| {
            let both = h.entries.saturating_add(entries).saturating_mul(2);
            (h.ino, h.radix) == (dir.ino, radix) && both < self.threshold(dir.id, into)
        };
        let is_held = self.locks.hold(LockKey::Partition(dir.id, into)).is_some();
        let is_held = is_held || self.is_handed_over(dir.id, into);
        Ok(found.filter(|header| !is_held && fits(header)))
    }

    /// Tells of a parent that has taken back its upper half. If it has split before that, the
    /// partition that it split off then may be merged next.
    pub(crate) fn tell_next(&mut self, ctx: &mut Ctx<'_>, dir: DirRef, header: &Header) {
        let (Some(spread), true) = (header.spread, header.radix > birth_radix(header.partition))
        else {
            return;
        };
        let next = child(header.partition, Radix(header.radix.0 - 1));
        let to = shard_of(&spread, next);
        if to != self.config.shard {
            let message = self.say_shrunk(ctx, dir, next);
            ctx.send(Need::Committed, Out::Peer(to, Box::new(message)));
        } else {
            self.migration.merges.try_now(dir, next);
        }
    }

    fn say_shrunk(&self, ctx: &Ctx<'_>, dir: DirRef, partition: PartitionIndex) -> Peer {
        let from = self.config.shard;
        let txn = TxnId { shard: from, number: 0 };
        let message = PeerMessage::Shrunk { dir, partition };
        Peer {
            from,
            trace: ctx.trace,
            clock: ctx.now.wall,
            behalf: Behalf::default(),
            txn,
            step: 0,
            floor: Floor::default(),
            message,
        }
    }

    /// Looks at a partition of this shard again: its parent may be ready (a message), or the pause
    /// is over (a timer).
    pub(crate) fn told_shrunk(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: ShardIndex,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<(), Halt> {
        if !self.migration.merges.has((dir.id, index)) {
            if let Some(header) = self.header_of(ctx, dir.id, index)? {
                self.note_shrinkage(dir.id, &header);
            }
            return Ok(());
        }
        // A timer that was replaced by another is ignored.
        let is_timer = from == self.config.shard;
        let until = if is_timer { ctx.now.nanos } else { u64::MAX };
        match self.migration.merges.try_planned((dir.id, index), until) {
            true => self.consider_merge(ctx, dir, index),
            false => Ok(()),
        }
    }

    /// Plans another attempt, after one in vain.
    pub(crate) fn look_again(&mut self, ctx: &Ctx<'_>, dir: DirRef, index: PartitionIndex) {
        let (now, pause) = (ctx.now.nanos, self.config.resend_after);
        let at = self.migration.merges.fail((dir.id, index), now, pause);
        let message = self.say_shrunk(ctx, dir, index);
        self.queue.put_off(at, Input::Peer(Box::new(message)));
    }
}
