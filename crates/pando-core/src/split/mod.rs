//! Partitions that move. A *split* makes the upper half of a large partition a partition of its own
//! (GIGA+ §3.2). A *merge* gives a small partition back to its parent. Within this shard either
//! writes two headers; a split first counts the half that goes (`counting.rs`). To another shard
//! the rows are copied live, and requests are served meanwhile. Those in the range wait once it is
//! closed, until the exchange. A changed header calls this folder (`effects_of` in
//! `input/handle.rs`).
//!
//! ```text
//!  source                                          target
//!   reads a page, while clients use the range
//!    | -- Page 0, 1, 2 … ------------------------->|  logs the rows under an arrival record: no request sees them
//!    |<------------------------- PageDone ---------|
//!   rows that changed behind the cursor, as they are now; and again, until little remains
//!    | -- Page n, n + 1 … ------------------------>|  logs these rows, too
//!    |<------------------------- PageDone ---------|
//!   syncs, with the range still open: little is left to sync while it is frozen
//!    | -- Page m, which asks for a sync ---------->|  logs the rows, and syncs
//!    |<------------------------- PageDone ---------|
//!   closes the range: transactions that hold names in it end, no other begins
//!   freezes the range
//!    | -- Page k …, if there are many outcomes --->|  keeps them, whatever becomes of the move, and syncs
//!    |<------------------------- PageDone ---------|
//!    | -- Prepare(Arrive: last rows, opens, slots)>|  counts, locks, syncs
//!    |<---------------------------- Voted(count) --|
//!   logs: smaller header, or none; rows dropped, decision; unlocks; syncs, and then redirects requests that waited
//!    | -- Finish(Own) ---------------------------->|  writes the header, or makes the parent's range larger: it is the owner
//! ```
//!
//! 1. The next page leaves when the last one is logged at the target. A page is bounded in rows and
//!    bytes. So a move costs either shard, at one time, no more than a few requests.
//! 2. Until the decision the range is the source's, and the move can be given up at any moment. The
//!    coordinator then does not know the transaction, and the target drops what it has. This
//!    happens when a shard dies, when the target is silent, and when a `chmod` or `rmdir` wants the
//!    partition. The next create begins a split again; a timer begins a merge again.
//! 3. A range is frozen only when no transaction concerns a name in it. While it is closed, a
//!    transaction that comes to it is answered `Busy` and does not wait. *Reason*: the move waits
//!    for transactions.
//! 4. What a shard owns and what is on its way to it are disjoint. So giving up a move never drops
//!    rows of another.

pub mod copying;
pub mod counting;
mod merge;
pub(crate) mod source;
mod target;

use core::ops::Range;
use pando_placement::{child, range, shard_of};
use pando_types::reply::Spread;
use pando_types::{DirId, DirRef, PartitionIndex, Radix, ShardIndex};

use crate::contract::Halt;
use crate::records::record::Header;
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::copy::Copy;
use crate::state::shard::Shard;
use crate::state::txn::plan::{Move, Plan, What};

/// Most live copies of a shard at one time, without those of bare hash slots.
const COPIES_MAX: usize = 4;
/// Most bare hash slots that a shard hands over at one time. Each takes two syncs, one after the
/// other, and little else. Many can share these syncs.
const BARE_MAX: usize = 32;

