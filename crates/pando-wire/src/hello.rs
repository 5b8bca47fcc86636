//! The beginning of a connection: who speaks with whom, and whether they may.
//!
//! ```text
//!  who opens                              who accepts
//!     | <== TLS: both prove their keys =====> |   over TCP; on a Unix socket the kernel says who comes
//!     | -- Hello (versions, role) ----------->|   other version, too few features, other volume, too many: Refused
//!     |<-- Challenge (volume, features) ------|
//!     |<-- Welcome ---------------------------|   from here on requests, or messages of shards
//! ```

use std::ops::Range;

use pando_placement::{ClusterMap, Secrets};
use pando_types::op::ObjectId;
use pando_types::watch::{Settled, Watching};
use pando_types::{Epoch, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::moving::{Census, MoveAsk, MoveToken, MoveTold, Moving};
use crate::{Message, VERSION};

/// What this build can do beyond its protocol's version; both sides use the lower of theirs. 2:
/// locks of programs, which move with slots.
pub const FEATURE_LEVEL: u32 = 2;
/// Least that the other side must be able to. It rises when what a level brought is relied on: a
/// mount or shard that knows nothing of locks would let programs pass whom they keep out.
pub const FEATURES_NEEDED: u32 = 2;
const _: () = assert!(FEATURES_NEEDED <= FEATURE_LEVEL, "each build speaks with its own kind");

/// First word of the side that opens a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Oldest frame version it speaks.
    pub oldest: u8,
    /// Newest frame version it speaks; this frame's.
    pub newest: u8,
    /// Highest feature level.
    pub features: u32,
    /// Which volume is meant; zero: whichever there is.
    pub volume: [u8; 16],
    /// As what it comes.
    pub role: Role,
    /// Serials of keys that are revoked, as far as a server knows that opens the connection. If
    /// they are [`REVOKED_MAX`](crate::REVOKED_MAX), more follow at once. Others say none, and are
    /// not believed.
    pub revoked: Vec<[u8; 16]>,
}

impl Hello {
    /// With this build's versions.
    #[must_use]
    pub const fn new(volume: [u8; 16], role: Role, revoked: Vec<[u8; 16]>) -> Self {
        Self { oldest: VERSION, newest: VERSION, features: FEATURE_LEVEL, volume, role, revoked }
    }
}

/// What a connection is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Requests to one shard.
    Client(ShardIndex),
    /// Messages to one shard from the shards of another process, which are these.
    Peer(ShardIndex, Vec<Hosting>),
    /// Questions about the volume ([`Ask`]).
    Tool,
}

/// Which process hosts a shard. Of two, that with the higher epoch is the truth.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hosting {
    /// The shard.
    pub shard: ShardIndex,
    /// Epoch of its log: how often it was started.
    pub epoch: Epoch,
    /// Which machine, and which network on it, the process is in: Unix sockets lead there only from
    /// the same.
    pub host: [u8; 16],
    /// Where it listens, best first, as [`crate::Address`] writes them.
    pub addresses: Vec<String>,
}

/// Answer to [`Hello`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Challenge {
    /// Which volume this is.
    pub volume: [u8; 16],
    /// Feature level of this connection.
    pub features: u32,
}

/// The connection may be used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Epoch of the shard that was asked for; 0 for a tool.
    pub epoch: Epoch,
    /// Requests that may be under way on this connection; beyond them the server stops to read.
    pub in_flight: u32,
    /// All hosts this side knows.
    pub hosts: Vec<Hosting>,
    /// Serials of keys that are revoked, authorities included. If they are
    /// [`REVOKED_MAX`](crate::REVOKED_MAX), more follow at once.
    pub revoked: Vec<[u8; 16]>,
}

