//! A job: one workload for one engine, in a process of its own.

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::process::Stopwatch;
use crate::store::{Engine, Setup, Store, Work};
use crate::workload;

/// The workload to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// Lookup of an absent name, then insert.
    Create,
    /// The same, a log write for 64 of them.
    #[value(name = "create_by_64")]
    #[serde(rename = "create_by_64")]
    CreateBy64,
    /// Lookups of names that are there.
    LookupPresent,
    /// Lookups of names that are not, in directories that are.
    LookupAbsent,
    /// Scans of directories of 1,000 entries.
    #[value(name = "scan_1k")]
    #[serde(rename = "scan_1k")]
    ScanSmall,
    /// Scans of one directory with all entries.
    ScanLarge,
    /// Create, stat; half of the files are deleted at once.
    ShortLived,
    /// Insert groups of three records.
    #[value(name = "groups_of_3")]
    #[serde(rename = "groups_of_3")]
    GroupsOf3,
    /// Delete everything, name by name.
    DeleteAll,
    /// Creates beside a checkpoint of all there is (BabuDB, table I).
    CreateDuringCheckpoint,
    /// Lookups in a database four times as large as the memory.
    LookupCold,
    /// A snapshot that outlives the process.
    Snapshot,
    /// Creates, an fsync for each.
    #[value(name = "create_fsync_1")]
    #[serde(rename = "create_fsync_1")]
    CreateFsync1,
    /// Creates of 64 writers that wait for fsyncs they share.
    #[value(name = "create_fsync_64")]
    #[serde(rename = "create_fsync_64")]
    CreateFsync64,
    /// Insert groups of three records, an fsync for each.
    #[value(name = "groups_of_3_fsync_1")]
    #[serde(rename = "groups_of_3_fsync_1")]
    GroupsFsync1,
    /// Those of 64 writers that wait for fsyncs they share.
    #[value(name = "groups_of_3_fsync_64")]
    #[serde(rename = "groups_of_3_fsync_64")]
    GroupsFsync64,
    /// Create, stat, delete, an fsync for each create and delete.
    #[value(name = "short_lived_fsync_1")]
    #[serde(rename = "short_lived_fsync_1")]
    ShortLivedFsync1,
    /// Those of 64 writers that wait for fsyncs they share.
    #[value(name = "short_lived_fsync_64")]
    #[serde(rename = "short_lived_fsync_64")]
    ShortLivedFsync64,
    /// Bytes an entry takes on disk.
    Disk,
    /// Changes that go on: bytes written for a byte changed, bytes on disk for a byte stored, bytes
    /// read for a lookup.
    #[value(alias = "write_amplification")]
    Steady,
}

/// Where the records are when the measurement starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// All in trees in memory, and in the log.
    Trees,
    /// Every other record in index files.
    Mixed,
}

/// The order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// From all directories at random.
    Random,
    /// One directory after the other; in a directory at random.
    Directory,
}

/// A stage of a job. Each is a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Writes index files for the measurement.
    Prepare,
    /// Runs the workload and measures it.
    Run,
    /// Reads what the measured process has left.
    Look,
}

/// The job of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The engine to use.
    pub engine: Engine,
    /// The workload to run.
    pub workload: Workload,
    /// The workload's name in results, which may include the size.
    pub name: String,
    /// Where the records are when the measurement starts.
    pub data: Data,
    /// The stage that this process does.
    pub stage: Stage,
    /// Number of records.
    pub count: u64,
    /// Number of records in each directory.
    pub per_directory: u64,
    /// The order of the names.
    pub order: Order,
    /// Insert groups for each log write.
    pub batch: u64,
    /// Seconds to measure, for workloads that `count` does not limit. A steady load may end sooner.
    pub seconds: f64,
    /// The most seconds, for workloads that `count` limits. The rest is left out.
    pub limit_seconds: f64,
    /// Folder of the database.
    pub folder: PathBuf,
    /// Size of the cache for blocks of files.
    pub cache_bytes: usize,
    /// Size at which an engine writes its trees to files. A very large value means never.
    pub tree_bytes: usize,
    /// The cgroup that limits memory.
    pub cgroup: Option<PathBuf>,
    /// Changes that a steady load has made, for [`Stage::Look`].
    pub changes: u64,
}

/// The result of a job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of measured operations.
    pub operations: u64,
    /// Duration of these operations.
    pub seconds: f64,
    /// Whether the engine lacks the operation.
    pub unsupported: bool,
    /// Further figures for the result's row.
    pub more: Map<String, Value>,
}

impl Outcome {
    /// A result of this many operations in this time.
    pub fn new(operations: u64, seconds: f64) -> Outcome {
        Outcome { operations, seconds, ..Outcome::default() }
    }

    /// A result with the time since the start of `clock`. It also has the CPU time and page faults
    /// of each operation.
    pub fn timed(operations: u64, clock: &Stopwatch) -> Result<Outcome> {
        let lap = clock.lap()?;
        let each = |number: f64| number / operations.max(1) as f64;
        Ok(Outcome::new(operations, lap.seconds)
            .with("cpu_us", each(lap.cpu_seconds * 1e6))
            .with("faults", each(lap.faults as f64)))
    }

    /// The result if the engine lacks the operation.
    pub fn unsupported() -> Outcome {
        Outcome { unsupported: true, ..Outcome::default() }
    }

    /// Adds a figure to the row.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Outcome {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }
}

impl Workload {
    /// Whether records must be in index files before the measurement.
    pub fn is_prepared(self, data: Data) -> bool {
        match self {
            Workload::LookupCold | Workload::Disk | Workload::Steady => true,
            _ => data == Data::Mixed,
        }
    }

    /// Whether every record is in files after the preparation, and not only every other one.
    pub fn is_all_prepared(self) -> bool {
        self.is_prepared(Data::Trees)
    }

    /// Whether the preparation writes the whole database, in the engine's most compact form. Such a
    /// database shows how many bytes an entry takes on disk.
    pub fn is_of_files(self) -> bool {
        matches!(self, Workload::LookupCold | Workload::Disk)
    }

    /// Whether an fsync follows every log write.
    pub fn is_synced(self) -> bool {
        matches!(
            self,
            Workload::CreateFsync1
                | Workload::CreateFsync64
                | Workload::GroupsFsync1
                | Workload::GroupsFsync64
                | Workload::ShortLivedFsync1
                | Workload::ShortLivedFsync64
        )
    }
}

impl Job {
    /// Runs the job in this process.
    pub fn run_here(self) -> Result<Outcome> {
        if let Some(cgroup) = &self.cgroup {
            crate::cgroup::join(cgroup)?;
        }
        std::fs::create_dir_all(&self.folder)?;
        let setup = Setup {
            folder: self.folder.clone(),
            sync: self.workload.is_synced() && self.stage == Stage::Run,
            cache_bytes: self.cache_bytes,
            tree_bytes: self.tree_bytes,
            is_memory_scarce: self.cgroup.is_some() || self.stage == Stage::Look,
            variant: self.engine.variant(),
        };
        self.engine.give(self, &setup)
    }
}

impl Work for Job {
    type Output = Outcome;

    fn run<S: Store>(self, setup: &Setup) -> Result<Outcome> {
        workload::run::<S>(&self, setup)
    }
}
