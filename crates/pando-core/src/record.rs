//! Values of all records. Each type fixes its version; a reader refuses any other.

use alloc::string::String;
use alloc::vec::Vec;
use pando_types::op::{Place, RequestId};
pub use pando_types::peer::Floor;
use pando_types::peer::{Change, EntryValue, Inherit, Inode, Prepare, Tally};
use pando_types::reply::{Body, Delta, Refusal, Slice, Spread};
use pando_types::{
    Attr, DirId, DirRef, Ino, KeyId, LockSet, Name, PartitionIndex, Radix, SessionId, ShardIndex,
    Timestamp, TxnId, codec,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::contract::Halt;

/// A type with a version of its own.
pub trait Record: Serialize + DeserializeOwned {
    /// Version written, and the only one read.
    const VERSION: u8;

    /// As it is stored.
    fn encode(&self) -> Vec<u8> {
        codec::encode(Self::VERSION, self)
    }

    /// From the store; what cannot be read stops the shard, naming the record.
    fn decode(bytes: &[u8]) -> Result<Self, Halt> {
        codec::decode(Self::VERSION, bytes).map_err(|why| {
            Halt::Broken(alloc::format!("a {} record: {why}", core::any::type_name::<Self>()))
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
}

/// A directory, at its home.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Content {
    /// Its attributes without the partitions' share; `base.ino` is its incarnation.
    pub base: Attr,
    /// Deltas of partitions count from this generation on.
    pub generation: u64,
    /// Parent; the root is its own.
    pub parent: DirRef,
    /// Name in it; the root has none.
    pub name: Option<Name>,
    /// Removed, and only here because partitions elsewhere are still to be dropped.
    pub tombstone: bool,
}

/// A partition, at its owner (GIGA+ §4.1).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Which partition.
    pub partition: PartitionIndex,
    /// Its depth.
    pub radix: Radix,
    /// Incarnation of the directory.
    pub ino: Ino,
    /// Copies of the directory's mode, owner, group, project.
    pub inherit: Inherit,
    /// Names in it.
    pub entries: u64,
    /// Of those, directories.
    pub subdirs: u64,
    /// Changes of names, ever.
    pub change: u64,
    /// Newest change of names.
    pub mtime: Timestamp,
    /// Generation of `mtime`.
    pub generation: u64,
    /// Fixed at the directory's first split.
    pub spread: Option<Spread>,
}

impl Header {
    /// Orders it holds.
    #[must_use]
    pub fn range(&self) -> core::ops::Range<u64> {
        pando_placement::range(self.partition, self.radix)
    }

    /// With `child`, its upper half, taken back: one depth less, and all that both count. Times of
    /// an older generation were overtaken when times were set.
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

    /// As `stat` needs it.
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

/// A name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// In the record of ordinal 0: whether others of the same order may exist. So one read finds
    /// that a name is absent.
    pub crowded: bool,
    /// What it is; `None`: vacant, and only there because it is crowded.
    pub is: Option<(Name, EntryValue)>,
}

impl Entry {
    /// As [`Record::decode`], of an entry that most likely is that of `name`: then its name is
    /// compared where it lies, and what it leads to is told, and whether it is crowded.
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

/// A name of a link inode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkedName {
    /// Incarnation of its directory.
    pub dir: DirRef,
    /// The name.
    pub name: Name,
}

/// Blocks of numbers: those below are spoken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    /// Counters of inos.
    pub inos: u64,
    /// Numbers of transactions and sessions.
    pub txns: u64,
}

/// For statfs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Stat {
    /// Inodes here.
    pub inodes: u64,
    /// Logical bytes of their data.
    pub bytes: u64,
}

/// A session.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Root directory of a sub-tree mount (DESIGN §12); the root for now.
    pub root: DirRef,
    /// By which key its client came: what it belongs to. `None` where it is over, and that is not
    /// known.
    pub key: Option<KeyId>,
    /// It is over: the position of its end.
    pub over: Option<u64>,
}

/// How much a shard has heard of sessions (docs/design/sessions.md).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionsHeard {
    /// All begins and ends up to this position.
    pub position: u64,
    /// The highest number of a session that has begun by then.
    pub last: u64,
}

/// Outcome of the last changing request of a session's slot, or, as a mere floor, its sequence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Its sequence.
    pub sequence: u64,
    /// What was answered; `None` where only the floor came here, with a split.
    pub result: Option<Result<Body, Refusal>>,
    /// The name it belongs to: it moves along with it.
    pub at: Option<(DirId, u64)>,
}

impl Outcome {
    /// An outcome as it is stored, of an answer that is still needed.
    #[must_use]
    pub fn encode_of(
        sequence: u64,
        result: &Result<Body, Refusal>,
        at: Option<(DirId, u64)>,
    ) -> Vec<u8> {
        // A tuple is encoded as a struct of the same fields is.
        codec::encode(Self::VERSION, &(sequence, Some(result), at))
    }
}

/// Where an open inode is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OpenAt {
    /// In this entry.
    Name(DirId, u64),
    /// Here, as a link inode.
    Link,
}

/// An inode that a session has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Open {
    /// How often.
    pub count: u32,
    /// Where the inode is.
    pub at: OpenAt,
}

/// A decided transaction, until all participants have finished.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// Of which operation, in words; for people.
    pub what: String,
    /// The request, for people and feeds.
    pub request: RequestId,
    /// Steps yet to finish: number, shard, changes.
    pub steps: Vec<(u16, ShardIndex, Vec<Change>)>,
    /// What follows when those have finished: shard, change.
    pub then: Vec<(ShardIndex, Change)>,
    /// The first step number not used yet.
    pub next_step: u16,
}

/// A step that this shard has voted yes to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prepared {
    /// Where.
    pub place: Place,
    /// What.
    pub prepare: Prepare,
}

/// A partition on its way here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arriving {
    /// The split, or the merge.
    pub txn: TxnId,
    /// Incarnation of the directory.
    pub dir: DirRef,
    /// Its depth.
    pub radix: Radix,
    /// Pages below this are here.
    pub next_page: u64,
    /// What their rows add up to.
    pub tally: Tally,
}

/// Who owns a slot that was handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// How often it has changed its owner.
    pub version: u32,
    /// Since then.
    pub owner: ShardIndex,
}

/// A slot on its way here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Incoming {
    /// The handover.
    pub txn: TxnId,
    /// The slot's version, as it will be.
    pub version: u32,
    /// Pages below this are here.
    pub next_page: u64,
    /// What their rows add up to.
    pub tally: Tally,
}

/// What is left of a removed file: its slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shred {
    /// The file that was.
    pub ino: Ino,
    /// Where it was.
    pub at: OpenAt,
}

/// Who has what open, for messages.
pub type Holders = Vec<(SessionId, u32)>;
