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
    /// Asks for the status of the process's mount alone. No shard is looked at.
    Mount,
    /// Begins to count requests by caller for 1 to 3600 seconds. `number` is the profile's own.
    BeginProfile { number: u64, seconds: u64 },
    /// Ends the profile of this number, and asks for what it has found.
    EndProfile { number: u64 },
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
    /// The profile runs.
    Profiling,
    /// What a profile has found.
    Profile(MountProfile),
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
    /// Time since the mount began, nanoseconds.
    #[serde(default)]
    pub age_nanos: u64,
    /// Memory of the mount's process.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Bytes that programs read through the kernel's requests. Its page cache answers more.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that programs wrote through the kernel's requests.
    #[serde(default)]
    pub written_bytes: u64,
    /// Time from a request of the kernel to its answer, by operation. Element `n` counts those of
    /// at most 2^`n` ns that the element before does not count. The last one counts the rest.
    #[serde(default)]
    pub latencies: BTreeMap<String, Vec<u64>>,
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

/// What a profile of a mount has found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MountProfile {
    /// How long it ran.
    pub nanos: u64,
    /// In no order.
    pub rows: Vec<ProfileRow>,
    /// Requests beyond the rows that a profile remembers, and their time in nanoseconds.
    pub beyond: (u64, u64),
}

/// What one process has asked of a mount.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProfileRow {
    /// Number of the user.
    pub user: u32,
    /// Number of the process. 0: the kernel itself, or a process that the mount cannot see.
    pub process: u32,
    /// The process's name. `None` if it is unknown.
    pub command: Option<String>,
    pub operation: String,
    pub count: u64,
    /// Sum of the times from requests to answers.
    pub nanos: u64,
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