/// Whether two ranges of orders overlap.
fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// A number from seven eighths of `most` to `most`, by directory and partition.
fn staggered(most: u64, dir: DirId, index: PartitionIndex) -> u64 {
    let seed = u64::from(index.0) ^ u64::from_be_bytes(dir.0[8..].try_into().unwrap_or([0; 8]));
    most - (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (most / 8 + 1)
}

impl Shard {
    /// Notes a partition that a create has made large enough to split.
    pub(crate) fn note_growth(&mut self, dir: DirId, header: &Header) {
        if header.entries > self.threshold(dir, header.partition) && self.may_split(header) {
            let hold = self.locks.hold(LockKey::Partition(dir, header.partition));
            let is_held = !matches!(hold, None | Some((_, Hold::Read)));
            let is_held = is_held || self.is_handed_over(dir, header.partition);
            if !is_held {
                let dir = DirRef { id: dir, ino: header.ino };
                self.migration.note_grown(dir, header.partition);
            }
        }
    }

    /// The directory's spread, or the one that it will have at its first split.
    fn spread(&self, header: &Header) -> Spread {
        header.spread.unwrap_or(Spread {
            base: self.config.shard,
            servers: self.config.map.shards,
            per_server: self.config.partitions_per_shard.max(1),
        })
    }

    /// Whether the partition may split. Splitting stops at M partitions a shard (GIGA+ §3.2).
    pub(crate) fn may_split(&self, header: &Header) -> bool {
        let (index, radix) = (header.partition, header.radix);
        let shards = self.config.map.shards;
        radix < Radix::MAX && pando_placement::may_split(&self.spread(header), index, radix, shards)
    }

    /// Number of entries beyond which a partition splits: the configured number, less up to an
    /// eighth. It differs by directory and partition, so that neighbours do not split at once.
    pub(crate) fn threshold(&self, dir: DirId, index: PartitionIndex) -> u64 {
        staggered(self.config.split_threshold, dir, index)
    }

    /// Splits a partition, if that is still due and no other task holds it.
    pub(crate) fn consider_split(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<(), Halt> {
        if self.migration.is_still(ctx.now.nanos) {
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
            // The next create notes again that the partition is to split.
            self.recall_reads(ctx.now, (dir.id, index));
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
        self.migration.copies.put(txn.number, Copy::new(dir, index, orders, ctx.now.nanos));
        let what = What::Split { from: index, spread };
        let split = Move::new(dir, target, (new, Radix(radix.0 + 1)), what);
        self.enter(txn.number, None, Plan::Move(split), None);
        self.advance(ctx, txn.number)
    }

    /// Whether one more live copy may begin: of a bare hash slot (`is_bare`), or of something else.
    pub(crate) fn may_copy_to(&self, ctx: &Ctx<'_>, target: ShardIndex, is_bare: bool) -> bool {
        let most = if is_bare { BARE_MAX } else { COPIES_MAX };
        // Checked by the clock: a shard with nothing else to do is not woken for it.
        let is_paused = self.migration.copies.is_paused(target, ctx.now.nanos);
        self.copies_under_way(is_bare) < most
            && !is_paused
            && !self.migration.is_still(ctx.now.nanos)
    }

    /// Number of live copies of bare hash slots (`is_bare`), or of all else.
    fn copies_under_way(&self, is_bare: bool) -> usize {
        self.migration.copies.all().filter(|(_, copy)| copy.is_bare() == is_bare).count()
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

    /// The default threshold of a shard.
    const MOST: u64 = 8_000;

    fn dirs() -> Vec<DirId> {
        let secrets = Secrets { dir: [7; 32], name: [9; 16] };
        let name = |n: u32| Name::new(format!("dir{n}").as_bytes()).unwrap();
        (0..100).map(|n| secrets.dir_id(DirId::ROOT, &name(n), 1)).collect()
    }

    fn thresholds(of: impl Iterator<Item = (DirId, u32)>) -> Vec<u64> {
        of.map(|(dir, index)| staggered(MOST, dir, PartitionIndex(index))).collect()
    }

    /// Thresholds are between seven eighths of the configured number and all of it, and spread over
    /// that whole range.
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

    /// Thresholds differ by partition within one directory, and by directory for one partition.
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

    /// With any configured number, however small, a directory can still split. No threshold exceeds
    /// the configured number.
    #[test]
    fn a_small_threshold_stays_one() {
        for most in 1..20 {
            let ids = dirs();
            let all = ids.iter().map(|dir| staggered(most, *dir, PartitionIndex(3)));
            assert!(all.into_iter().all(|it| (1..=most).contains(&it) && it >= most - most / 8));
        }
    }
}
