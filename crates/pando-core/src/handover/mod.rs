//! Handover: a slot, with all that belongs to it, goes to another shard (DESIGN §4), by the same
//! careful move as a half of a partition (see [`crate::split`]): copied live in pages, changes
//! noted and sent again, closed only for one exchange.
//!
//! ```text
//!  what moves: of each directory of the slot     content, its xattrs
//!                                                partition 0: header, entries with all their rows
//!              of each inode whose link slot it is   its records and names; locks of programs
//!              of what is in memory or in tables     opens of those, outcomes of those names, all floors
//!  what stays: other partitions of these directories, whoever has them
//! ```
//!
//! 1. Who owns a slot is a record on every shard that ever did, with a version: `(version, owner)`,
//!    made by the decision at the source and by `OwnSlot` at the target. A shard that does not own
//!    a slot answers for nothing of it; one that ever did says who came after it.
//! 2. While a slot is handed over, no partition 0 of it splits or takes back another: its ranges
//!    stay as they are. A range is in at most one of split, merge, handover, seal.
//! 3. The slot is frozen only when no transaction has to do with anything of it, as a half is.
//! 4. Until it is owned, the target's copy is seen by nobody: headers are kept under another kind,
//!    contents and link inodes are not looked at without the slot. What is given up is cleared
//!    without touching the target's own partitions of the same directories.
//! 5. A decision that needs no prepared record (a new directory's content, a burial) may come to a
//!    shard that has given the slot away since: it says where it went, and the coordinator says it
//!    there.

mod rows;
mod source;
mod target;

use rows::is_bare;
pub use rows::{belongs, read_page};
pub use source::Handover;

use pando_types::peer::Change;
use pando_types::reply::{Refusal, SlotNews};
use pando_types::{DirId, Errno, Ino, PartitionIndex, ShardIndex, SlotIndex};

use crate::contract::Halt;
use crate::ctx::{Ctx, Stop, broken};
use crate::keys::{self, Table};
use crate::locks::{Hold, LockKey};
use crate::record::{Owner, Record};
use crate::shard::Shard;
use crate::split::{Copy, Moved};
use crate::txn::plan::Plan;

/// Slots with rows that a shard hands over at one time.
const FILLED_MAX: usize = 2;

/// Where something is that belongs to a slot.
pub enum Whereabouts {
    /// Here.
    Here,
    /// Here or elsewhere, once this is free.
    Soon(LockKey),
    /// There.
    There(SlotNews),
    /// It was never here, so no vote was given.
    Never,
}

impl Shard {
    /// Whether this shard owns a slot.
    #[must_use]
    pub fn owns(&self, slot: SlotIndex) -> bool {
        self.config.map.slot_owner(slot) == self.config.shard
    }

    /// Whether what belongs to a slot may be answered here now. Waits while it is closed, or about
    /// to be this shard's.
    pub(crate) fn open_slot(&self, slot: SlotIndex) -> Result<(), Stop> {
        match self.locks.hold(LockKey::Slot(slot)) {
            None | Some((_, Hold::Copy)) if self.owns(slot) => Ok(()),
            None | Some((_, Hold::Copy)) => Err(self.not_owner(slot)),
            Some(_) => Err(Stop::Wait(LockKey::Slot(slot))),
        }
    }

    /// What is said of a slot that another shard owns.
    pub(crate) fn not_owner(&self, slot: SlotIndex) -> Stop {
        match self.locks.hold(LockKey::Slot(slot)) {
            Some((_, Hold::Arrival { .. })) => Stop::Wait(LockKey::Slot(slot)),
            _ => match self.config.map.news(slot) {
                Some(news) => Refusal::Slot(news).into(),
                None => Refusal::AskHome.into(),
            },
        }
    }

    /// Whether a slot is closed to new operations: then that is what they wait for.
    pub(crate) fn closed_slot(&self, slot: SlotIndex) -> Option<LockKey> {
        let key = LockKey::Slot(slot);
        let hold = self.locks.hold(key)?.1;
        let is_closed = matches!(hold, Hold::Closing { .. } | Hold::Split { .. });
        (is_closed && !self.slot_unlocked()).then_some(key)
    }

    /// Whether partition 0 of a directory of this slot must stay as it is.
    pub(crate) fn is_handed_over(&self, dir: DirId, index: PartitionIndex) -> bool {
        index.0 == 0 && self.locks.hold(LockKey::Slot(dir.slot())).is_some()
    }

