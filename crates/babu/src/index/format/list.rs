//! The block list: where each block of a file is, and its first possible key. It is in memory while
//! the file is open.
//!
//! ```text
//! per block: varint stored length ‖ varint key length ‖ separator
//! ```
//!
//! A separator is the shortest key that is greater than all keys of the previous block, and not
//! greater than the block's first key. Blocks lie back to back, so their lengths give the offsets.

use crate::index::format::header::Extent;
use crate::index::format::header::INDEX_HEADER_BYTES;
use crate::types::codec::{Fields, put_sized, put_varint};

/// A block list. All separators share one piece of memory. Each block takes 12 bytes besides.
#[derive(Debug)]
pub(crate) struct BlockList {
    keys: Box<[u8]>,
    places: Box<[Place]>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    key_end: u32,
    offset: u32,
    len: u32,
}

/// Appends the entry of one block to an encoded list.
pub(crate) fn put(out: &mut Vec<u8>, separator: &[u8], stored_bytes: u32) {
    put_varint(out, u64::from(stored_bytes));
    put_sized(out, separator);
}

/// The shortest key that is greater than `last` and at most `next`.
pub(crate) fn separator<'a>(last: &[u8], next: &'a [u8]) -> &'a [u8] {
    let shared = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    &next[..next.len().min(shared + 1)]
}

impl BlockList {
    /// Decodes a list. Accepts it only if separators ascend, and its `count` blocks fill the file
    /// from the header to `end`.
    pub(crate) fn parse(bytes: &[u8], count: u64, end: u64) -> Option<BlockList> {
        let mut fields = Fields(bytes);
        let mut keys = Vec::new();
        let mut places = Vec::new();
        let mut offset = INDEX_HEADER_BYTES as u64;
        let mut last: Option<&[u8]> = None;
        while !fields.0.is_empty() {
            let len = u32::try_from(fields.varint()?).ok()?;
            let key = fields.sized()?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            keys.extend_from_slice(key);
            places.push(Place {
                key_end: u32::try_from(keys.len()).ok()?,
                offset: u32::try_from(offset).ok()?,
                len,
            });
            offset += u64::from(len);
        }
        (offset == end && places.len() as u64 == count)
            .then(|| BlockList { keys: keys.into(), places: places.into() })
    }

    /// The list of a dark file: one block for all keys from `from` on.
    pub(crate) fn dark(from: &[u8]) -> BlockList {
        let place = Place { key_end: from.len() as u32, offset: 0, len: 0 };
        BlockList { keys: from.into(), places: [place].into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Memory of the list in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.len() + self.places.len() * size_of::<Place>()
    }

    pub(crate) fn separator(&self, position: usize) -> &[u8] {
        let start = match position {
            0 => 0,
            _ => self.places[position - 1].key_end,
        };
        &self.keys[start as usize..self.places[position].key_end as usize]
    }

    pub(crate) fn extent(&self, position: usize) -> Extent {
        let place = self.places[position];
        Extent { offset: u64::from(place.offset), len: place.len }
    }

    /// Position of the one block that can hold `key`. `None` if `key` is before all blocks.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.separator(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_is_short_and_between() {
        for (last, next, expected) in [
            (&b"abc"[..], &b"abd"[..], &b"abd"[..]),
            (b"abc", b"b", b"b"),
            (b"abc", b"bzzz", b"b"),
            (b"ab", b"abzz", b"abz"),
            (b"", b"x\0", b"x"),
        ] {
            let found = separator(last, next);
            assert_eq!(found, expected);
            assert!(last < found && found <= next);
        }
    }

    #[test]
    fn a_list_finds_the_block_of_each_key_and_refuses_what_does_not_fit() {
        let mut bytes = Vec::new();
        for (key, len) in [(&b"b"[..], 10), (b"bb", 20), (b"d", 200)] {
            put(&mut bytes, key, len);
        }
        let end = INDEX_HEADER_BYTES as u64 + 230;
        let list = BlockList::parse(&bytes, 3, end).unwrap();
        for (key, position) in
            [(&b"a"[..], None), (b"b", Some(0)), (b"ba", Some(0)), (b"c", Some(1)), (b"e", Some(2))]
        {
            assert_eq!(list.find(key), position);
        }
        let extent = list.extent(2);
        assert_eq!((extent.offset, extent.len), (INDEX_HEADER_BYTES as u64 + 30, 200));
        assert!(BlockList::parse(&bytes, 2, end).is_none());
        assert!(BlockList::parse(&bytes, 3, end + 1).is_none());
        for cut in 0..bytes.len() {
            assert!(BlockList::parse(&bytes[..cut], 3, end).is_none());
        }
        crate::fuzz::mutations(&bytes, |bytes| drop(BlockList::parse(bytes, 3, end)));
    }
}
