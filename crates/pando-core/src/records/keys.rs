//! Keys of all records. Integers are big-endian, so that byte order is number order.
//!
//! ```text
//! directory  'd' ‖ directory id (16) ‖ kind (1) ‖ order with ordinal (8) [‖ suffix]
//! link inode 'l' ‖ hash slot (2) ‖ ino (8) ‖ kind (1) [‖ suffix]
//! shard      's' ‖ table (1) ‖ …
//! locks      's' ‖ table (1) ‖ hash slot (2) ‖ ino (8) ‖ session (8)
//! ```
//!
//! All records of a directory share one prefix. Every partition, and each half of one, is one range
//! of keys per kind (BabuDB §III.A).

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::op::ObjectId;
use pando_types::{DirId, HashSlot, Ino, Order, PartitionIndex, SessionId, ShardIndex, TxnId};

const DIR: u8 = b'd';
const LINK: u8 = b'l';
const SHARD: u8 = b's';

/// Kinds of records under a directory or a link inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Attributes, parent and name of the directory, at its home; order 0.
    Content = 1,
    /// Extended attributes of the directory, at its home; order 0.
    DirXattr = 2,
    /// Header of a partition; the order is the start of the partition's range.
    Header = 3,
    /// An entry: a name with what it leads to. Under a link inode: the inode.
    Entry = 4,
    /// Extended attributes of the inode at this order.
    Xattr = 5,
    /// Inline data of a file, or the target of a symlink.
    Inline = 6,
    /// A slice of a file; suffix: its offset in the file (8).
    Slice = 7,
    /// A name of a link inode; only under link inodes; suffix: directory id (16) ‖ name.
    LinkName = 8,
    /// Header of partition 0 of a directory while the directory's hash slot is on its way here;
    /// order 0.
    StagedHeader = 9,
}

/// Kinds of records that belong to names and move with a partition.
pub const MOVING: [Kind; 4] = [Kind::Entry, Kind::Xattr, Kind::Inline, Kind::Slice];

/// Tables of the shard itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Table {
    /// Ends of the reserved blocks of numbers: one record.
    Numbers = 1,
    /// Counts for statfs: one record.
    Stat = 2,
    /// Sessions by number. The table's own key holds the position up to which events of sessions
    /// have been heard.
    Session = 3,
    /// Outcomes by session and request slot.
    Outcome = 4,
    /// Opens by ino and session.
    Open = 5,
    /// Decided transactions that some participant has not finished.
    Txn = 6,
    /// Steps of transactions for which this shard is prepared.
    Prepared = 7,
    /// Steps that this shard has finished.
    Finished = 8,
    /// Floors by coordinator: which of its transactions are over.
    Floor = 9,
    /// Partitions on their way here.
    Arrival = 10,
    /// Objects that no file names any more, to be deleted.
    Garbage = 11,
    /// Owners of hash slots that were handed over, on each shard that ever owned one.
    Owner = 12,
    /// Hash slots on their way here.
    Incoming = 13,
    /// Shards that were added: at shard 0 all of them, at any other shard itself.
    Joined = 14,
    /// Locks of programs, by hash slot, ino and session. They move with the hash slot of the ino.
    Lock = 15,
    /// Removed files that lose their slices in steps, by the common prefix of the slices' keys.
    Shred = 16,
    /// Parts of directories that are lent, or were, by generation.
    Grant = 17,
    /// Sessions that have read grants here, which no record tells.
    Reader = 18,
}

/// Key of the record of a kind at an order of a directory.
#[must_use]
pub fn dir(id: DirId, kind: Kind, order: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(34);
    key.push(DIR);
    key.extend_from_slice(&id.0);
    key.push(kind as u8);
    key.extend_from_slice(&order.to_be_bytes());
    key
}

/// Length of an entry's key in bytes.
pub const ENTRY_BYTES: usize = 26;

/// Key of the entry at an order of a directory.
#[must_use]
pub fn entry(id: DirId, order: Order) -> [u8; ENTRY_BYTES] {
    let mut key = [0; ENTRY_BYTES];
    key[0] = DIR;
    key[1..17].copy_from_slice(&id.0);
    key[17] = Kind::Entry as u8;
    key[18..].copy_from_slice(&order.0.to_be_bytes());
    key
}

/// Directory and order of an entry's key; `None` for any other key.
#[must_use]
pub fn entry_of(key: &[u8]) -> Option<(DirId, Order)> {
    let key: &[u8; ENTRY_BYTES] = key.try_into().ok()?;
    let (id, order) = (key[1..17].try_into().ok()?, key[18..].try_into().ok()?);
    let is_entry = key[0] == DIR && key[17] == Kind::Entry as u8;
    is_entry.then_some((DirId(id), Order(u64::from_be_bytes(order))))
}

