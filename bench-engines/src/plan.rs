//! Plans the jobs and their sizes.

use std::path::Path;

use clap::ValueEnum;

use crate::job::{Data, Job, Order, Stage, Workload};
use crate::store::{Engine, Variant};

/// A cache size that is larger than all blocks together.
const ALL_CACHED: usize = 2 << 30;
/// Entries of a directory, for workloads that do not vary them.
const PER_DIRECTORY: u64 = 1000;

/// Sizes and durations of the workloads.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Number of records for most workloads.
    pub count: u64,
    /// Numbers of records of the create workloads.
    pub creates: Vec<u64>,
    /// Number of records of other workloads that only write new records.
    pub writes: u64,
    /// Number of records of the database that does not fit into memory.
    pub cold: u64,
    /// Seconds of workloads that read.
    pub seconds: f64,
    /// The most seconds of workloads that write.
    pub limit_seconds: f64,
    /// Seconds of workloads that wait for fsyncs or read from the disk.
    pub disk_seconds: f64,
    /// Number of records of the database under a steady load.
    pub steady: u64,
    /// Size of an engine's tree under a steady load, in bytes.
    pub steady_tree_bytes: usize,
    /// The most seconds of a steady load.
    pub steady_seconds: f64,
}

impl Scale {
    /// A scale for all workloads in less than three minutes.
    pub fn quick() -> Scale {
        Scale {
            count: 100_000,
            // A third of these creates would end in 40 ms. Then the first touch of memory would
            // count too much, and memtables would fit into the CPU caches.
            creates: vec![300_000],
            writes: 300_000,
            cold: 400_000,
            seconds: 0.15,
            limit_seconds: 0.7,
            disk_seconds: 0.5,
            steady: 100_000,
            steady_tree_bytes: 1 << 20,
            steady_seconds: 2.0,
        }
    }

    /// The scale of published figures.
    pub fn full() -> Scale {
        Scale {
            count: 1_000_000,
            creates: vec![1_000_000, 5_000_000],
            writes: 1_000_000,
            cold: 5_000_000,
            seconds: 3.0,
            limit_seconds: 20.0,
            disk_seconds: 10.0,
            steady: 1_000_000,
            steady_tree_bytes: 8 << 20,
            steady_seconds: 120.0,
        }
    }

    /// The scale of tests: every workload, with few records.
    pub fn tiny() -> Scale {
        Scale {
            count: 1000,
            creates: vec![1000],
            writes: 1000,
            cold: 1000,
            seconds: 0.01,
            limit_seconds: 60.0,
            disk_seconds: 0.01,
            steady: 5000,
            steady_tree_bytes: 64 << 10,
            steady_seconds: 60.0,
        }
    }
}

/// The user's choice of workloads and engines.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Workloads to run. Empty: all.
    pub workloads: Vec<Workload>,
    /// Engines to compare. Empty: all.
    pub engines: Vec<Engine>,
    /// Insert groups for each log write, for workloads that do not fix it.
    pub batch: u64,
    /// The order of the names.
    pub order: Order,
}

/// A workload on one kind of data, with all engines.
#[derive(Debug, Clone)]
pub struct Round {
    /// One job for each engine. The runner sets their folders.
    pub jobs: Vec<Job>,
}

/// All rounds for this scale and choice.
pub fn rounds(scale: &Scale, choice: &Choice) -> Vec<Round> {
    let wanted =
        |workload: &Workload| choice.workloads.is_empty() || choice.workloads.contains(workload);
    let mut rounds = Vec::new();
    for workload in Workload::value_variants().iter().copied().filter(wanted) {
        if workload == Workload::Disk && wanted(&Workload::LookupCold) {
            // The databases of cold lookups show the space on disk, too, since they are equal.
            continue;
        }
        for (name, count) in sizes(workload, scale) {
            for &data in kinds_of_data(workload) {
                let engines = Engine::all().iter().filter(|engine| {
                    (choice.engines.is_empty() || choice.engines.contains(engine))
                        && is_of_interest(**engine, workload)
                });
                let jobs = engines.map(|&engine| Job {
                    engine,
                    workload,
                    name: name.clone(),
                    data,
                    stage: Stage::Run,
                    count,
                    per_directory: per_directory(workload, count),
                    order: choice.order,
                    batch: batch(workload, choice),
                    seconds: seconds(workload, scale),
                    limit_seconds: scale.limit_seconds,
                    folder: Path::new("").to_path_buf(),
                    cache_bytes: ALL_CACHED,
                    tree_bytes: match workload {
                        Workload::Steady => scale.steady_tree_bytes,
                        _ => holds_all(count),
                    },
                    cgroup: None,
                    changes: 0,
                });
                rounds.push(Round { jobs: jobs.collect() });
            }
        }
    }
    rounds
}

