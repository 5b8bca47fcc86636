//! The contract between a shard and the shell around it.
//!
//! ```text
//!   input ──► handle(now, input, rows) ──► Effects { one insert group, messages out, next timer }
//! ```
//!
//! 1. The shell applies the insert group to the store at once, so that the next input sees it.
//! 2. It writes the log once for all inputs at hand.
//! 3. It releases each message when the log position that the message has seen satisfies its
//!    [`Need`].
//! 4. After each `handle` it calls again with [`Input::Ready`] while
//!    [`Shard::has_ready`](crate::Shard::has_ready).
//! 5. After [`Halt::Unreadable`] the shell calls [`Shard::begin_anew`](crate::Shard::begin_anew)
//!    before the next input. It does so, too, after it has dropped effects that it could not write.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_types::{Epoch, KeyId, Lsn, ShardIndex};

/// Where a reply goes, and the key by which the client came. Only the shell knows what the number
/// means. The shell vouches for the key: nothing in a request states it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientTag(pub u64, pub KeyId);

/// An input of a shard. Requests and peer messages are boxed: they take a quarter of a kilobyte,
/// and pass through many functions.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request of a client.
    Client(ClientTag, Box<Request>),
    /// A peer message.
    Peer(Box<Peer>),
    /// The time of [`Effects::wake_at`] has come. A tick at any other time does no harm.
    Tick,
    /// Work that waited inside the shard may go on.
    Ready,
}

impl Input {
    /// Trace of the request behind this input; 0: none.
    pub(crate) fn trace(&self) -> u64 {
        match self {
            Self::Client(_, request) => request.head.trace,
            Self::Peer(peer) => peer.trace,
            Self::Tick | Self::Ready => 0,
        }
    }
}

/// The moment at which an input is handled, and the state of the log and the disk.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Nanoseconds since any fixed moment. It never goes back while the shard runs. Timers use it.
    pub nanos: u64,
    /// Nanoseconds since 1970. Only timestamps in records and replies use it.
    pub wall: u64,
    /// Epoch of the log: the number of this start of the shard.
    pub epoch: Epoch,
    /// Position of the last group applied. This input sees all groups up to it.
    pub seen: Lsn,
    /// The log is durable up to this position.
    pub durable: Lsn,
    /// The disk has no room for requests that take space.
    pub is_full: bool,
    /// The disk has no room for any change: the reserve is used up, too.
    pub is_spent: bool,
}

impl Now {
    /// A moment for which one clock gives both times, and the disk has room.
    #[must_use]
    pub const fn at(nanos: u64, epoch: Epoch, seen: Lsn, durable: Lsn) -> Self {
        Self { nanos, wall: nanos, epoch, seen, durable, is_full: false, is_spent: false }
    }
}

/// Why an input could not be handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// A block of the store cannot be read. The input may have changed some of the shard's memory,
    /// so the shard must [begin anew](crate::Shard::begin_anew).
    Unreadable(String),
    /// A record in the store is invalid. The shard must stop.
    Broken(String),
}

/// A key with its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Read view of the store, with all groups applied so far.
pub trait Rows {
    /// The value of `key`, if there is one.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt>;
    /// Calls `see` with the value of `key`, if there is one. The store copies the value only if it
    /// must.
    fn view(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Halt> {
        if let Some(value) = self.get(key)? {
            see(&value);
        }
        Ok(())
    }
    /// Visits keys in ascending order, from `from` (included) to `to` (excluded), until `visit`
    /// returns false.
    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt>;
}

/// One change of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Sets `key` to a value.
    Put(Vec<u8>, Vec<u8>),
    /// Deletes `key`.
    Delete(Vec<u8>),
    /// Deletes all keys from the first (included) to the second (excluded).
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// How safe the log position that a message has seen must be before the message leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Acknowledged as the durability mode says: in mode `os` the kernel has the bytes, in mode
    /// `disk` they are synced.
    Committed,
    /// Durable. The shell syncs now.
    Synced,
    /// Durable, by whatever sync comes next.
    Durable,
}

/// A message that leaves the shard. Its content is boxed, as in [`Input`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// A reply to a client.
    Reply(ClientTag, Box<Reply>),
    /// A peer message to this shard.
    Peer(ShardIndex, Box<Peer>),
}