/// Range of the keys of a kind with orders in `orders`, and with any suffix.
#[must_use]
pub fn dir_range(id: DirId, kind: Kind, orders: &Range<u64>) -> (Vec<u8>, Vec<u8>) {
    (dir(id, kind, orders.start), dir(id, kind, orders.end))
}

/// Order in a key of a directory's record; `None` for any other key.
#[must_use]
pub fn order_of(key: &[u8]) -> Option<Order> {
    let bytes = key.get(18..26)?.try_into().ok()?;
    (key[0] == DIR).then(|| Order(u64::from_be_bytes(bytes)))
}

/// Directory in a key of a directory's record; `None` for any other key.
#[must_use]
pub fn dir_of(key: &[u8]) -> Option<DirId> {
    let bytes = key.get(1..17)?.try_into().ok()?;
    (key[0] == DIR).then_some(DirId(bytes))
}

/// Kind byte of a key of a directory's record; `None` for any other key.
#[must_use]
pub fn kind_of(key: &[u8]) -> Option<u8> {
    (*key.first()? == DIR).then(|| key.get(17).copied()).flatten()
}

/// Key of the record of a kind of a link inode. The inode itself has kind [`Kind::Entry`].
#[must_use]
pub fn link(ino: Ino, kind: Kind) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    key.push(LINK);
    key.extend_from_slice(&ino.hash_slot().0.to_be_bytes());
    key.extend_from_slice(&ino.0.to_be_bytes());
    key.push(kind as u8);
    key
}

/// Key of the record of one name of a link inode.
#[must_use]
pub fn link_name(ino: Ino, dir: DirId, name: &[u8]) -> Vec<u8> {
    let mut key = link(ino, Kind::LinkName);
    key.extend_from_slice(&dir.0);
    key.extend_from_slice(name);
    key
}

/// First key after all keys that begin with `prefix`. The prefix has a byte below 255.
#[must_use]
pub fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while end.pop_if(|b| *b == 0xFF).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Prefix of all keys of a table; also the key of a table's only record.
#[must_use]
pub fn table(table: Table) -> Vec<u8> {
    alloc::vec![SHARD, table as u8]
}

#[inline]
fn table_key(kind: Table, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + parts.iter().map(|part| part.len()).sum::<usize>());
    key.extend_from_slice(&[SHARD, kind as u8]);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// Key of a session's record.
#[must_use]
pub fn session(id: SessionId) -> Vec<u8> {
    table_key(Table::Session, &[&id.0.to_be_bytes()])
}

/// Session in the key of a session's record.
#[must_use]
pub fn session_of(key: &[u8]) -> Option<SessionId> {
    Some(SessionId(u64::from_be_bytes(key.get(2..)?.try_into().ok()?)))
}

/// Key of the outcome of a session's request slot.
#[must_use]
pub fn outcome(id: SessionId, slot: u16) -> Vec<u8> {
    table_key(Table::Outcome, &[&id.0.to_be_bytes(), &slot.to_be_bytes()])
}

/// Session and request slot in the key of an outcome.
#[must_use]
pub fn outcome_of(key: &[u8]) -> Option<(SessionId, u16)> {
    let session = u64::from_be_bytes(key.get(2..10)?.try_into().ok()?);
    let slot = u16::from_be_bytes(key.get(10..12)?.try_into().ok()?);
    Some((SessionId(session), slot))
}

/// Key of the record that a session has an inode open.
#[must_use]
pub fn open(ino: Ino, session: SessionId) -> Vec<u8> {
    table_key(Table::Open, &[&ino.0.to_be_bytes(), &session.0.to_be_bytes()])
}

/// Key of the locks that a session has of a file.
#[must_use]
pub fn lock(ino: Ino, session: SessionId) -> Vec<u8> {
    let hash_slot = ino.hash_slot().0.to_be_bytes();
    table_key(Table::Lock, &[&hash_slot, &ino.0.to_be_bytes(), &session.0.to_be_bytes()])
}

/// Prefix of the locks that all sessions have of a file.
#[must_use]
pub fn locks_of(ino: Ino) -> Vec<u8> {
    table_key(Table::Lock, &[&ino.hash_slot().0.to_be_bytes(), &ino.0.to_be_bytes()])
}

/// File and session in the key of a session's locks.
#[must_use]
pub fn lock_of(key: &[u8]) -> Option<(Ino, SessionId)> {
    let ino = u64::from_be_bytes(key.get(4..12)?.try_into().ok()?);
    let session = u64::from_be_bytes(key.get(12..20)?.try_into().ok()?);
    Some((Ino(ino), SessionId(session)))
}

