//! Where in a leaf a record is.

use std::ops::Range;

/// Four bytes:
///
/// ```text
/// bits  0–15   where the record begins in the leaf's bytes; of one kept apart, its number
/// bits 16–29   its length; of one kept apart, zero
/// bit  30      kept apart
/// bit  31      a tombstone
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

const LENGTH_SHIFT: u32 = 16;
const LENGTH_MASK: u32 = (1 << 14) - 1;
const APART: u32 = 1 << 30;
const DELETED: u32 = 1 << 31;

impl Slot {
    /// Of no record, while there is none.
    pub(crate) const VACANT: Slot = Slot(0);

    pub(crate) fn inline(range: Range<usize>) -> Slot {
        debug_assert!(range.end <= usize::from(u16::MAX) && range.len() <= LENGTH_MASK as usize);
        Slot(range.start as u32 | (range.len() as u32) << LENGTH_SHIFT)
    }

    pub(crate) fn apart(number: usize) -> Slot {
        debug_assert!(number <= usize::from(u16::MAX));
        Slot(number as u32 | APART)
    }

    pub(crate) fn with_deleted(self, is_deleted: bool) -> Slot {
        Slot(if is_deleted { self.0 | DELETED } else { self.0 & !DELETED })
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// The number of a record kept apart.
    #[inline]
    pub(crate) fn apart_number(self) -> Option<usize> {
        (self.0 & APART != 0).then_some(self.offset())
    }

    /// Where a record that is not kept apart is.
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.offset()..self.offset() + self.inline_bytes()
    }

    #[inline]
    pub(crate) fn inline_bytes(self) -> usize {
        (self.0 >> LENGTH_SHIFT & LENGTH_MASK) as usize
    }

    fn offset(self) -> usize {
        usize::from(self.0 as u16)
    }

    /// The same record `by` bytes further on; one kept apart stays where it is.
    #[inline]
    pub(crate) fn moved(self, by: isize) -> Slot {
        match self.apart_number() {
            Some(_) => self,
            None => {
                let offset = self.offset().wrapping_add_signed(by);
                debug_assert!(offset <= usize::from(u16::MAX));
                Slot(self.0 & !u32::from(u16::MAX) | offset as u32)
            }
        }
    }
}