/// The names of a workload in results, and their numbers of records.
fn sizes(workload: Workload, scale: &Scale) -> Vec<(String, u64)> {
    let plain = workload.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    match workload {
        Workload::Create if scale.creates.len() == 1 => vec![(plain, scale.creates[0])],
        Workload::Create => {
            let named = |&count: &u64| (format!("{plain}_{}", short(count)), count);
            scale.creates.iter().map(named).collect()
        }
        Workload::ScanLarge => vec![(format!("scan_{}", short(scale.count)), scale.count)],
        // Small databases would overstate the space for an entry. Some space is taken only once,
        // such as that reserved for a log.
        Workload::LookupCold | Workload::Disk => vec![(plain, scale.cold)],
        // A group has three records, so half the number of groups is enough.
        Workload::GroupsOf3 => vec![(plain, scale.writes / 2)],
        Workload::CreateBy64 => vec![(plain, scale.writes)],
        Workload::Steady => vec![(plain, scale.steady)],
        _ => vec![(plain, scale.count)],
    }
}

fn short(count: u64) -> String {
    match count {
        1_000_000.. => format!("{}m", count / 1_000_000),
        1000.. => format!("{}k", count / 1000),
        _ => count.to_string(),
    }
}

fn kinds_of_data(workload: Workload) -> &'static [Data] {
    match workload {
        Workload::CreateDuringCheckpoint | Workload::Snapshot => &[Data::Trees],
        // The duration of an fsync does not depend on the other data.
        _ if workload.is_synced() => &[Data::Trees],
        // All records are in files.
        Workload::LookupCold | Workload::Disk | Workload::Steady => &[Data::Mixed],
        _ => &[Data::Trees, Data::Mixed],
    }
}

/// Whether a variant of an engine may change the result of this workload.
fn is_of_interest(engine: Engine, workload: Workload) -> bool {
    let is_writing = matches!(
        workload,
        Workload::Create
            | Workload::CreateBy64
            | Workload::ShortLived
            | Workload::GroupsOf3
            | Workload::DeleteAll
            | Workload::CreateDuringCheckpoint
    );
    match engine.variant() {
        Variant::Plain => true,
        Variant::MmapLog => is_writing,
        Variant::MemtableFilter => is_writing || workload == Workload::LookupAbsent,
    }
}

/// A tree size that no engine reaches with `count` records, or three times as many, and the changes
/// to them.
pub fn holds_all(count: u64) -> usize {
    count as usize * 1024 + (64 << 20)
}

fn per_directory(workload: Workload, count: u64) -> u64 {
    if workload == Workload::ScanLarge { count } else { PER_DIRECTORY.min(count) }
}

fn batch(workload: Workload, choice: &Choice) -> u64 {
    match workload {
        Workload::CreateBy64 | Workload::Steady => 64,
        Workload::CreateFsync1
        | Workload::GroupsFsync1
        | Workload::ShortLivedFsync1
        | Workload::CreateDuringCheckpoint => 1,
        _ => choice.batch,
    }
}

fn seconds(workload: Workload, scale: &Scale) -> f64 {
    match workload {
        Workload::Steady => scale.steady_seconds,
        Workload::LookupCold => scale.disk_seconds,
        _ if workload.is_synced() => scale.disk_seconds,
        _ => scale.seconds,
    }
}