/// Range of the locks of all files of a hash slot.
#[must_use]
pub fn hash_slot_locks(hash_slot: HashSlot) -> (Vec<u8>, Vec<u8>) {
    let from = table_key(Table::Lock, &[&hash_slot.0.to_be_bytes()]);
    let to = after(&from);
    (from, to)
}

/// Key of a decided transaction of this shard.
#[must_use]
pub fn txn(number: u64) -> Vec<u8> {
    table_key(Table::Txn, &[&number.to_be_bytes()])
}

fn step(kind: Table, txn: TxnId, step: u16) -> Vec<u8> {
    table_key(kind, &[&txn.shard.0.to_be_bytes(), &txn.number.to_be_bytes(), &step.to_be_bytes()])
}

/// Key of a prepared step of a transaction.
#[must_use]
pub fn prepared(txn: TxnId, number: u16) -> Vec<u8> {
    step(Table::Prepared, txn, number)
}

/// Key of a finished step of a transaction.
#[must_use]
pub fn finished(txn: TxnId, number: u16) -> Vec<u8> {
    step(Table::Finished, txn, number)
}

/// Transaction and step in the key of a prepared or finished step.
#[must_use]
pub fn step_of(key: &[u8]) -> Option<(TxnId, u16)> {
    let shard = ShardIndex(u16::from_be_bytes(key.get(2..4)?.try_into().ok()?));
    let number = u64::from_be_bytes(key.get(4..12)?.try_into().ok()?);
    let step = u16::from_be_bytes(key.get(12..14)?.try_into().ok()?);
    Some((TxnId { shard, number }, step))
}

/// Key of the floor of a coordinator.
#[must_use]
pub fn floor(shard: ShardIndex) -> Vec<u8> {
    table_key(Table::Floor, &[&shard.0.to_be_bytes()])
}

/// Key of a partition on its way here.
#[must_use]
pub fn arrival(dir: DirId, partition: PartitionIndex) -> Vec<u8> {
    table_key(Table::Arrival, &[&dir.0, &partition.0.to_be_bytes()])
}

/// Key of an object to delete.
#[must_use]
pub fn garbage(object: ObjectId) -> Vec<u8> {
    table_key(Table::Garbage, &[&object.0.to_be_bytes()])
}

/// Range of all rows of the directories of a hash slot.
#[must_use]
pub fn hash_slot_dirs(hash_slot: HashSlot) -> (Vec<u8>, Vec<u8>) {
    hash_slot_range(DIR, hash_slot)
}

/// Range of all rows of the link inodes of a hash slot.
#[must_use]
pub fn hash_slot_links(hash_slot: HashSlot) -> (Vec<u8>, Vec<u8>) {
    hash_slot_range(LINK, hash_slot)
}

fn hash_slot_range(what: u8, hash_slot: HashSlot) -> (Vec<u8>, Vec<u8>) {
    let [high, low] = hash_slot.0.to_be_bytes();
    let from = alloc::vec![what, high, low];
    let to = after(&from);
    (from, to)
}

/// Hash slot of the key of a directory's, link inode's or lock's row; `None` for any other key.
#[must_use]
pub fn hash_slot_of_row(key: &[u8]) -> Option<HashSlot> {
    let at = match key {
        [DIR | LINK, ..] => 1,
        [SHARD, table, ..] if *table == Table::Lock as u8 => 2,
        _ => return None,
    };
    let bytes = key.get(at..at + 2)?.try_into().ok()?;
    Some(HashSlot(u16::from_be_bytes(bytes)))
}

/// Whether `key` is that of a link inode itself, not of its names, xattrs or data.
#[must_use]
pub fn is_link_inode(key: &[u8]) -> bool {
    matches!(key, [LINK, _, _, _, _, _, _, _, _, _, _, kind] if *kind == Kind::Entry as u8)
}

/// Whether `key` is that of a slice.
#[must_use]
pub fn is_slice(key: &[u8]) -> bool {
    let at = match key.first() {
        Some(&DIR) => 17,
        Some(&LINK) => 11,
        _ => return false,
    };
    key.get(at) == Some(&(Kind::Slice as u8))
}

/// Key of the owner of a hash slot.
#[must_use]
pub fn owner(hash_slot: HashSlot) -> Vec<u8> {
    table_key(Table::Owner, &[&hash_slot.0.to_be_bytes()])
}

/// Key of a hash slot on its way here.
#[must_use]
pub fn incoming(hash_slot: HashSlot) -> Vec<u8> {
    table_key(Table::Incoming, &[&hash_slot.0.to_be_bytes()])
}

/// Key of a removed file that loses its slices in steps. `slices` is the common prefix of the
/// slices' keys.
#[must_use]
pub fn shred(slices: &[u8]) -> Vec<u8> {
    table_key(Table::Shred, &[slices])
}

