//! Queries and answers of the admin socket.

use std::collections::BTreeMap;

use pando_server::host::status::ShardStatus;
use pando_server::inspect::Info;
use serde::{Deserialize, Serialize};

/// A query to the running process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Query {
    /// Asks whether the process is awake. It answers at once, even while it waits for servers.
    Ping,
    /// Asks for the process's whole status.
    Status,
    /// Looks up the object that these names lead to from the root. Names are hexadecimal, since
    /// they may hold any bytes.
    Info { names: Vec<String> },
    /// Makes durable what programs wrote through this mount, and all changes of the volume.
    Sync,
    /// Unmounts and stops. `force` detaches a mount that is in use.
    Down { force: bool },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The process is awake. `unstored`: bytes that programs wrote and that are not stored.
    Pong {
        pid: u32,
        unstored: u64,
    },
    Status(Box<VolumeStatus>),
    Info(Info),
    /// The status of a `pando mount`.
    Mount(MountStatus),
    /// Everything is durable.
    Synced,
    /// The tree is unmounted, and the process ends.
    Stopping,
}

/// The status of a running volume.
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

/// The status of a process that serves shards.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerStatus {
    pub pid: u32,
    pub version: String,
    pub started_seconds_ago: u64,
    pub durability: String,
    pub addresses: Vec<String>,
    pub shards: Vec<ShardStatus>,
}

/// The status of a mount.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MountStatus {
    pub path: String,
    /// Inodes in the client's node table.
    pub known_inodes: u64,
    /// Bytes written and not yet stored.
    pub dirty_bytes: u64,
    /// Bytes written and lost, since they could not be stored.
    pub lost_bytes: u64,
    /// Files that lost bytes, as many as the process remembers.
    #[serde(default)]
    pub losses: Vec<LostFile>,
    /// Requests from the kernel since the mount began, by operation.
    pub requests: BTreeMap<String, u64>,
    /// Messages to shards since the mount began, retries included, by operation.
    pub messages: BTreeMap<String, u64>,
    /// Present state of the mount by name: `nodes`, the inodes that the kernel knows; `holds`, 1
    /// while the kernel may remember names and attributes; `pending`, the kernel's requests that
    /// are not answered yet; `lent_parts`, parts of directories that
    /// are lent to the mount; `lent_unsent`, changes of these that shards have not acknowledged.
    /// Since the mount began: `lent_so_far`, parts that were lent; `lent_answered`, messages that
    /// the mount answered itself; `lent_amended`, changes that shards made in lent parts;
    /// `lent_set_aside`, changes that were acknowledged and are lost;
    /// `remembered`, messages that the mount answered from what it has read while it holds.
    pub counters: BTreeMap<String, u64>,
}

/// A file that lost bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LostFile {
    /// Its path. Only its name, if its directory did not answer. `None` if even the name is
    /// unknown.
    pub path: Option<String>,
    pub ino: u64,
    pub bytes: u64,
    /// Time of the first loss, in seconds since 1970.
    pub since: u64,
    /// The error that the lost write met.
    pub error: String,
}
