//! Questions of tools, and their answers.

use std::ops::Range;

use pando_placement::{ClusterMap, Secrets};
use pando_types::ShardIndex;
use pando_types::op::ObjectId;
use pando_types::watch::{Settled, Watching};
use serde::{Deserialize, Serialize};

use crate::hello::Hosting;
use crate::moving::{Census, MoveAsk, MoveToken, MoveTold, Moving};

/// A tool's question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// The facts of the volume.
    Volume,
    /// The process of each shard.
    Hosts,
    /// What the process and its shards do, as JSON.
    Status,
    /// Records of a shard in key order, from a key on, up to about so many bytes.
    Scan {
        /// The shard, which the process must host.
        shard: ShardIndex,
        /// The first key to return.
        from: Vec<u8>,
        /// Bytes, at most [`crate::SCAN_MAX`]. At least one record comes if there is one.
        bytes: u32,
    },
    /// Stop the process. Accepted only over a Unix socket.
    Stop,
    /// The volume's superblock, for a server with a folder of its own.
    Superblock,
    /// The sum of some directories of a shard, from a key on.
    Census(ShardIndex, Vec<u8>),
    /// Shards that move to this process or from it.
    Moves,
    /// Take a shard over from the process that serves it, at no more than so many bytes a second.
    Adopt(ShardIndex, u64),
    /// A message of the process that takes a shard over.
    Move(ShardIndex, MoveToken, MoveAsk),
    /// Make an empty shard with this number, and serve it.
    Found(ShardIndex),
    /// Have a shard begin to watch which objects files come to name, for the collection with this
    /// number.
    Watch(ShardIndex, u64),
    /// What the shard has seen in that watch, from an object on.
    Settle(ShardIndex, u64, ObjectId),
}

/// The answer to an [`Ask`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Told {
    /// Answer to [`Ask::Volume`].
    Volume(Box<VolumeFacts>),
    /// Answer to [`Ask::Hosts`].
    Hosts(Vec<Hosting>),
    /// Answer to [`Ask::Status`].
    Json(String),
    /// Answer to [`Ask::Scan`].
    Rows {
        /// Keys with their values.
        rows: Vec<(Vec<u8>, Vec<u8>)>,
        /// Whether nothing follows.
        is_last: bool,
    },
    /// Answer to [`Ask::Stop`].
    Stopping,
    /// The request failed; the reason in words.
    Failed(String),
    /// Answer to [`Ask::Superblock`].
    Superblock {
        /// The content of the file.
        file: Vec<u8>,
        /// Where objects are: a path on the server's host.
        objects: String,
    },
    /// Answer to [`Ask::Census`].
    Census(Census),
    /// Answer to [`Ask::Moves`].
    Moves(Vec<Moving>),
    /// Answer to [`Ask::Adopt`]: the move has begun, now or before.
    Adopting,
    /// Answer to [`Ask::Move`].
    Move(MoveTold),
    /// Answer to [`Ask::Found`]: the shard is there.
    Founded,
    /// Answer to [`Ask::Watch`].
    Watching(Watching),
    /// Answer to [`Ask::Settle`].
    Settled(Settled),
    /// Answer to [`Ask::Scan`]: the next records cannot be read.
    Gap {
        /// The keys that cannot be read. Records may be readable again at the end of this range.
        keys: Range<Vec<u8>>,
        /// The reason in words, with the name of the file.
        why: String,
    },
}

/// What a client must know of a volume to use it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// The volume's id.
    pub id: [u8; 16],
    /// The secrets of its hashes.
    pub secrets: Secrets,
    /// The owners of hash slots.
    pub map: ClusterMap,
    /// Where objects are: a path on the server's host.
    pub objects: String,
    /// The server's host, as in [`Hosting::host`].
    pub host: [u8; 16],
    /// The process of each shard.
    pub hosts: Vec<Hosting>,
}
