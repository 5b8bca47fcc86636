//! Parsing keys of a shard's rows.

use pando_core::keys::{self, Kind, Table};
use pando_types::op::ObjectId;
use pando_types::{DirId, HashSlot, Ino, PartitionIndex, SessionId, ShardIndex, TxnId};

/// Every key of the schema. Any other key is foreign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    Content(DirId),
    DirXattr(DirId),
    /// A partition's header: the directory, and the first order.
    Header(DirId, u64),
    Entry(DirId, u64),
    /// A cold row of the entry at this order.
    Cold(DirId, u64, Cold),
    Link(Ino),
    LinkCold(Ino, Cold),
    LinkName(Ino, DirId, Vec<u8>),
    Numbers,
    Stat,
    SessionsHeard,
    Session(SessionId),
    Outcome(SessionId, u16),
    Open(Ino, SessionId),
    Txn(u64),
    Prepared(TxnId, u16),
    Finished(TxnId, u16),
    Floor(ShardIndex),
    Arrival(DirId, PartitionIndex),
    Garbage(ObjectId),
    /// A removed file with slices that have yet to go: the common prefix of their keys.
    Shred(Vec<u8>),
    StagedHeader(DirId),
    Owner(HashSlot),
    Joined(ShardIndex),
    Incoming(HashSlot),
    Lock(Ino, SessionId),
    Grant(TxnId),
    Reader(SessionId),
}

/// Kinds of rows beside an inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cold {
    Xattr,
    Inline,
    /// A slice: its offset in the file, bytes.
    Slice(u64),
}

impl Cold {
    /// The kinds of these rows, in key order.
    pub const KINDS: [Kind; 3] = [Kind::Xattr, Kind::Inline, Kind::Slice];
}

impl Key {
    /// Parses a key; `None` if it is not in the schema.
    pub fn parse(key: &[u8]) -> Option<Self> {
        match key.first()? {
            b'd' => Self::dir(key),
            b'l' => Self::link(key),
            b's' => Self::table(*key.get(1)?, key.get(2..)?),
            _ => None,
        }
    }

    fn dir(key: &[u8]) -> Option<Self> {
        let (dir, kind) = (keys::dir_of(key)?, keys::kind_of(key)?);
        let (order, suffix) = (u64_at(key, 18)?, key.get(26..)?);
        let bare = suffix.is_empty();
        let parsed = match kind {
            1 if bare && order == 0 => Self::Content(dir),
            2 if bare && order == 0 => Self::DirXattr(dir),
            3 if bare => Self::Header(dir, order),
            4 if bare => Self::Entry(dir, order),
            9 if bare && order == 0 => Self::StagedHeader(dir),
            _ => Self::Cold(dir, order, cold(kind, suffix)?),
        };
        (order < pando_types::Order::END).then_some(parsed)
    }

    fn link(key: &[u8]) -> Option<Self> {
        let (ino, kind, suffix) = (Ino(u64_at(key, 3)?), *key.get(11)?, key.get(12..)?);
        if key[1..3] != ino.hash_slot().0.to_be_bytes() {
            return None;
        }
        Some(match kind {
            4 if suffix.is_empty() => Self::Link(ino),
            8 => {
                let dir = DirId(suffix.get(..16)?.try_into().ok()?);
                Self::LinkName(ino, dir, suffix.get(16..)?.to_vec())
            }
            _ => Self::LinkCold(ino, cold(kind, suffix)?),
        })
    }

