//! The contract between a shard and the shell around it (DESIGN §2).
//!
//! ```text
//!   input ──► handle(now, input, rows) ──► Effects { one insert group, messages out, next timer }
//! ```
//!
//! The shell applies the insert group to the store at once, so that the next input sees it; writes
//! the log once for all inputs at hand; and lets each message out when the log position it has seen
//! satisfies its [`Need`]. After every `handle` it calls again with [`Input::Ready`] while
//! [`Shard::has_ready`](crate::Shard::has_ready).
//!
//! A shard that answers [`Halt::NotResident`] has changed nothing: the shell fetches the block and
//! runs the same input again. One that answers [`Halt::Unreadable`] is told to begin anew before
//! the next input, and so is one whose effects the shell cannot write: it has dropped them then.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use pando_placement::{ClusterMap, Secrets};
use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_types::{Epoch, KeyId, Lsn, ShardIndex};

/// Where a reply goes, which means something to the shell only; and by which key the client came
/// that asks. The shell vouches for the key: nothing in a request says it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientTag(pub u64, pub KeyId);

/// What happens to a shard. Requests and messages are boxed: they pass through many hands, and are
/// a quarter of a kilobyte.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client asks.
    Client(ClientTag, Box<Request>),
    /// Another shard speaks.
    Peer(Box<Peer>),
    /// The time that [`Effects::wake_at`] named has come (or any other: it does no harm).
    Tick,
    /// Something that waited may go on.
    Ready,
}

impl Input {
    /// Trace of the request that it is, or comes from; 0: of none.
    pub(crate) fn trace(&self) -> u64 {
        match self {
            Self::Client(_, request) => request.head.trace,
            Self::Peer(peer) => peer.trace,
            Self::Tick | Self::Ready => 0,
        }
    }
}

/// The moment an input is handled.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Nanoseconds since any fixed moment, never going back while the shard runs: what timers go
    /// by.
    pub nanos: u64,
    /// Nanoseconds since 1970: what records and answers are stamped with, and nothing else goes by.
    pub wall: u64,
    /// The log's epoch.
    pub epoch: Epoch,
    /// Position of the last group applied: what this input can see.
    pub seen: Lsn,
    /// Everything up to here is durable.
    pub durable: Lsn,
    /// There is no room for a change that takes any.
    pub is_full: bool,
    /// There is none for any change at all: the reserve is used up, too.
    pub is_spent: bool,
}

impl Now {
    /// Where one clock says both, and there is room.
    #[must_use]
    pub const fn at(nanos: u64, epoch: Epoch, seen: Lsn, durable: Lsn) -> Self {
        Self { nanos, wall: nanos, epoch, seen, durable, is_full: false, is_spent: false }
    }
}

/// A block that is not in memory; the shell knows what to fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotResident(pub u64);

/// Why an input could not be handled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// Fetch this and run the input again.
    NotResident(NotResident),
    /// A block of the store cannot be read. What of the shard's memory the input had changed by
    /// then is not known: it must [begin anew](crate::Shard::begin_anew).
    Unreadable(String),
    /// The store holds what it cannot hold. The shard must stop.
    Broken(String),
}

/// A key with its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Read view of the store.
pub trait Rows {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt>;
    /// Shows the value of `key`, if there is one, without copying it where that can be.
    fn view(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Halt> {
        if let Some(value) = self.get(key)? {
            see(&value);
        }
        Ok(())
    }
    /// Visits keys from `from` up to, not including, `to`, ascending, until `visit` answers false.
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
    /// `key` has this value.
    Put(Vec<u8>, Vec<u8>),
    /// `key` is gone.
    Delete(Vec<u8>),
    /// All keys from the first up to, not including, the second are gone.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// When a message may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// When what it has seen is acknowledged in the sense of the durability mode (`os`: with the
    /// kernel; `disk`: fsynced).
    Committed,
    /// When what it has seen is fsynced; the shell syncs now.
    Synced,
    /// When what it has seen is fsynced, by whatever sync comes next.
    Durable,
}

/// A message out, boxed as those in are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// To a client.
    Reply(ClientTag, Box<Reply>),
    /// To another shard.
    Peer(ShardIndex, Box<Peer>),
}

/// What came of an input.
#[derive(Clone, Default, Debug)]
pub struct Effects {
    /// One insert group, in order; may be empty.
    pub writes: Vec<Write>,
    /// Messages, each with its need.
    pub out: Vec<(Need, Out)>,
    /// Call with [`Input::Tick`] at this time, nanoseconds, or soon after.
    pub wake_at: Option<u64>,
    /// Goes into the log group's header: session and sequence of the request, when it was one, and
    /// the time.
    pub meta: GroupMeta,
}

/// What a log group says of itself, for replicas and feeds to come (DESIGN §12).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupMeta {
    /// The request that caused it; zero for the shard's own work.
    pub request: pando_types::op::RequestId,
    /// Time of the input, nanoseconds.
    pub now: u64,
}

/// What a shard is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which shard this is.
    pub shard: ShardIndex,
    /// Who owns which slot.
    pub map: ClusterMap,
    /// Hash secrets of the volume.
    pub secrets: Secrets,
    /// Entries beyond which a partition splits (GIGA+ §5: 8,000).
    pub split_threshold: u64,
    /// Partitions a shard at which a directory stops splitting (M).
    pub partitions_per_shard: u16,
    /// Rows in a page of a split; above 0.
    pub split_page_rows: usize,
    /// Changes to rows already copied beyond which a splitting half is closed, so that no more
    /// come; above 0. From a quarter of it on they are sent before the copy goes on.
    pub split_dirty_rows: usize,
    /// Outcomes of requests beyond which, bytes, those that go with a split or handover are sent in
    /// pages of so many, and not with its last message: no frame would hold them; above 0.
    pub outcome_bytes: usize,
    /// Bytes a second at which a slot that is handed over is copied while it is open; above 0.
    /// Splits are not held up: they are to relieve somebody.
    pub handover_rate: u64,
    /// Resend after this long without an answer, nanoseconds.
    pub resend_after: u64,
    /// Ask a coordinator after being prepared for this long, nanoseconds.
    pub ask_after: u64,
    /// How long a session lives without being renewed, nanoseconds.
    pub lease: u64,
    /// Numbers of inodes and of transactions are reserved so many at a time; at least 2. Half of
    /// them must last from one sync of the log to the next: 4 million creates take seconds, a sync
    /// at most one.
    pub number_block: u64,
    /// A directory's rename, or change of permissions, waits so long for all shards to know of it,
    /// then is refused with `EBUSY`, to be asked anew; and so long a shard that has just started
    /// waits for shard 0 to tell it of earlier ones, nanoseconds.
    pub versions_wait: u64,
    /// A transaction waits so long for the next vote, and three times as long for all of them; then
    /// it is undone, and refused with `EBUSY`, to be asked anew, nanoseconds.
    pub votes_wait: u64,
    /// Slices beyond which a file does not leave its entry: no frame would hold them. Moves of its
    /// name to another shard are refused with `EXDEV`, upon which programs copy it; so is another
    /// name for it, and a removal while it is open, with `EFBIG`.
    pub moved_slices: usize,
    /// A removed file of more slices loses them in steps of so many: a step must fit into the log
    /// that is kept for removals. Above 0.
    pub shred_slices: usize,
}

impl Config {
    /// Defaults for one shard of a volume.
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
        }
    }
}
