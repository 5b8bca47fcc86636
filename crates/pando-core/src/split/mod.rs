//! Partitions that move. A split: the upper half of a grown partition becomes a partition of its
//! own (GIGA+ §3.2). A merge: a partition that has become small is given back to the one it was
//! split from. On this shard either costs two headers, and a split a count of the half that goes
//! (`count.rs`); to another it is a live copy (DESIGN §5): serving goes on, and only what moves
//! waits, for one exchange.
//!
//! ```text
//!  source                                          target
//!   reads a page, while everybody uses what moves
//!    | -- Page 0, 1, 2 … ------------------------->|  logs the rows under an arrival record: nobody sees them
//!    |<------------------------- PageDone ---------|
//!   rows that changed behind the cursor, as they are now; and again, until little remains
//!    | -- Page n, n + 1 … ------------------------>|  the same
//!    |<------------------------- PageDone ---------|
//!   syncs, the half still open: little is left to sync while it stands still
//!    | -- Page m, which asks for it -------------->|  the same, and syncs
//!    |<------------------------- PageDone ---------|
//!   closes it: transactions that hold names in it end, nobody else begins
//!   freezes it
//!    | -- Page k …, if there are many outcomes --->|  keeps them, whatever becomes of this, and syncs
//!    |<------------------------- PageDone ---------|
//!    | -- Prepare(Arrive: last rows, opens, slots)>|  counts, locks, syncs
//!    |<---------------------------- Voted(count) --|
//!   logs: smaller header, or none; rows dropped, decision; syncs; unlocks: who waited is redirected
//!    | -- Finish(Own) ---------------------------->|  writes the header, or makes the parent's larger: it is the owner
//! ```
//!
//! 1. The next page goes when the last one is logged at the target, and is bounded in rows and
//!    bytes: neither shard does more for a move at one time than for a few requests.
//! 2. Until the decision, the range is the source's and the move can be given up at any moment: the
//!    transaction is then unknown to its coordinator, and the target drops what it has. So it is
//!    when a shard dies, when the target is silent, when somebody else wants to hold the partition
//!    (`chmod`, `rmdir`). The next create looks for a split again; for a merge it is looked again
//!    after a while.
//! 3. A range is frozen only when no transaction has to do with a name in it. A transaction that
//!    would begin to while it is closed is answered `Busy` rather than made to wait, for the move
//!    waits for transactions.
//! 4. What a shard owns and what is on its way to it are disjoint: to give one up never takes rows
//!    of another.

mod copy;
mod count;
mod merge;
mod source;
mod target;

pub use copy::{Copy, Moved};
pub use count::Count;
pub use merge::Small;
pub use source::{Move, Mover, What, go_on};

use core::ops::Range;
use pando_placement::{child, range, shard_of};
use pando_types::reply::Spread;
use pando_types::{DirId, DirRef, PartitionIndex, Radix, ShardIndex};

use crate::contract::Halt;
use crate::ctx::Ctx;
use crate::locks::{Hold, LockKey};
use crate::record::Header;
use crate::shard::Shard;
use crate::txn::plan::Plan;

/// Live copies of a shard at one time, bare slots left out.
const COPIES_MAX: usize = 4;
/// Bare slots that a shard hands over at one time. Each takes two syncs, one after the other, and
/// little else: many share them.
const BARE_MAX: usize = 32;