/// Key of a grant.
#[must_use]
pub fn grant(generation: TxnId) -> Vec<u8> {
    table_key(Table::Grant, &[&generation.shard.0.to_be_bytes(), &generation.number.to_be_bytes()])
}

/// Generation in the key of a grant.
#[must_use]
pub fn grant_of(key: &[u8]) -> Option<TxnId> {
    let shard = ShardIndex(u16::from_be_bytes(key.get(2..4)?.try_into().ok()?));
    let number = u64::from_be_bytes(key.get(4..)?.try_into().ok()?);
    Some(TxnId { shard, number })
}

/// Key of the record of a session that has read grants.
#[must_use]
pub fn reader(session: SessionId) -> Vec<u8> {
    table_key(Table::Reader, &[&session.0.to_be_bytes()])
}

/// Session in the key of a reader's record.
#[must_use]
pub fn reader_of(key: &[u8]) -> Option<SessionId> {
    Some(SessionId(u64::from_be_bytes(key.get(2..)?.try_into().ok()?)))
}

/// Key of a shard that was added.
#[must_use]
pub fn joined(shard: ShardIndex) -> Vec<u8> {
    table_key(Table::Joined, &[&shard.0.to_be_bytes()])
}

/// Shard in the key of an added shard.
#[must_use]
pub fn joined_of(key: &[u8]) -> Option<ShardIndex> {
    let bytes = key.get(2..)?.try_into().ok()?;
    Some(ShardIndex(u16::from_be_bytes(bytes)))
}

/// Hash slot in the key of an owner, or of a hash slot on its way here.
#[must_use]
pub fn owner_of(key: &[u8]) -> Option<HashSlot> {
    let bytes = key.get(2..)?.try_into().ok()?;
    Some(HashSlot(u16::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_kind_sort_by_order_and_give_it_back() {
        let a = dir(DirId([7; 16]), Kind::Entry, 5);
        let b = dir(DirId([7; 16]), Kind::Entry, 256);
        assert!(a < b);
        assert_eq!(order_of(&b), Some(Order(256)));
        assert_eq!(dir_of(&b), Some(DirId([7; 16])));
        assert_eq!(kind_of(&b), Some(Kind::Entry as u8));
    }

    #[test]
    fn a_range_holds_suffixed_keys() {
        let (from, to) = dir_range(DirId::ROOT, Kind::Slice, &(0..10));
        let mut key = dir(DirId::ROOT, Kind::Slice, 9);
        key.extend_from_slice(&u64::MAX.to_be_bytes());
        assert!(from <= key && key < to);
    }

    #[test]
    fn steps_return() {
        let txn = TxnId { shard: ShardIndex(3), number: 99 };
        assert_eq!(step_of(&prepared(txn, 7)), Some((txn, 7)));
        assert_eq!(outcome_of(&outcome(SessionId(4), 5)), Some((SessionId(4), 5)));
    }

    #[test]
    fn rows_of_a_hash_slot_are_three_ranges() {
        let mut id = [7; 16];
        (id[0], id[1]) = (0x12, 0xFF);
        let dir = dir(DirId(id), Kind::Entry, 3);
        let (from, to) = hash_slot_dirs(HashSlot(0x12FF));
        assert!(from <= dir && dir < to);
        assert_eq!(hash_slot_of_row(&dir), Some(DirId(id).hash_slot()));
        let ino = Ino::new(ShardIndex(3), 77);
        let key = link(ino, Kind::Entry);
        let (from, to) = hash_slot_links(ino.hash_slot());
        assert!(from <= key && key < to && is_link_inode(&key) && !is_slice(&key));
        assert_eq!(hash_slot_of_row(&key), Some(ino.hash_slot()));
        let key = lock(ino, SessionId(9));
        let (from, to) = hash_slot_locks(ino.hash_slot());
        assert!(from <= key && key < to && key.starts_with(&locks_of(ino)));
        assert_eq!(hash_slot_of_row(&key), Some(ino.hash_slot()));
        assert_eq!(lock_of(&key), Some((ino, SessionId(9))));
        assert_eq!(hash_slot_of_row(&open(ino, SessionId(9))), None);
        assert!(is_slice(&link(ino, Kind::Slice)));
        assert_eq!(owner_of(&owner(HashSlot(9))), Some(HashSlot(9)));
        assert_eq!(hash_slot_dirs(HashSlot(0xFFFF)).1, [b'd' + 1]);
    }

    #[test]
    fn after_skips_the_whole_prefix() {
        assert_eq!(after(&[1, 0xFF]), [2]);
        assert_eq!(after(&[1, 2]), [1, 3]);
    }
}
