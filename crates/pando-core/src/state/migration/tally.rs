//! Counts of entries in rows that move.

use pando_types::peer::{EntryValue, Tally};

use crate::contract::Halt;
use crate::records::keys::{self, Kind};
use crate::records::record::{Entry, Record};

/// Adds an entry to the counts, or subtracts it, by `by`.
pub fn count(
    key: &[u8],
    value: &[u8],
    tally: &mut Tally,
    by: fn(u64, u64) -> u64,
) -> Result<(), Halt> {
    if keys::kind_of(key) != Some(Kind::Entry as u8) {
        return Ok(());
    }
    let Some((_, value)) = Entry::decode(value)?.is else { return Ok(()) };
    tally.entries = by(tally.entries, 1);
    match value {
        EntryValue::Dir(_) => tally.subdirs = by(tally.subdirs, 1),
        EntryValue::File(inode) => {
            tally.inodes = by(tally.inodes, 1);
            tally.bytes = by(tally.bytes, inode.attr.size);
        }
        EntryValue::Linked(..) => {}
    }
    Ok(())
}
