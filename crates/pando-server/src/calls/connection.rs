//! What connects shards with the world beyond this process: where replies go, and how shards of
//! other processes are reached.

use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_types::{KeyId, ShardIndex};

/// Identifies a request of a connection, and counts what it holds until it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Number by which the client recognizes the reply.
    pub stream: u64,
    /// Memory that the request holds, bytes.
    pub bytes: u32,
    /// Largest size of its reply, bytes.
    pub reply: u32,
}

/// The sending half of a connection from a client. The thread that ran the shard calls it. It never
/// waits.
pub trait ReplySink: Send + Sync {
    /// Key by which the client came.
    fn key(&self) -> KeyId;
    /// Takes the reply to a request. `None`: there will be none. Answers true if the caller must
    /// call [`ReplySink::flush`]; false if an earlier call has answered true and its flush is still
    /// to come.
    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool;
    /// Sends the replies that were taken.
    fn flush(&self);
}

/// Links to shards of other processes. The thread that ran a shard calls them. They never wait. A
/// message that cannot be sent is dropped: shards send it again.
pub trait PeerLinks: Send + Sync {
    /// Takes a message.
    fn send(&self, to: ShardIndex, peer: &Peer);
    /// Sends the messages that were taken.
    fn flush(&self);
}
