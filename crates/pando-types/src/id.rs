//! Types for ids and indexes. The compiler keeps a partition from being taken for a shard.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

index! {
    /// A metadata server of the volume. It never gets another number. 16 bits, since an [`Ino`]
    /// carries it.
    ShardIndex(u16)
}
index! {
    /// Hash slot: one of 2¹⁶ classes of directory ids (by their top bits) and inos (by a hash). One
    /// shard owns it.
    HashSlot(u16)
}
index! {
    /// Index `i` of a partition of one directory (GIGA+ §3.2). Below 2^[`Radix::MAX`].
    PartitionIndex(u32)
}
index! {
    /// Position in one shard's log: the number of insert groups logged so far, with this one. 0:
    /// before the first.
    Lsn(u64)
}
index! {
    /// Number of times a shard's log was opened. With an [`Lsn`] it names one log position for
    /// ever.
    Epoch(u64)
}
index! {
    /// A client's session, given out by shard 0 and never reused. 0 is no session. Its top bit is
    /// [`SessionId::is_local`].
    SessionId(u64)
}

impl SessionId {
    const LOCAL: u64 = 1 << 63;

    /// The session that begins with shard 0's transaction of this number, below 2⁶³.
    #[must_use]
    pub const fn new(number: u64, is_local: bool) -> Self {
        Self(if is_local { number | Self::LOCAL } else { number })
    }

    /// Number of the transaction with which it began.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 & !Self::LOCAL
    }

    /// Whether its client lives in the process of all shards, and ends when they do. For other
    /// sessions, shards keep records, to recognize a client that outlives a restart of the shard. A
    /// local session needs none.
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0 & Self::LOCAL != 0
    }
}

index! {
    /// The key by which a client connected. A session belongs to the key that opened it. 0 is
    /// [`KeyId::OWNER`].
    KeyId(u64)
}

impl KeyId {
    /// The volume's owner or root, in the shards' own process or over a Unix socket.
    pub const OWNER: Self = Self(0);
}

/// Depth `r` of a partition in its directory's split tree: the number of hash bits that select it
/// (GIGA+ §3.2).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Radix(pub u8);

impl Radix {
    /// Largest depth: 2²⁴ partitions in a directory.
    pub const MAX: Self = Self(24);
}

impl fmt::Display for Radix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Predictable id of a directory: a keyed hash of its birth triple (InfiniFS §3.3.1). It gives the
/// directory's hash slot and the keys of its records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct DirId(pub [u8; 16]);

impl DirId {
    /// The root of the tree. Its hash slot is 0.
    pub const ROOT: Self = Self([0; 16]);

    /// The hash slot: the top 16 bits. Its owner is the directory's home.
    #[must_use]
    pub const fn hash_slot(self) -> HashSlot {
        HashSlot(u16::from_be_bytes([self.0[0], self.0[1]]))
    }
}

impl fmt::Debug for DirId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirId({self})")
    }
}

impl fmt::Display for DirId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Inode number (`st_ino`): allocating shard (16 bits) ‖ counter (48 bits). Never reused. A
/// [`DirId`] may be born again, but with another ino. So the ino tells incarnations of a directory
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory: shard 0, counter 1. Linux programs expect ino 1 of a root.
    pub const ROOT: Self = Self(1);
    /// Number of bits of the counter.
    pub const COUNTER_BITS: u32 = 48;

    /// The ino that `shard` allocates for `counter`, which is below 2⁴⁸.
    #[must_use]
    pub const fn new(shard: ShardIndex, counter: u64) -> Self {
        assert!(counter < 1 << Self::COUNTER_BITS);
        Self(((shard.0 as u64) << Self::COUNTER_BITS) | counter)
    }

    /// The shard that allocated it. It need not be the shard that has the inode.
    #[must_use]
    pub const fn allocator(self) -> ShardIndex {
        ShardIndex((self.0 >> Self::COUNTER_BITS) as u16)
    }

    /// The hash slot. Its owner is the link shard. A multiplicative (Fibonacci) hash spreads
    /// neighbours.
    #[must_use]
    pub const fn hash_slot(self) -> HashSlot {
        HashSlot((self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16)
    }
}

impl fmt::Debug for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ino({:#x})", self.0)
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A name's place within its directory: its 58-bit hash, bit-reversed, then a 4-bit ordinal that
/// tells apart the rare names which share them. At most 62 bits are used, so that a `readdir`
/// position stays below 2⁶³.
///
/// Reversal makes every partition, and every half of one, one contiguous range:
/// partition (i, r) is `reverse58(i) << 4 .. (reverse58(i) + 2^(58-r)) << 4`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Order(pub u64);

impl Order {
    /// Bits of hash in an order.
    pub const HASH_BITS: u32 = 58;
    /// Bits of ordinal below them.
    pub const ORDINAL_BITS: u32 = 4;
    /// One past the largest order.
    pub const END: u64 = 1 << (Self::HASH_BITS + Self::ORDINAL_BITS);

    /// This order with ordinal 0. The search for a name begins there.
    #[must_use]
    pub const fn base(self) -> Self {
        Self(self.0 & !((1 << Self::ORDINAL_BITS) - 1))
    }

    /// The ordinal, 0 to 15.
    #[must_use]
    pub const fn ordinal(self) -> u8 {
        (self.0 & ((1 << Self::ORDINAL_BITS) - 1)) as u8
    }

    /// This hash with `ordinal`, which is below 16.
    #[must_use]
    pub const fn with_ordinal(self, ordinal: u8) -> Self {
        assert!(ordinal < 1 << Self::ORDINAL_BITS);
        Self(self.base().0 | ordinal as u64)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({:#018x})", self.0)
    }
}

/// A directory as requests name it: its id, and its incarnation. A mismatch of the ino is `ESTALE`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct DirRef {
    /// Id, by which its home is found.
    pub id: DirId,
    /// Ino, which tells incarnations apart.
    pub ino: Ino,
}

impl DirRef {
    /// The root directory.
    pub const ROOT: Self = Self { id: DirId::ROOT, ino: Ino::ROOT };
}

/// A transaction: the shard that coordinates it, and a number that this shard never reuses.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct TxnId {
    /// Its coordinator.
    pub shard: ShardIndex,
    /// Unique on that shard.
    pub number: u64,
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.shard, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ino_remembers_its_allocator() {
        let ino = Ino::new(ShardIndex(513), 7);
        assert_eq!(ino.allocator(), ShardIndex(513));
        assert_eq!(Ino::ROOT, Ino::new(ShardIndex(0), 1));
    }

    #[test]
    fn ordinals_share_their_base() {
        let order = Order(0x1230);
        assert_eq!(order.with_ordinal(9).base(), order);
        assert_eq!(order.with_ordinal(9).ordinal(), 9);
    }

    #[test]
    fn neighbouring_inos_spread_over_hash_slots() {
        let mut hash_slots: alloc::vec::Vec<_> =
            (0..64).map(|n| Ino::new(ShardIndex(0), n).hash_slot()).collect();
        hash_slots.sort_unstable();
        hash_slots.dedup();
        assert_eq!(hash_slots.len(), 64);
    }
}
