//! How long replies may get, so that a connection's replies are bounded before its requests run.
//!
//! Replies to an honest client do not exceed these sizes, apart from news of versions and long
//! histories of splits. Whatever the sizes are, [`Limits::replies_cut`](crate::net::Limits) bounds
//! what a connection holds.

use pando_types::op::{
    FILES_BYTES_MAX, FILES_MAX, GARBAGE_MAX, LAYOUT_SLICES_MAX, Op, PAGE_MAX, XATTR_TOTAL_MAX,
    XATTR_VALUE_MAX,
};

/// A reply's head, with attributes or a little more.
const LITTLE: usize = 512;
/// An entry of a listing, with a name and attributes of usual length.
const ENTRY: usize = 160;
/// A slice.
const SLICE: usize = 64;
/// A component that was glimpsed.
const GLIMPSE: usize = 64;

/// Bytes that the reply to `op` may have.
pub(crate) fn of_reply(op: &Op) -> usize {
    LITTLE
        + match op {
            Op::ReadDir { limit, .. } => (*limit).min(PAGE_MAX) as usize * ENTRY,
            Op::ReadFiles { bytes, .. } => {
                (*bytes).min(FILES_BYTES_MAX) as usize + FILES_MAX * 2 * ENTRY
            }
            // Even a short read may meet many slices: the file may have been written in small
            // pieces.
            Op::ReadData { .. } => LAYOUT_SLICES_MAX * SLICE,
            Op::GetXattr(..) => XATTR_VALUE_MAX,
            Op::ListXattr(_) => XATTR_TOTAL_MAX,
            Op::Readlink(_) => pando_types::op::SYMLINK_MAX,
            Op::Garbage(_, limit) => (*limit as usize).min(GARBAGE_MAX) * size_of::<u128>(),
            Op::Glimpse(_, places) => places.len() * GLIMPSE,
            // A page ends after the row with which it exceeds this.
            Op::LentRows(..) => 320 << 10,
            Op::Attend { .. } => 64 << 10,
            Op::Stream { elements, .. } => elements.len() * ENTRY,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::{DirRef, Order, ShardIndex};

    #[test]
    fn what_asks_for_much_weighs_much_and_no_number_is_too_large() {
        let list = |limit| of_reply(&Op::ReadDir { dir: DirRef::ROOT, from: Order(0), limit });
        assert_eq!(list(u32::MAX), list(PAGE_MAX));
        assert!(list(1) < list(100));
        assert!(of_reply(&Op::Garbage(ShardIndex(0), u32::MAX)) < 128 << 10);
        assert_eq!(of_reply(&Op::StatFs(ShardIndex(0))), LITTLE);
    }
}