    /// Planted fault: a slot that is frozen is not closed.
    pub(crate) fn slot_unlocked(&self) -> bool {
        #[cfg(feature = "planted")]
        return self.is_planted(crate::Planted::SlotUnlocked);
        #[cfg(not(feature = "planted"))]
        false
    }

    /// Begins to hand a slot over.
    pub(crate) fn hand_over(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: SlotIndex,
        to: ShardIndex,
    ) -> Result<(), Stop> {
        let Ok(news) = self.config.map.next_news(slot, to) else {
            return Err(Errno::EINVAL.into());
        };
        if to == self.config.shard {
            return Err(Errno::EINVAL.into());
        }
        self.open_slot(slot)?;
        let is_moving = self.locks.hold(LockKey::Slot(slot)).is_some();
        let is_touched = self.copies.values().any(|copy| copy.touches(slot))
            || self.counts.values().any(|count| count.touches(slot))
            || self.locks.any_merge_of_slot(slot);
        let is_bare = is_bare(ctx, slot)?;
        if is_moving || is_touched || !self.may_hand_over(ctx, to, is_bare) {
            return Err(Errno::EBUSY.into());
        }
        let txn = self.numbers.txn(ctx);
        self.locks.take(LockKey::Slot(slot), txn, Hold::Copy);
        self.copies.insert(txn.number, Copy::of_slot(slot, is_bare, ctx.now.nanos));
        self.enter(txn.number, None, Plan::Handover(Handover::new(news)));
        self.advance(ctx, txn.number)?;
        Ok(())
    }

    /// Whether one more may begin. Those that copy rows leave room for splits.
    fn may_hand_over(&self, ctx: &Ctx<'_>, to: ShardIndex, is_bare: bool) -> bool {
        let copies_rows = |copy: &&Copy| !copy.is_bare && matches!(copy.moved, Moved::Slot(_));
        self.may_copy_to(ctx, to, is_bare)
            && (is_bare || self.copies.values().filter(copies_rows).count() < FILLED_MAX)
    }

    /// Whether no transaction has to do with anything of a slot.
    pub(crate) fn is_slot_quiet(&self, slot: SlotIndex) -> bool {
        !self.locks.any_of_slot(slot) && !self.undecided_names().any(|(dir, _)| dir.slot() == slot)
    }

    /// Whose a decision is that can be made without a prepared record.
    pub(crate) fn where_is(&self, changes: &[Change]) -> Result<Whereabouts, Halt> {
        for change in changes {
            let (Change::Bury(dir) | Change::NewHome { dir, .. }) = change else { continue };
            return Ok(match self.open_slot(dir.id.slot()) {
                Ok(()) => continue,
                Err(Stop::Halt(halt)) => return Err(halt),
                Err(Stop::Wait(key)) => Whereabouts::Soon(key),
                Err(Stop::Refuse(Refusal::Slot(news))) => Whereabouts::There(news),
                Err(Stop::Refuse(_)) => Whereabouts::Never,
            });
        }
        Ok(Whereabouts::Here)
    }

    /// Records and remembers who owns a slot from now on.
    pub(crate) fn set_owner(&mut self, ctx: &mut Ctx<'_>, news: SlotNews) {
        let owner = Owner { version: news.version, owner: news.owner };
        ctx.put(keys::owner(news.slot), owner.encode());
        self.config.map.learn(news);
    }

    /// Remembers what another shard says of a slot; whether that is news. That a slot is this
    /// shard's own it hears by the decision alone: until then it waits, and who is sent here comes
    /// again.
    pub(crate) fn hear_of_slot(&mut self, news: SlotNews) -> bool {
        news.owner != self.config.shard && self.config.map.learn(news)
    }

    /// The slot an inode's link shard is found by, for gates.
    pub(crate) fn open_link(&self, ino: Ino) -> Result<(), Stop> {
        self.open_slot(ino.slot())
    }

    /// What owners there are on record.
    pub(crate) fn load_owners(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let prefix = keys::table(Table::Owner);
        for (key, value) in ctx.rows(&prefix, &keys::after(&prefix))? {
            let slot = keys::owner_of(&key).ok_or_else(|| broken("the key of a slot's owner"))?;
            let Owner { version, owner } = Owner::decode(&value)?;
            self.config.map.learn(SlotNews { slot, version, owner });
        }
        Ok(())
    }
}
