//! Entries of a directory, in an answer.

use zerocopy::IntoBytes;

use crate::protocol::abi;
use crate::protocol::entry::Entry;

/// Entries of a directory, up to the size that the kernel has room for.
#[derive(Debug)]
pub struct Listing {
    pub(crate) bytes: Vec<u8>,
    size: usize,
}

impl Listing {
    /// Makes an empty listing with room for `size` bytes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        let size = size as usize;
        Self { bytes: Vec::with_capacity(size.min(1 << 16)), size }
    }

    /// Whether the listing has no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds an entry; the listing goes on at `position` after it. The type is taken from `mode`.
    /// Returns true if there is no room.
    pub fn add(&mut self, ino: u64, position: u64, mode: u32, name: &[u8]) -> bool {
        self.push(None, ino, position, mode, name)
    }

    /// Adds an entry with attributes; the listing goes on at `position` after it. With `entry` the
    /// node counts as looked up. `.` and `..` come without. Returns true if there is no room.
    pub fn add_plus(
        &mut self,
        entry: Option<&Entry>,
        ino: u64,
        position: u64,
        mode: u32,
        name: &[u8],
    ) -> bool {
        let out = entry.map(Entry::out).unwrap_or_default();
        self.push(Some(&out), ino, position, mode, name)
    }

    fn push(
        &mut self,
        out: Option<&abi::EntryOut>,
        ino: u64,
        off: u64,
        mode: u32,
        name: &[u8],
    ) -> bool {
        let dirent = abi::Dirent { ino, off, namelen: name.len() as u32, kind: mode >> 12 & 15 };
        let head = out.map_or(&[][..], IntoBytes::as_bytes);
        let len = (head.len() + size_of::<abi::Dirent>() + name.len()).next_multiple_of(8);
        let end = self.bytes.len() + len;
        if end > self.size {
            return true;
        }
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_padded_and_stop_where_there_is_no_room() {
        let mut listing = Listing::new(24 + 8 + 24 + 8);
        assert!(!listing.add(5, 1, 0o040_000, b"a"));
        assert!(!listing.add(6, 2, 0o100_644, b"12345678"));
        assert!(listing.add(7, 3, 0o100_644, b""));
        assert_eq!(listing.bytes.len(), 64);
        assert_eq!(listing.bytes[16..24], [1, 0, 0, 0, 4, 0, 0, 0], "as little-endian machines");
        assert!(Listing::new(152).add_plus(None, 1, 1, 0, b"1"), "152 bytes and one, padded");
        assert!(!Listing::new(160).add_plus(None, 1, 1, 0, b"1"));
    }
}
