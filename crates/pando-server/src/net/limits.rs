//! How much others may ask of this process.

use std::time::Duration;

use pando_types::SHARDS_MAX;

/// Limits of a server process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at once with keys of clients; beyond them new ones are refused. The volume's own
    /// (servers, administrators, the folder's owner) may be as many besides.
    pub connections: u32,
    /// Connections at once with one client's key.
    pub connections_of_key: u32,
    /// Requests under way on one connection; beyond them it is read no further.
    pub in_flight: u32,
    /// Bytes of replies that wait on one connection, or that requests under way may bring about;
    /// beyond them it is read no further.
    pub replies: usize,
    /// Bytes of replies that wait on one connection beyond which it is cut off: only a client that
    /// asks for much at once and takes none of it comes there.
    pub replies_cut: usize,
    /// Bytes that wait on all connections of clients together: frames that are not whole, requests
    /// not answered, replies not taken. Beyond them, who holds more than his part (this, by
    /// `connections`) is read no further, and cut off if it is a frame.
    pub memory: usize,
    /// The same for connections on which shards speak: frames that are not whole. Apart from the
    /// former, since what they say lets clients' requests end.
    pub peer_memory: usize,
    /// Who takes none of the replies that wait for it for this long is cut off.
    pub stall: Duration,
    /// Bytes of messages to one shard of another process that wait; beyond them messages are
    /// dropped, and said again.
    pub link: usize,
}

/// Connections at once.
const CONNECTIONS: u32 = 4096;

impl Limits {
    /// How many of so many connections one key may have: an eighth, but enough for a mount, which
    /// has one a shard.
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

/// Longest frame of a client: a request with its longest name, value or inline data is far below.
pub(super) const CLIENT_FRAME_MAX: u32 = 1 << 20;
/// Longest frame of a tool: a question with a key or some addresses is far below.
pub(super) const TOOL_FRAME_MAX: u32 = 64 << 10;