/// The connection may not be used, and is closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Refused {
    /// No common version.
    #[error(
        "the server speaks versions {oldest} to {newest} of the protocol, this program {}: use programs of the same version",
        VERSION
    )]
    Version {
        /// Oldest it speaks.
        oldest: u8,
        /// Newest it speaks.
        newest: u8,
    },
    /// Another volume.
    #[error("the server has another volume ({}): check the address", uuid(.0))]
    Volume([u8; 16]),
    /// The shard is not served there.
    #[error("shard {0} is not served there")]
    NotHere(ShardIndex),
    /// It does not speak TLS.
    #[error("the server speaks TLS only over TCP: use a program of the same version, and a key")]
    Plaintext,
    /// A Unix socket is for root and for the owner of the folder that it is in.
    #[error("the server's socket is for its folder's owner and for root, not for user {0}")]
    NotOwner(u32),
    /// The key does not allow it.
    #[error("this key may not do that: {0}")]
    Key(String),
    /// A limit is reached.
    #[error(
        "the server has as many connections as it takes ({0}): close some, or raise its --max-connections"
    )]
    Full(u32),
    /// One key has as many connections as it may.
    #[error(
        "this key has {0} connections to the server, as many as one key may have: end mounts that use it, give each machine a \
         key of its own (`pando auth add`), or raise the server's --max-connections"
    )]
    FullOfKey(u32),
    /// The key was accepted when the connection began, and is not any more.
    #[error("the server does not accept this key any more: {0}")]
    KeyEnded(String),
    /// It came out of turn, or took too long.
    #[error("the server did not understand the beginning of the connection: {0}")]
    Malformed(String),
    /// It is about to end.
    #[error("the server is stopping")]
    Stopping,
    /// Too little in common.
    #[error(
        "the server needs programs of feature level {needed}, this one has level {found}: use a newer program"
    )]
    Features {
        /// Least that the server demands.
        needed: u32,
        /// What the other side has.
        found: u32,
    },
}

/// An identity in the form of a UUID.
#[must_use]
pub fn uuid(id: &[u8; 16]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// A tool's question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// What must be known of the volume to use it.
    Volume,
    /// Who hosts what.
    Hosts,
    /// What the process and its shards are doing: JSON.
    Status,
    /// Records of a shard in key order, from a key on, up to about so many bytes.
    Scan {
        /// Which shard; must be hosted there.
        shard: ShardIndex,
        /// First key.
        from: Vec<u8>,
        /// Bytes, at most [`crate::SCAN_MAX`]; at least one record comes if there is one.
        bytes: u32,
    },
    /// Stop the process; taken from a Unix socket only.
    Stop,
    /// What a server with a folder of its own must have: the volume's superblock.
    Superblock,
    /// What some directories of a shard add up to, from a key on.
    Census(ShardIndex, Vec<u8>),
    /// Shards that are on their way here, or from here.
    Moves,
    /// Take a shard over from the process that serves it, at no more than so many bytes a second.
    Adopt(ShardIndex, u64),
    /// From the process that takes a shard over.
    Move(ShardIndex, MoveToken, MoveAsk),
    /// Make an empty shard of this number, and serve it.
    Found(ShardIndex),
    /// A shard begins to watch what files come to name, for the collection of this number.
    Watch(ShardIndex, u64),
    /// What it has seen, from an object on.
    Settle(ShardIndex, u64, ObjectId),
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Told {
    /// To [`Ask::Volume`].
    Volume(Box<VolumeFacts>),
    /// To [`Ask::Hosts`].
    Hosts(Vec<Hosting>),
    /// To [`Ask::Status`].
    Json(String),
    /// To [`Ask::Scan`].
    Rows {
        /// Keys with their values.
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        /// Whether there is nothing beyond.
        is_last: bool,
    },
    /// To [`Ask::Stop`].
    Stopping,
    /// It could not be done.
    Failed(String),
    /// To [`Ask::Superblock`].
    Superblock {
        /// The file.
        file: Vec<u8>,
        /// Where file data is: a path on the server's host.
        objects: String,
    },
    /// To [`Ask::Census`].
    Census(Census),
    /// To [`Ask::Moves`].
    Moves(Vec<Moving>),
    /// To [`Ask::Adopt`]: it has begun, or had.
    Adopting,
    /// To [`Ask::Move`].
    Move(MoveTold),
    /// To [`Ask::Found`]: it is there.
    Founded,
    /// To [`Ask::Watch`].
    Watching(Watching),
    /// To [`Ask::Settle`].
    Settled(Settled),
    /// To [`Ask::Scan`]: what comes next cannot be read.
    Gap {
        /// Where records may be again.
        keys: Range<Vec<u8>>,
        /// In words, with the name of the file.
        why: String,
    },
}

/// What must be known of a volume to use it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// Its identity.
    pub id: [u8; 16],
    /// Its hash secrets.
    pub secrets: Secrets,
    /// Who owns which slot.
    pub map: ClusterMap,
    /// Where file data is: a path on the server's host.
    pub objects: String,
    /// The server's host, as in [`Hosting::host`].
    pub host: [u8; 16],
    /// Who hosts what.
    pub hosts: Vec<Hosting>,
}

impl From<Hello> for Message {
    fn from(hello: Hello) -> Self {
        Self::Hello(hello)
    }
}
