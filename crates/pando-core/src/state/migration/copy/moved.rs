//! What a copy moves.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::{DirRef, HashSlot, PartitionIndex};

use crate::records::keys;
use crate::state::lock_key::{Hold, LockKey};

/// What moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// Half of a partition, or a whole one.
    Half {
        dir: DirRef,
        /// The partition that has these orders.
        from: PartitionIndex,
        orders: Range<u64>,
    },
    /// A hash slot ([`crate::handover`]).
    HashSlot(HashSlot),
}

impl Moved {
    /// The first key that may move.
    pub(super) fn first(&self) -> Vec<u8> {
        match self {
            Self::Half { dir, orders, .. } => keys::dir_range(dir.id, keys::MOVING[0], orders).0,
            Self::HashSlot(hash_slot) => keys::hash_slot_dirs(*hash_slot).0,
        }
    }

    /// The lock that the move holds.
    pub fn key(&self) -> LockKey {
        match self {
            Self::Half { dir, from, .. } => LockKey::Partition(dir.id, *from),
            Self::HashSlot(hash_slot) => LockKey::HashSlot(*hash_slot),
        }
    }

    pub(super) fn first_order(&self) -> u64 {
        match self {
            Self::Half { orders, .. } => orders.start,
            Self::HashSlot(_) => 0,
        }
    }

    /// How that lock is held while the range is closing.
    pub fn closing(&self) -> Hold {
        Hold::Closing { from: self.first_order() }
    }

    /// How that lock is held while the range is frozen.
    pub fn frozen(&self) -> Hold {
        Hold::Split { from: self.first_order() }
    }

    /// Whether a row may move. In a hash slot this includes rows that stay. They are left out when
    /// rows are sent.
    pub(super) fn may_move(&self, key: &[u8]) -> bool {
        match self {
            Self::Half { dir, orders, .. } => {
                keys::dir_of(key) == Some(dir.id)
                    && keys::order_of(key).is_some_and(|order| orders.contains(&order.0))
                    && keys::MOVING.iter().any(|kind| keys::kind_of(key) == Some(*kind as u8))
            }
            Self::HashSlot(hash_slot) => keys::hash_slot_of_row(key) == Some(*hash_slot),
        }
    }

    /// Ranges of keys that may move.
    pub(super) fn ranges(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::Half { dir, orders, .. } => {
                keys::MOVING.iter().map(|kind| keys::dir_range(dir.id, *kind, orders)).collect()
            }
            Self::HashSlot(hash_slot) => alloc::vec![
                keys::hash_slot_dirs(*hash_slot),
                keys::hash_slot_links(*hash_slot),
                keys::hash_slot_locks(*hash_slot),
            ],
        }
    }
}
