//! Handover: a hash slot, with all that belongs to it, goes to another shard
//! (docs/design/handover.md). The move is that of a split ([`crate::split`]). Rows are copied live
//! in pages, and changes are noted and sent again. The hash slot is closed for one exchange only.
//!
//! ```text
//!  what moves: of each directory of the hash slot    content, its xattrs
//!                                                    partition 0: header, entries with all their rows
//!              of each inode of the hash slot        its records and names; locks of programs
//!              of what is in memory or in tables     opens of those, outcomes of those names, all floors
//!  what stays: other partitions of these directories, whichever shard has them
//! ```
//!
//! 1. Every shard that has owned a hash slot has a record of its next owner: `(version, owner)`.
//!    The decision writes it at the source, and `OwnHashSlot` at the target. A shard that does not
//!    own a hash slot answers nothing about its content. If it owned it once, it tells the next
//!    owner.
//! 2. While a hash slot is handed over, no partition 0 of it splits or takes back another: its
//!    ranges stay as they are. A range is in at most one split, merge, handover or seal.
//! 3. A hash slot is frozen only when no transaction concerns anything of it.
//! 4. No request sees the target's copy before the target owns the hash slot. Headers are staged
//!    under another kind of key, and contents and link inodes are read only by the owner. A copy
//!    that is given up is cleared without the target's own partitions of these directories.
//! 5. Two kinds of decision need no prepared record: a new directory's content, and a burial. One
//!    may come to a shard that has given the hash slot away. That shard names the new owner, and
//!    the coordinator sends the decision there.

pub mod members;
mod source;
mod target;

use pando_types::peer::Change;
use pando_types::reply::{HashSlotNews, Refusal};
use pando_types::{DirId, Errno, HashSlot, Ino, PartitionIndex, ShardIndex};

use crate::contract::Halt;
use crate::records::keys::{self, Table};
use crate::records::record::{Owner, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::copy::Copy;
use crate::state::migration::hash_slot_rows::is_bare;
use crate::state::migration::whereabouts::Whereabouts;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, bad_key};
use crate::state::txn::plan::{Handover, Plan};

/// Most hash slots with rows that a shard hands over at one time.
const FILLED_MAX: usize = 2;

impl Shard {
    /// Whether this shard owns a hash slot.
    #[must_use]
    pub fn owns(&self, hash_slot: HashSlot) -> bool {
        self.config.map.hash_slot_owner(hash_slot) == self.config.shard
    }

    /// Checks that this shard may answer now for what belongs to a hash slot. Waits while the hash
    /// slot is closed, or prepared to become this shard's.
    pub(crate) fn open_hash_slot(&self, hash_slot: HashSlot) -> Result<(), Stop> {
        match self.locks.hold(LockKey::HashSlot(hash_slot)) {
            None | Some((_, Hold::Copy)) if self.owns(hash_slot) => Ok(()),
            None | Some((_, Hold::Copy)) => Err(self.not_owner(hash_slot)),
            Some(_) => Err(Stop::Wait(LockKey::HashSlot(hash_slot))),
        }
    }

    /// The refusal for a hash slot that another shard owns. Waits if the hash slot is arriving.
    pub(crate) fn not_owner(&self, hash_slot: HashSlot) -> Stop {
        match self.locks.hold(LockKey::HashSlot(hash_slot)) {
            Some((_, Hold::Arrival { .. })) => Stop::Wait(LockKey::HashSlot(hash_slot)),
            _ => match self.config.map.news(hash_slot) {
                Some(news) => Refusal::HashSlot(news).into(),
                None => Refusal::AskHome.into(),
            },
        }
    }

    /// The lock to wait for, if a hash slot is closed to new operations.
    pub(crate) fn closed_hash_slot(&self, hash_slot: HashSlot) -> Option<LockKey> {
        let key = LockKey::HashSlot(hash_slot);
        let hold = self.locks.hold(key)?.1;
        let is_closed = matches!(hold, Hold::Closing { .. } | Hold::Split { .. });
        (is_closed && !self.hash_slot_unlocked()).then_some(key)
    }

    /// Whether partition 0 of a directory may not change, since its hash slot is being handed over.
    pub(crate) fn is_handed_over(&self, dir: DirId, index: PartitionIndex) -> bool {
        index.0 == 0 && self.locks.hold(LockKey::HashSlot(dir.hash_slot())).is_some()
    }

    /// Planted fault: a frozen hash slot is not closed.
    pub(crate) fn hash_slot_unlocked(&self) -> bool {
        #[cfg(feature = "planted")]
        return self.is_planted(crate::Planted::HashSlotUnlocked);
        #[cfg(not(feature = "planted"))]
        false
    }

