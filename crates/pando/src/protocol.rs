//! What is said over the admin socket.

use std::collections::BTreeMap;

use pando_server::host::status::ShardStatus;
use pando_server::inspect::Info;
use serde::{Deserialize, Serialize};

/// A question to the running process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Query {
    /// Whether it is awake: answered at once, whatever else it waits for.
    Ping,
    /// Everything there is to say.
    Status,
    /// Where the object is that these names lead to, from the root; hexadecimal, since names are
    /// any bytes.
    Info { names: Vec<String> },
    /// Make durable what was written through this mount, and what was done in the volume.
    Sync,
    /// Unmount and stop.
    Down { force: bool },
}

/// What comes back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It is awake; what programs wrote and is not stored, bytes.
    Pong {
        pid: u32,
        unstored: u64,
    },
    Status(Box<VolumeStatus>),
    Info(Info),
    /// Of a mount alone.
    Mount(MountStatus),
    /// All is durable.
    Synced,
    /// Unmounted; the process ends.
    Stopping,
}

/// A running volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolumeStatus {
    pub running: bool,
    pub folder: String,
    pub uuid: String,
    pub pid: u32,
    pub version: String,
    pub started_seconds_ago: u64,
    pub durability: String,
    pub mount: MountStatus,
    pub shards: Vec<ShardStatus>,
}

/// A process that serves shards.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerStatus {
    pub pid: u32,
    pub version: String,
    pub started_seconds_ago: u64,
    pub durability: String,
    pub addresses: Vec<String>,
    pub shards: Vec<ShardStatus>,
}

/// Its mount.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MountStatus {
    pub path: String,
    /// Inodes the client keeps in mind.
    pub known_inodes: u64,
    /// Written and not yet stored, bytes.
    pub dirty_bytes: u64,
    /// Written, and lost since it could not be stored, bytes.
    pub lost_bytes: u64,
    /// The files they were of, as many as are remembered.
    #[serde(default)]
    pub losses: Vec<LostFile>,
    /// Requests from the kernel since the mount began, by kind.
    pub requests: BTreeMap<String, u64>,
    /// Messages to shards, tries included, by operation.
    pub messages: BTreeMap<String, u64>,
    /// Directories the kernel knows now; and since the mount began: requests whose way had changed
    /// or was not known, and requests of who holds a directory, or walks again.
    pub counters: BTreeMap<String, u64>,
}

/// A file of which bytes were lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    /// Where it was; only its name if its directory could not be asked; none if not even that is
    /// known.
    pub path: Option<String>,
    pub ino: u64,
    pub bytes: u64,
    /// Seconds since 1970, when the first were lost.
    pub since: u64,
    /// Why.
    pub error: String,
}
