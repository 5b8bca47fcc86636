//! Values of all records. Each type fixes its version, and its decoder refuses any other version.

use alloc::string::String;
use alloc::vec::Vec;
use pando_types::lend::{Inos, Part, Standing};
use pando_types::op::{Place, RequestId};
use pando_types::peer::{Change, EntryValue, Inherit, Inode, Prepare, Tally};
use pando_types::reply::{Body, Delta, Refusal, Slice, Spread};
use pando_types::{
    Attr, DirId, DirRef, Ino, KeyId, LockSet, Name, PartitionIndex, Radix, SessionId, ShardIndex,
    Timestamp, TxnId, codec,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::contract::Halt;

pub use pando_types::peer::Floor;

/// A value type of the store with its own version.
pub trait Record: Serialize + DeserializeOwned {
    /// The version that is written, and the only one that is read.
    const VERSION: u8;

    /// The value's bytes in the store.
    fn encode(&self) -> Vec<u8> {
        codec::encode(Self::VERSION, self)
    }

    /// Decodes a value of the store. A value that cannot be decoded stops the shard; the error
    /// names the record's type.
    fn decode(bytes: &[u8]) -> Result<Self, Halt> {
        codec::decode(Self::VERSION, bytes).map_err(|why| {
            let name = core::any::type_name::<Self>();
            let name = name.rsplit("::").next().unwrap_or(name);
            Halt::Broken(alloc::format!("a record of kind {name} cannot be decoded: {why}"))
        })
    }
}

macro_rules! records {
    ($($name:ident = $version:literal;)*) => {
        $(impl Record for $name { const VERSION: u8 = $version; })*
    };
}

records! {
    Content = 1; Header = 1; Entry = 1; Inode = 1; Xattrs = 1; Slice = 1; LinkedName = 1;
    Numbers = 1; Stat = 1; SessionRecord = 3; SessionsHeard = 1; Outcome = 2; Open = 1; Decided = 3; Prepared = 5; Arriving = 2; Floor = 2;
    Owner = 1; Incoming = 1; LockSet = 1; Shred = 1;
    Grant = 2; Reader = 1;
}

/// A directory's own record, at its home.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Content {
    /// Attributes without the partitions' shares. `base.ino` is the directory's incarnation.
    pub base: Attr,
    /// Generation of the times that were set last. Partitions' times of older generations do not
    /// count.
    pub generation: u64,
    /// Parent directory; the root is its own parent.
    pub parent: DirRef,
    /// Name in the parent; the root has none.
    pub name: Option<Name>,
    /// Whether the directory is removed. The record stays until partitions on other shards are
    /// dropped.
    pub tombstone: bool,
}

/// Header of a partition, at its owner (GIGA+ §4.1).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Index of the partition.
    pub partition: PartitionIndex,
    /// Depth of the partition.
    pub radix: Radix,
    /// Incarnation of the directory.
    pub ino: Ino,
    /// Copies of the directory's mode, owner, group and project.
    pub inherit: Inherit,
    /// Number of names in the partition.
    pub entries: u64,
    /// Number of those names that are directories.
    pub subdirs: u64,
    /// Number of changes of names, ever.
    pub change: u64,
    /// Time of the newest change of names.
    pub mtime: Timestamp,
    /// Generation of the directory's times to which `mtime` belongs.
    pub generation: u64,
    /// The directory's spread over shards, fixed at its first split; `None` before that.
    pub spread: Option<Spread>,
}

impl Header {
    /// Range of the orders that the partition holds.
    #[must_use]
    pub fn range(&self) -> core::ops::Range<u64> {
        pando_placement::range(self.partition, self.radix)
    }

    /// The header after `child`, its upper half, is taken back: one depth less, with the sums of
    /// both counts. The `mtime` of an older generation is dropped, because a later `utimes` has
    /// overtaken it.
    #[must_use]
    pub fn with(&self, child: &Self) -> Self {
        let mtime = match self.generation.cmp(&child.generation) {
            core::cmp::Ordering::Greater => self.mtime,
            core::cmp::Ordering::Equal => self.mtime.max(child.mtime),
            core::cmp::Ordering::Less => child.mtime,
        };
        Self {
            radix: Radix(self.radix.0 - 1),
            entries: self.entries + child.entries,
            subdirs: self.subdirs + child.subdirs,
            change: self.change.wrapping_add(child.change),
            mtime,
            generation: self.generation.max(child.generation),
            ..self.clone()
        }
    }

    /// Whether it has not split since its birth, so that it can be given back to its parent.
    #[must_use]
    pub fn is_as_born(&self) -> bool {
        self.partition.0 > 0 && pando_placement::birth_radix(self.partition) == self.radix
    }

    /// The partition's share of the directory's attributes, for `stat`.
    #[must_use]
    pub fn delta(&self, shard: ShardIndex) -> Delta {
        Delta {
            partition: self.partition,
            radix: self.radix,
            shard,
            entries: self.entries,
            subdirs: self.subdirs,
            change: self.change,
            mtime: self.mtime,
            generation: self.generation,
        }
    }
}

/// An entry: the record of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// In the record of ordinal 0: whether other names of this order may exist. So one read finds
    /// that a name is absent.
    pub crowded: bool,
    /// The name and what it leads to. `None`: the name is vacant, and the record only says that
    /// others exist.
    pub is: Option<(Name, EntryValue)>,
}

impl Entry {
    /// The inode in the entry, if it leads to a file that has it there.
    #[must_use]
    pub const fn file(&self) -> Option<&Inode> {
        match &self.is {
            Some((_, EntryValue::File(inode))) => Some(inode),
            _ => None,
        }
    }

