//! Options of a mount.

use std::ffi::OsString;
use std::time::Duration;

/// Default number of CPUs for each thread that reads requests.
const CPUS_PER_READER: usize = 4;

/// Largest default number of threads that read requests.
const READERS_MAX: usize = 8;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the kernel may remember which file a name leads to. With zero it asks each time,
    /// unless the session holds.
    pub entry_timeout: Duration,
    /// How long the kernel may remember attributes. With zero it asks each time, unless the session
    /// holds.
    pub attr_timeout: Duration,
    /// Number of threads that read requests concurrently, at least 1. One is fastest on few CPUs: a
    /// wake-up then finds it on the caller's CPU more often. Requests that wait for a disk get
    /// further threads anyway; those that wait for another shard need none.
    pub threads: usize,
    /// Whether each reader has its own descriptor of `/dev/fuse`, with its own queue of pending
    /// requests.
    pub clone_fd: bool,
    /// Whether users other than the mounting one may enter.
    pub allow_other: bool,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether setuid and setgid bits of programs take effect.
    pub suid: bool,
    /// Whether device nodes lead to devices.
    pub dev: bool,
    /// Whether programs may be run.
    pub exec: bool,
    /// Whether the kernel judges permissions itself. [`mount`](crate::mount()) always sets this.
    pub default_permissions: bool,
    /// Source shown in `/proc/mounts`.
    pub source: String,
    /// Command of a process that drops pages; it calls [`drop_pages`](crate::drop_pages()). If
    /// empty, this process drops them itself, and may not end if it is killed meanwhile.
    pub dropper: Vec<OsString>,
    /// Whether a keeper holds the mount's channels, so that the mount outlives this process.
    pub is_kept: bool,
    /// Whether requests may come by rings of io_uring, if the kernel offers that. A mount that is
    /// kept has none: a successor could not take their requests over. By default the environment
    /// variable `PANDO_FUSE_RINGS` decides: `off` forbids them.
    pub rings: bool,
}

/// Environment variable that forbids rings.
const RINGS: &str = "PANDO_FUSE_RINGS";

impl Default for Options {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            entry_timeout: Duration::ZERO,
            attr_timeout: Duration::ZERO,
            threads: cpus.div_ceil(CPUS_PER_READER).min(READERS_MAX),
            clone_fd: false,
            allow_other: true,
            read_only: false,
            suid: false,
            dev: false,
            exec: true,
            default_permissions: false,
            source: "pando".to_owned(),
            dropper: Vec::new(),
            is_kept: false,
            rings: std::env::var_os(RINGS).is_none_or(|value| value != "off"),
        }
    }
}