    fn table(table: u8, rest: &[u8]) -> Option<Self> {
        let is = |t: Table| t as u8 == table;
        let ends = |len: usize| (rest.len() == len).then_some(());
        Some(if is(Table::Numbers) {
            ends(0).map(|()| Self::Numbers)?
        } else if is(Table::Stat) {
            ends(0).map(|()| Self::Stat)?
        } else if is(Table::Session) && rest.is_empty() {
            Self::SessionsHeard
        } else if is(Table::Session) {
            ends(8)?;
            Self::Session(SessionId(u64_at(rest, 0)?))
        } else if is(Table::Outcome) {
            ends(10)?;
            Self::Outcome(SessionId(u64_at(rest, 0)?), u16_at(rest, 8)?)
        } else if is(Table::Open) {
            ends(16)?;
            Self::Open(Ino(u64_at(rest, 0)?), SessionId(u64_at(rest, 8)?))
        } else if is(Table::Txn) {
            ends(8)?;
            Self::Txn(u64_at(rest, 0)?)
        } else if is(Table::Prepared) || is(Table::Finished) {
            ends(12)?;
            let txn = TxnId { shard: ShardIndex(u16_at(rest, 0)?), number: u64_at(rest, 2)? };
            let step = u16_at(rest, 10)?;
            if is(Table::Prepared) { Self::Prepared(txn, step) } else { Self::Finished(txn, step) }
        } else if is(Table::Floor) {
            ends(2)?;
            Self::Floor(ShardIndex(u16_at(rest, 0)?))
        } else if is(Table::Arrival) {
            ends(20)?;
            let partition = u32::from_be_bytes(rest[16..].try_into().ok()?);
            Self::Arrival(DirId(rest[..16].try_into().ok()?), PartitionIndex(partition))
        } else if is(Table::Garbage) {
            ends(16)?;
            Self::Garbage(ObjectId(u128::from_be_bytes(rest.try_into().ok()?)))
        } else if is(Table::Joined) {
            ends(2)?;
            Self::Joined(ShardIndex(u16_at(rest, 0)?))
        } else if is(Table::Lock) {
            ends(18)?;
            let ino = Ino(u64_at(rest, 2)?);
            if u16_at(rest, 0)? != ino.hash_slot().0 {
                return None;
            }
            Self::Lock(ino, SessionId(u64_at(rest, 10)?))
        } else if is(Table::Grant) {
            ends(10)?;
            Self::Grant(TxnId { shard: ShardIndex(u16_at(rest, 0)?), number: u64_at(rest, 2)? })
        } else if is(Table::Reader) {
            ends(8)?;
            Self::Reader(SessionId(u64_at(rest, 0)?))
        } else if is(Table::Shred) {
            Self::Shred(rest.to_vec())
        } else if is(Table::Owner) || is(Table::Incoming) {
            ends(2)?;
            let hash_slot = HashSlot(u16_at(rest, 0)?);
            if is(Table::Owner) { Self::Owner(hash_slot) } else { Self::Incoming(hash_slot) }
        } else {
            return None;
        })
    }
}

