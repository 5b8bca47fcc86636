//! How much others may ask of this process.

use std::time::Duration;

use pando_types::SHARDS_MAX;

/// Limits of a server process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once with keys of clients. Further ones are refused. Trusted keys (servers,
    /// administrators, the folder's owner) may have as many besides.
    pub connections: u32,
    /// Connections at once with one client's key.
    pub connections_of_key: u32,
    /// Requests on one connection that are not answered. Beyond them it is read no further.
    pub in_flight: u32,
    /// Bytes of replies on one connection: those that wait, and those that unanswered requests may
    /// cause. Beyond them it is read no further.
    pub replies: usize,
    /// Bytes of replies that wait on one connection. Beyond them it is cut off: only a client that
    /// asks for much at once, and takes none of it, comes there.
    pub replies_cut: usize,
    /// Bytes that wait on all connections of clients together: unfinished frames, unanswered
    /// requests, untaken replies. Beyond them, a connection that holds more than its part is read
    /// no further. If it holds only an unfinished frame, it is cut off. A part is this limit
    /// divided by `connections`.
    pub memory: usize,
    /// Bytes of unfinished frames on all connections of peers together. Peers have a limit of their
    /// own, since requests of clients wait for what peers say.
    pub peer_memory: usize,
    /// A connection is cut off if replies wait on it for this long, and none is taken.
    pub stall: Duration,
    /// Bytes of messages that wait on the link to one shard of another process. Beyond them
    /// messages are dropped: shards send them again.
    pub link: usize,
}

/// Connections at once.
const CONNECTIONS: u32 = 4096;

impl Limits {
    /// Share of one key in so many connections: an eighth, but enough for a mount, which has one
    /// for each shard.
    #[must_use]
    pub const fn of_key(connections: u32) -> u32 {
        let eighth = connections / 8;
        if eighth > SHARDS_MAX as u32 { eighth } else { SHARDS_MAX as u32 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            connections_of_key: Self::of_key(CONNECTIONS),
            in_flight: 1024,
            replies: 1 << 20,
            replies_cut: 8 << 20,
            memory: 256 << 20,
            peer_memory: 256 << 20,
            stall: Duration::from_secs(60),
            link: 8 << 20,
        }
    }
}

/// Longest frame of a client, bytes. A request with its longest name, value or inline data is far
/// below.
pub(crate) const CLIENT_FRAME_MAX: u32 = 1 << 20;
/// Longest frame of a tool, bytes. A question with a key or some addresses is far below.
pub(crate) const TOOL_FRAME_MAX: u32 = 64 << 10;
