//! What a shard lends a session, and what the session sends back (docs/design/delegations.md).
//!
//! A *grant* is known by its generation: the id of a transaction that was never begun, or that made
//! the directory. So it is never used twice.

use alloc::vec::Vec;
use core::num::NonZeroU64;
use serde::{Deserialize, Serialize};

use crate::{DirRef, Epoch, Ino, KeyId, Order, PartitionIndex, SessionId, ShardIndex, TxnId};

/// What is lent as one: a partition of a directory, with the inodes of the files in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The directory.
    pub dir: DirRef,
    /// The partition.
    pub partition: PartitionIndex,
}

/// Numbers of inodes that a holder may give, each once, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inos {
    /// The first one that is not used.
    pub first: Ino,
    /// One past the last one.
    pub end: Ino,
}

/// What a session is told whose request for a part was granted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loan {
    /// The grant, by its generation.
    pub grant: TxnId,
    /// The partition that is lent.
    pub partition: PartitionIndex,
    /// Numbers of inodes that the holder may give.
    pub inos: Vec<Inos>,
    /// Most entries of the part: with more, it is returned and splits.
    pub entries_max: u64,
}

/// A directory that is lent to the session which makes it, as its home is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Birth {
    /// The grant: the transaction that makes the directory.
    pub grant: TxnId,
    /// The session.
    pub session: SessionId,
    /// The session's key.
    pub key: KeyId,
    /// The shard that lends. Another home makes the directory only.
    pub home: ShardIndex,
    /// Numbers of inodes that the holder may give.
    pub inos: Inos,
}

/// A directory that is lent to the session which has made it, as the session is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Born {
    /// The shard that lends it.
    pub home: ShardIndex,
    /// What is lent.
    pub loan: Loan,
    /// All its rows.
    pub page: LentPage,
}

/// The number of a session's `nth` request for a part of a shard, of which it knows the start
/// `epoch`. Another start of the shard takes none of it: it does not know which it has had.
#[must_use]
pub const fn request_number(epoch: Epoch, nth: u64) -> u64 {
    (epoch.0 << NTH_BITS) | (nth & ((1 << NTH_BITS) - 1))
}

/// The start of the shard to which a request for a part was sent.
#[must_use]
pub const fn request_epoch(number: u64) -> Epoch {
    Epoch(number >> NTH_BITS)
}

const NTH_BITS: u32 = 32;

/// Which rows of a lent part a holder reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LentRows {
    /// Those of the directory, the header and the entries, from this key on. The first page begins
    /// at an empty key.
    Part(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The xattrs and the data of the file at this order, from this key on. The first page begins
    /// at an empty key.
    File(Order, #[serde(with = "serde_bytes")] Vec<u8>),
}

/// A row of a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LentRow(
    /// Its key.
    #[serde(with = "serde_bytes")]
    pub Vec<u8>,
    /// Its value.
    #[serde(with = "serde_bytes")]
    pub Vec<u8>,
);

/// A page of rows of a part.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct LentPage {
    /// The rows, ascending by key.
    pub rows: Vec<LentRow>,
    /// The key at which the next page begins; empty: this is the last page.
    #[serde(with = "serde_bytes")]
    pub next: Vec<u8>,
    /// In the first page: what the session has open in the part.
    pub opens: Vec<PartOpen>,
}

/// That the holder has a file of its part open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartOpen {
    /// The file.
    pub ino: Ino,
    /// Order of its entry.
    pub order: Order,
    /// How often it is open.
    pub count: u32,
}

/// One change that a holder has made, or the last word of its grant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Element {
    /// The grant.
    pub grant: TxnId,
    /// Number within the grant: 1, 2, 3 …
    pub number: u64,
    /// What happened.
    pub act: Act,
}

/// What an element tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Act {
    /// A change, which the holder has answered.
    Change(Change),
    /// The holder gives the part back, and has these files of it open. `None`: it has never used
    /// the part, so what is recorded stands.
    Return(Option<Vec<PartOpen>>),
}

/// A change of a lent part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Credentials and operation, as [`Asked`](crate::requests::asked::Asked) encodes them. So the
    /// decoder of an element finds no operation in it, and cannot recurse.
    #[serde(with = "serde_bytes")]
    pub asked: Vec<u8>,
    /// Time by which the holder stamped it, nanoseconds since 1970.
    pub stamp: u64,
    /// The inode that it makes; 0: none.
    pub ino: Ino,
    /// Digest of the entries and headers that it wrote, without times.
    pub digest: u64,
    /// Number of amendments of the part on which it rests.
    pub after: u64,
}

/// That a request is made by the holder of the part which it changes. The holder has stopped to
/// answer from that part (docs/design/under-a-loan.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnderLoan {
    /// The grant of the part.
    pub grant: TxnId,
    /// Number of the next element.
    pub next: NonZeroU64,
    /// Number of amendments before the request.
    pub amendments: u64,
}

/// What a request under a loan has changed in the part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Amendment {
    /// The grant of the part.
    pub grant: TxnId,
    /// Rows that it wrote. A row without a value is one that it deleted: no record is empty.
    pub rows: Vec<LentRow>,
}

/// How far a grant has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrantState {
    /// All elements up to this number are applied, and no other.
    pub applied: u64,
    /// What becomes of later ones.
    pub standing: Standing,
    /// Numbers of inodes that the holder may give. What follows the first range counts once the
    /// shard is durable up to this answer.
    pub inos: Vec<Inos>,
}

/// What becomes of further elements of a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Standing {
    /// They are applied.
    Stands,
    /// The shard knows no such grant: it is over and forgotten, or belongs to another key.
    Unknown,
    /// An element was refused, or came to other rows than the holder's. Only a return is taken.
    Refused,
    /// The part was returned.
    Returned,
    /// The shard has taken the part back.
    Fenced,
    /// The transaction that makes the directory is not decided, as far as this shard knows. They
    /// are to be sent again.
    Awaited,
}

/// What a shard tells the holder of grants.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct GrantNews {
    /// Grants that the shard wants back, ascending by generation.
    pub recalled: Vec<TxnId>,
    /// Grants that are over, each with the number of elements that were applied.
    pub over: Vec<(TxnId, GrantState)>,
    /// Whether the holder may go on using its parts for [`HOLD`] from when it sent the question.
    /// The same holds for its read grants.
    pub prolongs: bool,
    /// Read grants that the shard wants back, ascending by generation. It is told of them until it
    /// names them as over (docs/design/read-grants.md).
    pub reads: Vec<TxnId>,
}

/// Number of the rules by which holders and shards run changes. It is raised when the same element
/// may come to other rows than before. Elements of other rules are not sent.
pub const RULES: u32 = 3;

/// How long a holder may use its parts of a shard without hearing from it, nanoseconds. It counts
/// from when it sent the [`Attend`](crate::op::Op::Attend) that was answered, by a clock that runs
/// while the machine sleeps.
pub const HOLD: u64 = 8_000_000_000;