    /// Decodes like [`Record::decode`] an entry that is most likely that of `name`. The stored name
    /// is compared in place. `Ok`: it is the entry of `name`, with its value and whether it is
    /// crowded. `Err`: it is another entry.
    pub fn decode_of(name: &Name, bytes: &[u8]) -> Result<Result<(EntryValue, bool), Self>, Halt> {
        type Lying<'a> = (bool, Option<(&'a [u8], EntryValue)>);
        match codec::decode::<Lying<'_>>(Self::VERSION, bytes) {
            Ok((crowded, Some((found, value)))) if found == name.as_bytes() => {
                Ok(Ok((value, crowded)))
            }
            _ => Self::decode(bytes).map(Err),
        }
    }
}

/// Extended attributes of one inode or directory, sorted by name.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Xattrs(pub Vec<(Vec<u8>, Vec<u8>)>);

/// One name of a link inode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkedName {
    /// The directory that has the name.
    pub dir: DirRef,
    /// The name in that directory.
    pub name: Name,
}

/// Ends of the reserved blocks of numbers. All numbers below may have been used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    /// End of the block of counters of inos.
    pub inos: u64,
    /// End of the block of numbers of transactions and sessions.
    pub txns: u64,
}

/// Counts of a shard for statfs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Stat {
    /// Number of inodes on the shard.
    pub inodes: u64,
    /// Logical bytes of their data.
    pub bytes: u64,
}

/// A session, as a shard knows it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Root directory of a sub-tree mount; always the volume's root for now.
    pub root: DirRef,
    /// The key by which its client came, and to which it belongs. `None`: the session is over, and
    /// its key is not known.
    pub key: Option<KeyId>,
    /// Position of the session's end; `None`: it lives.
    pub over: Option<u64>,
}

/// How far a shard has heard of begins and ends of sessions (docs/design/sessions.md).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionsHeard {
    /// The shard has heard all begins and ends up to this position.
    pub position: u64,
    /// The highest number of a session that has begun by then.
    pub last: u64,
}

/// Outcome of the last changing request of a session's request slot; or only its floor: the
/// request's sequence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Sequence of the request.
    pub sequence: u64,
    /// The answer. `None`: only the floor came here, with a move.
    pub result: Option<Result<Body, Refusal>>,
    /// Directory and order of the name to which the outcome belongs, and with which it moves.
    pub at: Option<(DirId, u64)>,
}

impl Outcome {
    /// Encodes an outcome without taking the answer, which the caller still needs.
    #[must_use]
    pub fn encode_of(
        sequence: u64,
        result: &Result<Body, Refusal>,
        at: Option<(DirId, u64)>,
    ) -> Vec<u8> {
        // A tuple is encoded as a struct of equal fields is.
        codec::encode(Self::VERSION, &(sequence, Some(result), at))
    }
}

/// Where the records of an open inode are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OpenAt {
    /// In the entry at this order of this directory, on this shard.
    Name(DirId, u64),
    /// At its link shard, which is this shard.
    Link,
}

/// The record that a session has an inode open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open {
    /// Number of opens of the session.
    pub count: u32,
    /// Where the inode's records are.
    pub at: OpenAt,
}

/// A decided transaction, until all participants have finished.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// The operation, in words; for people.
    pub what: String,
    /// The request, for people and change feeds.
    pub request: RequestId,
    /// Steps that are yet to finish: number, shard, changes.
    pub steps: Vec<(u16, ShardIndex, Vec<Change>)>,
    /// Changes that follow when all steps have finished, each with its shard.
    pub then: Vec<(ShardIndex, Change)>,
    /// The first step number that is not used yet.
    pub next_step: u16,
}

/// A step to which this shard has voted yes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// Where the step applies.
    pub place: Place,
    /// What the coordinator asked of this shard.
    pub prepare: Prepare,
}

/// A partition on its way here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arriving {
    /// The transaction of the split or the merge.
    pub txn: TxnId,
    /// The directory, with its incarnation.
    pub dir: DirRef,
    /// Depth of the partition.
    pub radix: Radix,
    /// Number of pages taken; pages below this number are here.
    pub next_page: u64,
    /// Sums over the rows of these pages.
    pub tally: Tally,
}

/// A session that has read grants at this shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reader {
    /// The session's key.
    pub key: KeyId,
}

/// The owner of a hash slot that was handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// Number of times that the owner has changed.
    pub version: u32,
    /// The owner since the last change.
    pub owner: ShardIndex,
}

/// A hash slot on its way here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Incoming {
    /// The transaction of the handover.
    pub txn: TxnId,
    /// Version that the hash slot's owner will have.
    pub version: u32,
    /// Number of pages taken; pages below this number are here.
    pub next_page: u64,
    /// Sums over the rows of these pages.
    pub tally: Tally,
}

/// A removed file that loses its slices in steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shred {
    /// The removed file.
    pub ino: Ino,
    /// Where its records were.
    pub at: OpenAt,
}

/// A part of a directory that is lent to a session, or was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// The part.
    pub part: Part,
    /// The session that has it, or had it.
    pub session: SessionId,
    /// The session's key, also when the session is over.
    pub key: KeyId,
    /// Elements up to this number are applied.
    pub applied: u64,
    /// Number of amendments of the part, which requests of its holder have made.
    pub amended: u64,
    /// Numbers of inodes that further elements may give, ascending.
    pub inos: Vec<Inos>,
    /// What becomes of further elements.
    pub standing: Standing,
    /// When the grant was over, nanoseconds since 1970; 0: it is not.
    pub over_at: u64,
}

impl Grant {
    /// Whether the session has the part: nobody else may look at it.
    #[must_use]
    pub const fn is_lent(&self) -> bool {
        matches!(self.standing, Standing::Stands | Standing::Refused)
    }
}

/// Sessions that have an inode open, each with the number of its opens; for messages.
pub type Holders = Vec<(SessionId, u32)>;
