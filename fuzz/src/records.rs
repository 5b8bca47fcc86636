//! Values of a store's records. The first byte gives the type.

use std::fmt::Debug;

use pando_core::record::{
    Arriving, Content, Decided, Entry, Floor, Header, Incoming, LinkedName, Numbers, Open, Outcome,
    Owner, Prepared, Record, SessionRecord, Stat, Xattrs,
};
use pando_types::LockSet;
use pando_types::peer::Inode;
use pando_types::reply::Slice;

/// Whether a value can be decoded. If so, encodes and decodes it again.
fn read<T: Record + PartialEq + Debug>(bytes: &[u8]) -> bool {
    let Ok(record) = T::decode(bytes) else { return false };
    let written = record.encode();
    assert_eq!(T::decode(&written).as_ref(), Ok(&record));
    true
}

/// For each type of record, a function that tells whether bytes are such a record.
pub const TYPES: [fn(&[u8]) -> bool; 19] = [
    read::<Content>,
    read::<Header>,
    read::<Entry>,
    read::<Inode>,
    read::<Xattrs>,
    read::<Slice>,
    read::<LinkedName>,
    read::<Numbers>,
    read::<Stat>,
    read::<SessionRecord>,
    read::<Outcome>,
    read::<Open>,
    read::<Decided>,
    read::<Prepared>,
    read::<Arriving>,
    read::<Floor>,
    read::<Owner>,
    read::<Incoming>,
    read::<LockSet>,
];

pub fn run(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    TYPES[usize::from(kind) % TYPES.len()](bytes);
}
