//! Changes of rows that a copy has already sent.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pando_types::peer::RowChange;

use crate::contract::Halt;
use crate::state::ctx::Ctx;

/// A page ends at this many bytes, even if it may have more rows.
pub(super) const PAGE_BYTES: usize = 64 << 10;

/// Changes of rows that have already been sent.
#[derive(Default, Debug)]
pub(super) struct Dirty {
    pub(super) keys: BTreeSet<Vec<u8>>,
    /// Ranges that were deleted. They are sent before all keys.
    pub(super) ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Dirty {
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    /// Takes out one page of changes, with rows as they are now. It has at most `most` changes, and
    /// at least one if there is any.
    pub(super) fn take(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let ranges = self.ranges.len().min(most);
        let mut page = Vec::new();
        for (from, to) in &self.ranges[..ranges] {
            page.push(RowChange::DeleteRange(from.clone(), to.clone()));
        }
        let mut bytes = 0;
        for key in &self.keys {
            if page.len() >= most || bytes >= PAGE_BYTES {
                break;
            }
            bytes += key.len();
            page.push(match ctx.get(key)? {
                Some(value) => {
                    bytes += value.len();
                    RowChange::Put(key.clone(), value)
                }
                None => RowChange::Delete(key.clone()),
            });
        }
        for _ in ranges..page.len() {
            self.keys.pop_first();
        }
        self.ranges.drain(..ranges);
        Ok(page)
    }
}