/// The effects of an input.
#[derive(Clone, Default, Debug)]
pub struct Effects {
    /// One insert group, in order; may be empty.
    pub writes: Vec<Write>,
    /// Messages that leave, each with its need.
    pub out: Vec<(Need, Out)>,
    /// The shell calls with [`Input::Tick`] at this time or soon after, nanoseconds.
    pub wake_at: Option<u64>,
    /// Written into the header of the log group.
    pub meta: GroupMeta,
}

/// What the header of a log group states, for replicas and change feeds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupMeta {
    /// The request that caused the group; zero for the shard's own work.
    pub request: pando_types::op::RequestId,
    /// Time of the input, nanoseconds since 1970.
    pub now: u64,
}

/// Configuration of a shard at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Index of this shard.
    pub shard: ShardIndex,
    /// Owners of hash slots, and the number of shards.
    pub map: ClusterMap,
    /// Hash secrets of the volume.
    pub secrets: Secrets,
    /// Number of entries above which a partition splits (GIGA+ §5: 8,000), less up to an eighth, by
    /// directory and partition.
    pub split_threshold: u64,
    /// Partitions per shard at which a directory stops splitting (M in GIGA+).
    pub partitions_per_shard: u16,
    /// Rows in a page of a split; above 0.
    pub split_page_rows: usize,
    /// Number of changed rows behind the cursor of a copy at which the range is closed, so that no
    /// more change; above 0. From a quarter of it on, every other page is of changes.
    pub split_dirty_rows: usize,
    /// Bytes of outcomes above which a move sends them in pages of this size, and not with its last
    /// message. One frame could not hold them. Above 0.
    pub outcome_bytes: usize,
    /// Bytes per second at which the copy of a hash slot is sent while that is open; above 0.
    /// Splits have no such limit, because they relieve a shard.
    pub handover_rate: u64,
    /// Time without an answer after which a message is sent again, nanoseconds.
    pub resend_after: u64,
    /// Time in the prepared state after which a participant asks the coordinator, nanoseconds.
    pub ask_after: u64,
    /// Time that a session lives without being renewed, nanoseconds.
    pub lease: u64,
    /// Numbers of inodes and of transactions that are reserved at a time; at least 2. Half a block
    /// must last from one sync of the log to the next. Syncs are at most a second apart, and 2
    /// million creates take longer.
    pub number_block: u64,
    /// Time that a version of a path waits for all shards to know it, nanoseconds. Then shard 0
    /// votes no with `EBUSY`, and the client asks anew. A shard that has just started waits as long
    /// for shard 0 to tell it earlier versions.
    pub versions_wait: u64,
    /// Time that a client's transaction waits for the next vote, nanoseconds; it waits three times
    /// as long for all votes. Then it is undone and refused with `EBUSY`, and the client asks anew.
    pub votes_wait: u64,
    /// Slices above which a file stays in its entry, because one frame could not hold them. A
    /// rename to another shard is refused with `EXDEV`, and programs then copy the file. A further
    /// name, and a removal while the file is open, are refused with `EFBIG`.
    pub moved_slices: usize,
    /// Slices above which a removed file loses its slices in steps, and slices per step; above 0. A
    /// step must fit into the log space that is kept for removals.
    pub shred_slices: usize,
    /// Whether the shard lends parts of directories (docs/design/delegations.md).
    pub lends: bool,
}

impl Config {
    /// Default configuration of one shard of a volume.
    #[must_use]
    pub fn new(shard: ShardIndex, map: ClusterMap, secrets: Secrets) -> Self {
        Self {
            shard,
            map,
            secrets,
            split_threshold: 8_000,
            partitions_per_shard: 1,
            split_page_rows: 128,
            split_dirty_rows: 4_096,
            outcome_bytes: 256 << 10,
            handover_rate: 32 << 20,
            resend_after: 200_000_000,
            ask_after: 1_000_000_000,
            lease: 60_000_000_000,
            number_block: 1 << 22,
            versions_wait: 10_000_000_000,
            votes_wait: 4_000_000_000,
            moved_slices: 200_000,
            shred_slices: 256,
            lends: false,
        }
    }
}

/// The shard that issues sessions, gives out versions, and lets directories move.
pub const SHARD_0: ShardIndex = ShardIndex(0);
