//! The beginning of a connection: which sides speak, and whether they may.
//!
//! ```text
//!  opening side                           accepting side
//!     | <== TLS: both prove their keys =====> |   over TCP; on a Unix socket the kernel tells the user
//!     | -- Hello (versions, role) ----------->|   other version, too few features, other volume, too many: Refused
//!     |<-- Challenge (volume, features) ------|
//!     |<-- Welcome ---------------------------|   from here on requests, or messages of shards
//! ```

use pando_types::{Epoch, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::limits::VERSION;

/// What this build can do beyond its protocol's version. Both sides use the lower level of the two.
/// Level 2: locks of programs, which move with hash slots.
pub const FEATURE_LEVEL: u32 = 2;
/// Lowest level that the other side must have. It rises when the code relies on a level. A mount or
/// shard that does not know of locks would ignore the locks of others.
pub const FEATURES_NEEDED: u32 = 2;
const _: () = assert!(FEATURES_NEEDED <= FEATURE_LEVEL, "each build speaks with its own kind");

/// First message of the side that opens a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Oldest frame version that it speaks.
    pub oldest: u8,
    /// Newest frame version that it speaks; this frame has it.
    pub newest: u8,
    /// Highest feature level.
    pub features: u32,
    /// The volume that it wants; zero for any.
    pub volume: [u8; 16],
    /// What the connection is for.
    pub role: Role,
    /// Serials of revoked keys, from a server that opens the connection. If there are
    /// [`REVOKED_MAX`](crate::REVOKED_MAX), more follow at once. Other sides tell none, and are not
    /// believed.
    pub revoked: Vec<[u8; 16]>,
}

impl Hello {
    /// A greeting with this build's versions.
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
    /// Messages to one shard from the shards of another process, which are listed.
    Peer(ShardIndex, Vec<Hosting>),
    /// Questions about the volume ([`Ask`](crate::Ask)).
    Tool,
}

/// Which process hosts a shard. Of two such statements the one with the higher epoch holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hosting {
    /// The shard.
    pub shard: ShardIndex,
    /// Epoch of its log: the number of the shard's start.
    pub epoch: Epoch,
    /// Id of the machine and the network namespace of the process. Unix sockets lead there only
    /// from processes with this id.
    pub host: [u8; 16],
    /// Addresses of the process, best first, as [`crate::Address`] writes them.
    pub addresses: Vec<String>,
}

/// The answer to [`Hello`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Challenge {
    /// The volume's id.
    pub volume: [u8; 16],
    /// Feature level of this connection.
    pub features: u32,
}

/// The connection may be used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Epoch of the shard that was asked for; 0 for a tool.
    pub epoch: Epoch,
    /// Most pending requests on this connection. Beyond them the server stops reading.
    pub in_flight: u32,
    /// All hosts that this side knows.
    pub hosts: Vec<Hosting>,
    /// Serials of revoked keys, authorities included. If there are
    /// [`REVOKED_MAX`](crate::REVOKED_MAX), more follow at once.
    pub revoked: Vec<[u8; 16]>,
}

/// Why the connection may not be used. It is closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Refused {
    /// The sides have no version in common.
    #[error(
        "the server speaks versions {oldest} to {newest} of the protocol, this program {}: use programs of the same version",
        VERSION
    )]
    Version {
        /// Oldest version that the server speaks.
        oldest: u8,
        /// Newest version that the server speaks.
        newest: u8,
    },
    /// The server has another volume.
    #[error("the server has another volume ({}): check the address", uuid(.0))]
    Volume([u8; 16]),
    /// The shard is not served there.
    #[error("shard {0} is not served there")]
    NotHere(ShardIndex),
    /// The client does not speak TLS.
    #[error("the server speaks TLS only over TCP: use a program of the same version, and a key")]
    Plaintext,
    /// A Unix socket is for root and for the owner of its folder.
    #[error("the server's socket is for its folder's owner and for root, not for user {0}")]
    NotOwner(u32),
    /// The key does not allow it.
    #[error("this key may not do that: {0}")]
    Key(String),
    /// The server has as many connections as it accepts.
    #[error(
        "the server has as many connections as it takes ({0}): close some, or raise its --max-connections"
    )]
    Full(u32),
    /// The key has as many connections as it may.
    #[error(
        "this key has {0} connections to the server, as many as one key may have: end mounts that use it, give each machine a \
         key of its own (`pando auth add`), or raise the server's --max-connections"
    )]
    FullOfKey(u32),
    /// The key was accepted when the connection began, and is not valid any more.
    #[error("the server does not accept this key any more: {0}")]
    KeyEnded(String),
    /// The greeting was malformed, came out of turn, or took too long.
    #[error("the server did not understand the beginning of the connection: {0}")]
    Malformed(String),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// The client's feature level is too low.
    #[error(
        "the server needs programs of feature level {needed}, this one has level {found}: use a newer program"
    )]
    Features {
        /// Lowest level that the server demands.
        needed: u32,
        /// Level of the client.
        found: u32,
    },
}

/// An id in the form of a UUID.
#[must_use]
pub fn uuid(id: &[u8; 16]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}
