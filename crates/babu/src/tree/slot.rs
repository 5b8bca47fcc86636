//! The record handle: where the memory of a tree holds a record.

use crate::tree::arena::Address;

/// A record handle of eight bytes:
///
/// ```text
/// bits  0–31   address; of a long record, its number
/// bits 32–47   length; of a long record, zero
/// bit  62      a long record
/// bit  63      a tombstone
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

const LENGTH_SHIFT: u32 = 32;
const LONG: u64 = 1 << 62;
const DELETED: u64 = 1 << 63;

impl Slot {
    pub(crate) fn short(address: Address, len: usize) -> Slot {
        Slot(u64::from(address.0) | (len as u64) << LENGTH_SHIFT)
    }

    pub(crate) fn long(number: u32) -> Slot {
        Slot(u64::from(number) | LONG)
    }

    pub(crate) fn with_deleted(self, is_deleted: bool) -> Slot {
        Slot(if is_deleted { self.0 | DELETED } else { self.0 & !DELETED })
    }

    #[inline]
    pub(crate) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// The number of a long record. `None` if the record is not long.
    #[inline]
    pub(crate) fn long_number(self) -> Option<usize> {
        (self.0 & LONG != 0).then_some(self.0 as u32 as usize)
    }

    /// The address of a record that is not long.
    #[inline]
    pub(crate) fn address(self) -> Address {
        Address(self.0 as u32)
    }

    /// The length in bytes of a record that is not long.
    #[inline]
    pub(crate) fn len(self) -> usize {
        usize::from((self.0 >> LENGTH_SHIFT) as u16)
    }
}