fn cold(kind: u8, suffix: &[u8]) -> Option<Cold> {
    match (kind, suffix.len()) {
        (5, 0) => Some(Cold::Xattr),
        (6, 0) => Some(Cold::Inline),
        (7, 8) => Some(Cold::Slice(u64_at(suffix, 0)?)),
        _ => None,
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Prefix of all rows of a directory on a shard.
pub fn dir_prefix(dir: DirId) -> Vec<u8> {
    keys::dir(dir, Kind::Content, 0)[..17].to_vec()
}

/// Prefix of all rows of one kind of a directory.
pub fn kind_prefix(dir: DirId, kind: Kind) -> Vec<u8> {
    keys::dir(dir, kind, 0)[..18].to_vec()
}

/// Prefix of all rows of a link inode.
pub fn link_prefix(ino: Ino) -> Vec<u8> {
    keys::link(ino, Kind::Entry)[..11].to_vec()
}

// A new kind or table fails to compile here. `parse` must know it, and some judge must check it.
const _: fn(Kind) = |kind| match kind {
    Kind::Content | Kind::DirXattr | Kind::Header | Kind::Entry => {}
    Kind::Xattr | Kind::Inline | Kind::Slice | Kind::LinkName | Kind::StagedHeader => {}
};
const _: fn(Table) = |table| match table {
    Table::Numbers | Table::Stat | Table::Session | Table::Outcome | Table::Open => {}
    Table::Txn | Table::Prepared | Table::Finished | Table::Floor => {}
    Table::Arrival | Table::Garbage | Table::Owner | Table::Incoming | Table::Joined => {}
    Table::Lock | Table::Shred | Table::Grant | Table::Reader => {}
};

// `parse` must agree with the schema's numbers.
const _: () = assert!(Kind::Content as u8 == 1 && Kind::DirXattr as u8 == 2);
const _: () = assert!(Kind::Header as u8 == 3 && Kind::Entry as u8 == 4 && Kind::Xattr as u8 == 5);
const _: () =
    assert!(Kind::Inline as u8 == 6 && Kind::Slice as u8 == 7 && Kind::LinkName as u8 == 8);
const _: () = assert!(Kind::StagedHeader as u8 == 9);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_schema_is_known_and_a_longer_or_shorter_one_is_not() {
        let (dir, ino, session) = (DirId([9; 16]), Ino(77), SessionId(5));
        let txn = TxnId { shard: ShardIndex(2), number: 99 };
        let mut slice = keys::dir(dir, Kind::Slice, 48);
        slice.extend_from_slice(&7u64.to_be_bytes());
        let all = [
            (keys::dir(dir, Kind::Content, 0), Key::Content(dir)),
            (keys::dir(dir, Kind::DirXattr, 0), Key::DirXattr(dir)),
            (keys::dir(dir, Kind::Header, 16), Key::Header(dir, 16)),
            (keys::dir(dir, Kind::Entry, 48), Key::Entry(dir, 48)),
            (keys::dir(dir, Kind::Xattr, 48), Key::Cold(dir, 48, Cold::Xattr)),
            (keys::dir(dir, Kind::Inline, 48), Key::Cold(dir, 48, Cold::Inline)),
            (slice, Key::Cold(dir, 48, Cold::Slice(7))),
            (keys::link(ino, Kind::Entry), Key::Link(ino)),
            (keys::link(ino, Kind::Inline), Key::LinkCold(ino, Cold::Inline)),
            (keys::table(Table::Numbers), Key::Numbers),
            (keys::table(Table::Stat), Key::Stat),
            (keys::table(Table::Session), Key::SessionsHeard),
            (keys::session(session), Key::Session(session)),
            (keys::outcome(session, 3), Key::Outcome(session, 3)),
            (keys::open(ino, session), Key::Open(ino, session)),
            (keys::txn(4), Key::Txn(4)),
            (keys::prepared(txn, 1), Key::Prepared(txn, 1)),
            (keys::finished(txn, 1), Key::Finished(txn, 1)),
            (keys::floor(ShardIndex(3)), Key::Floor(ShardIndex(3))),
            (keys::arrival(dir, PartitionIndex(6)), Key::Arrival(dir, PartitionIndex(6))),
            (keys::owner(HashSlot(7)), Key::Owner(HashSlot(7))),
            (keys::incoming(HashSlot(7)), Key::Incoming(HashSlot(7))),
            (keys::dir(dir, Kind::StagedHeader, 0), Key::StagedHeader(dir)),
            (keys::garbage(ObjectId(8)), Key::Garbage(ObjectId(8))),
            (keys::lock(ino, session), Key::Lock(ino, session)),
            (keys::grant(txn), Key::Grant(txn)),
            (keys::reader(session), Key::Reader(session)),
        ];
        for (bytes, key) in all {
            assert_eq!(Key::parse(&bytes).as_ref(), Some(&key));
            let mut longer = bytes.clone();
            longer.push(1);
            assert_eq!(Key::parse(&longer), None, "{key:?}");
            assert_ne!(Key::parse(&bytes[..bytes.len() - 1]).as_ref(), Some(&key));
        }
        let name = keys::link_name(ino, dir, b"name");
        assert_eq!(Key::parse(&name), Some(Key::LinkName(ino, dir, b"name".to_vec())));
        assert_eq!(Key::parse(b""), None);
        assert_eq!(Key::parse(b"x"), None);
    }
}
