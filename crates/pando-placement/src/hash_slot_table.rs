//! Table of the owners of the 2¹⁶ hash slots. Clones share it until one of them changes.

use alloc::sync::Arc;
use core::fmt;
use pando_types::{HashSlot, ShardIndex};
use serde::{Deserialize, Serialize};

const HASH_SLOTS: usize = 1 << 16;

/// Owners by hash slot: always 2¹⁶ entries.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Arc<[ShardIndex]>", into = "Arc<[ShardIndex]>")]
pub(crate) struct HashSlotTable(Arc<[ShardIndex]>);

impl HashSlotTable {
    pub(crate) fn new(owner: impl Fn(HashSlot) -> ShardIndex) -> Self {
        Self((0..=u16::MAX).map(|hash_slot| owner(HashSlot(hash_slot))).collect())
    }

    pub(crate) fn owner(&self, hash_slot: HashSlot) -> ShardIndex {
        self.0[usize::from(hash_slot.0)]
    }

    pub(crate) fn set_owner(&mut self, hash_slot: HashSlot, owner: ShardIndex) {
        Arc::make_mut(&mut self.0)[usize::from(hash_slot.0)] = owner;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ShardIndex> {
        self.0.iter().copied()
    }
}

impl TryFrom<Arc<[ShardIndex]>> for HashSlotTable {
    type Error = &'static str;

    fn try_from(owners: Arc<[ShardIndex]>) -> Result<Self, Self::Error> {
        if owners.len() == HASH_SLOTS {
            Ok(Self(owners))
        } else {
            Err("a slot table has 65,536 slots")
        }
    }
}

impl From<HashSlotTable> for Arc<[ShardIndex]> {
    fn from(table: HashSlotTable) -> Self {
        table.0
    }
}

/// Shows the first owners, not 65,536 lines.
impl fmt::Debug for HashSlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashSlotTable({:?}..)", &self.0[..4])
    }
}