/// Whether two ranges of orders have any in common.
fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// At most so many, and at least seven eighths of it, by directory and partition.
fn staggered(most: u64, dir: DirId, index: PartitionIndex) -> u64 {
    let seed = u64::from(index.0) ^ u64::from_be_bytes(dir.0[8..].try_into().unwrap_or([0; 8]));
    most - (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (most / 8 + 1)
}

impl Shard {
    /// Notes a partition that a create made large enough.
    pub(crate) fn note_growth(&mut self, dir: DirId, header: &Header) {
        if header.entries > self.threshold(dir, header.partition) && self.may_split(header) {
            let at = (DirRef { id: dir, ino: header.ino }, header.partition);
            let is_held = self.locks.hold(LockKey::Partition(dir, header.partition)).is_some();
            let is_held = is_held || self.is_handed_over(dir, header.partition);
            if !is_held && !self.grown.contains(&at) {
                self.grown.push_back(at);
            }
        }
    }

    /// How the directory is, or at its first split will be, spread.
    fn spread(&self, header: &Header) -> Spread {
        header.spread.unwrap_or(Spread {
            base: self.config.shard,
            servers: self.config.map.shards,
            per_server: self.config.partitions_per_shard.max(1),
        })
    }

    /// Splitting stops at M partitions a shard (GIGA+ §3.2).
    fn may_split(&self, header: &Header) -> bool {
        let (index, radix) = (header.partition, header.radix);
        let shards = self.config.map.shards;
        radix < Radix::MAX && pando_placement::may_split(&self.spread(header), index, radix, shards)
    }

    /// Entries beyond which a partition splits: the configured number, less up to an eighth, by
    /// partition, so that neighbours do not split at once.
    pub(crate) fn threshold(&self, dir: DirId, index: PartitionIndex) -> u64 {
        staggered(self.config.split_threshold, dir, index)
    }

    /// Splits a partition, if it still is due and nothing is in the way.
    pub(crate) fn consider_split(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<(), Halt> {
        if self.keeps_still(ctx) {
            return Ok(());
        }
        let Some(header) = self.header_of(ctx, dir.id, index)? else { return Ok(()) };
        let radix = header.radix;
        let due = header.entries > self.threshold(dir.id, index) && self.may_split(&header);
        if header.ino != dir.ino || !due {
            return Ok(());
        }
        let spread = self.spread(&header);
        let key = LockKey::Partition(dir.id, index);
        let new = child(index, radix);
        let orders = range(new, Radix(radix.0 + 1));
        if self.locks.hold(key).is_some() || self.is_handed_over(dir.id, index) {
            return Ok(());
        }
        let target = shard_of(&spread, new);
        if target == self.config.shard {
            self.begin_count(ctx, dir, (index, new), orders, spread);
            return Ok(());
        }
        if !self.may_copy_to(ctx, target, false) {
            return Ok(());
        }
        let txn = self.numbers.txn(ctx);
        self.locks.take(key, txn, Hold::Copy);
        self.copies.insert(txn.number, Copy::new(dir, index, orders, ctx.now.nanos));
        let what = What::Split { from: index, spread };
        let split = Move::new(dir, target, (new, Radix(radix.0 + 1)), what);
        self.enter(txn.number, None, Plan::Move(split));
        self.advance(ctx, txn.number)
    }

    /// Whether one more live copy may begin, of a bare slot or of something else.
    pub(crate) fn may_copy_to(&self, ctx: &Ctx<'_>, target: ShardIndex, is_bare: bool) -> bool {
        let most = if is_bare { BARE_MAX } else { COPIES_MAX };
        // By the clock: a shard that has nothing else to do is not woken for it.
        let is_paused =
            self.paused_targets.get(&target).is_some_and(|until| *until > ctx.now.nanos);
        self.copies_under_way(is_bare) < most && !is_paused && !self.keeps_still(ctx)
    }

    /// Live copies of bare slots, or of all else.
    fn copies_under_way(&self, is_bare: bool) -> usize {
        self.copies.values().filter(|copy| copy.is_bare == is_bare).count()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec::Vec;
    use pando_placement::Secrets;
    use pando_types::Name;

    use super::*;

    /// What a shard without settings of its own has.
    const MOST: u64 = 8_000;

    fn dirs() -> Vec<DirId> {
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let name = |n: u32| Name::new(format!("dir{n}").as_bytes()).unwrap();
        (0..100).map(|n| secrets.dir_id(DirId::ROOT, &name(n), 1)).collect()
    }

    fn thresholds(of: impl Iterator<Item = (DirId, u32)>) -> Vec<u64> {
        of.map(|(dir, index)| staggered(MOST, dir, PartitionIndex(index))).collect()
    }

    /// Staggered thresholds: from seven eighths of the configured number to all of it, and of that
    /// range no part is left out.
    #[test]
    fn thresholds_are_spread_over_the_last_eighth_below_the_configured_one() {
        let all = thresholds(dirs().into_iter().flat_map(|dir| (0..64).map(move |i| (dir, i))));
        let mut by_tenth = [0_usize; 10];
        for threshold in &all {
            assert!((MOST - MOST / 8..=MOST).contains(threshold), "{threshold}");
            by_tenth[((MOST - threshold) * 10 / (MOST / 8 + 1)) as usize] += 1;
        }
        let even = all.len() / by_tenth.len();
        assert!(by_tenth.iter().all(|n| (even / 2..even * 2).contains(n)), "{by_tenth:?}");
        let distinct: BTreeSet<_> = all.iter().collect();
        assert!(distinct.len() > 900, "{} of {}", distinct.len(), MOST / 8 + 1);
    }

    /// They differ by the partition within one directory, and by the directory for one partition.
    #[test]
    fn thresholds_differ_by_directory_and_by_partition() {
        let dirs = dirs();
        for dir in &dirs {
            let of_one: BTreeSet<_> = thresholds((0..64).map(|i| (*dir, i))).into_iter().collect();
            assert!(of_one.len() >= 48, "{} of 64 in {dir:?}", of_one.len());
        }
        for index in 0..64 {
            let of_all = thresholds(dirs.iter().map(|dir| (*dir, index)));
            let of_all: BTreeSet<_> = of_all.into_iter().collect();
            assert!(of_all.len() >= 80, "{} of 100 for partition {index}", of_all.len());
        }
    }

    /// However small it is configured, a directory can still split, and never beyond the configured
    /// number.
    #[test]
    fn a_small_threshold_stays_one() {
        for most in 1..20 {
            let ids = dirs();
            let all = ids.iter().map(|dir| staggered(most, *dir, PartitionIndex(3)));
            assert!(all.into_iter().all(|it| (1..=most).contains(&it) && it >= most - most / 8));
        }
    }
}