    /// Begins to hand a hash slot over.
    pub(crate) fn hand_over(
        &mut self,
        ctx: &mut Ctx<'_>,
        hash_slot: HashSlot,
        to: ShardIndex,
    ) -> Result<(), Stop> {
        let Ok(news) = self.config.map.next_news(hash_slot, to) else {
            return Err(Errno::EINVAL.into());
        };
        if to == self.config.shard {
            return Err(Errno::EINVAL.into());
        }
        self.open_hash_slot(hash_slot)?;
        let is_moving = self.locks.hold(LockKey::HashSlot(hash_slot)).is_some();
        let is_touched = self.migration.copies.all().any(|(_, copy)| copy.touches(hash_slot))
            || self.migration.counts.all().any(|(_, count)| count.touches(hash_slot))
            || self.locks.any_merge_of_hash_slot(hash_slot);
        let is_bare = is_bare(ctx, hash_slot)?;
        if is_moving || is_touched || !self.may_hand_over(ctx, to, is_bare) {
            return Err(Errno::EBUSY.into());
        }
        // From now on none of it is lent.
        self.recall_hash_slot(ctx.now, hash_slot);
        let txn = self.numbers.txn(ctx);
        self.locks.take(LockKey::HashSlot(hash_slot), txn, Hold::Copy);
        let copy = Copy::of_hash_slot(hash_slot, is_bare, ctx.now.nanos);
        self.migration.copies.put(txn.number, copy);
        self.enter(txn.number, None, Plan::Handover(Handover::new(news)), None);
        self.advance(ctx, txn.number)?;
        Ok(())
    }

    /// Whether one more handover may begin. Those with rows leave copies for splits.
    fn may_hand_over(&self, ctx: &Ctx<'_>, to: ShardIndex, is_bare: bool) -> bool {
        let copies_rows = |(_, copy): &(u64, &Copy)| !copy.is_bare() && copy.is_of_hash_slot();
        self.may_copy_to(ctx, to, is_bare)
            && (is_bare || self.migration.copies.all().filter(copies_rows).count() < FILLED_MAX)
    }

    /// Whether no transaction concerns anything of a hash slot.
    pub(crate) fn is_hash_slot_quiet(&self, hash_slot: HashSlot) -> bool {
        !self.locks.any_of_hash_slot(hash_slot)
            && !self.undecided_names().any(|(dir, _)| dir.hash_slot() == hash_slot)
    }

    /// Where a decision belongs that needs no prepared record.
    pub(crate) fn where_is(&self, changes: &[Change]) -> Result<Whereabouts, Halt> {
        for change in changes {
            let (Change::Bury(dir) | Change::NewHome { dir, .. } | Change::NewLentHome { dir, .. }) =
                change
            else {
                continue;
            };
            return Ok(match self.open_hash_slot(dir.id.hash_slot()) {
                Ok(()) => continue,
                Err(Stop::Halt(halt)) => return Err(halt),
                Err(Stop::Wait(key)) => Whereabouts::Soon(key),
                Err(Stop::Refuse(Refusal::HashSlot(news))) => Whereabouts::There(news),
                Err(Stop::Refuse(_)) => Whereabouts::Never,
            });
        }
        Ok(Whereabouts::Here)
    }

    /// Records, and remembers, the owner of a hash slot from now on.
    pub(crate) fn set_owner(&mut self, ctx: &mut Ctx<'_>, news: HashSlotNews) {
        let owner = Owner { version: news.version, owner: news.owner };
        ctx.put(keys::owner(news.hash_slot), owner.encode());
        self.config.map.learn(news);
    }

    /// Remembers what another shard tells of a hash slot. Returns whether that is news. A shard
    /// learns of its own hash slots from the decision alone. Until then redirected requests try
    /// again.
    pub(crate) fn hear_of_hash_slot(&mut self, news: HashSlotNews) -> bool {
        news.owner != self.config.shard && self.config.map.learn(news)
    }

    /// [`Self::open_hash_slot`] for the hash slot of an inode's link shard.
    pub(crate) fn open_link(&self, ino: Ino) -> Result<(), Stop> {
        self.open_hash_slot(ino.hash_slot())
    }

    /// Loads the owners on record.
    pub(crate) fn load_owners(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Owner);
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            let hash_slot = keys::owner_of(&key).ok_or_else(|| bad_key(Table::Owner))?;
            let Owner { version, owner } = Owner::decode(&value)?;
            self.config.map.learn(HashSlotNews { hash_slot, version, owner });
        }
        Ok(())
    }
}
