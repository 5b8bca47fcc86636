//! Which jobs there are, and how large.

use std::path::Path;

use clap::ValueEnum;

use crate::job::{Data, Job, Order, Stage, Workload};
use crate::store::{Engine, Variant};

/// Larger than all blocks together.
const ALL_CACHED: usize = 2 << 30;
/// Directories, where they are not the question.
const PER_DIRECTORY: u64 = 1000;

/// How large everything is.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Records, mostly.
    pub count: u64,
    /// Sizes of the creates.
    pub creates: Vec<u64>,
    /// Records of other workloads that do nothing but write new ones.
    pub writes: u64,
    /// Records of the database that does not fit into memory.
    pub cold: u64,
    /// How long to read.
    pub seconds: f64,
    /// How long to write at most.
    pub limit_seconds: f64,
    /// How long to wait for the disk, or to read from it.
    pub disk_seconds: f64,
    /// Records of the database under a steady load.
    pub steady: u64,
    /// Size of a tree under it.
    pub steady_tree_bytes: usize,
    /// How long it lasts at most.
    pub steady_seconds: f64,
}

impl Scale {
    /// All in less than three minutes.
    pub fn quick() -> Scale {
        Scale {
            count: 100_000,
            // A run of a third of that would be over in 40 ms, with the first touch of all memory
            // in it, and in memtables that fit into the processor's caches.
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

    /// As asked for.
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

    /// Everything once, for tests.
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

/// What the caller wants of it.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Empty: all.
    pub workloads: Vec<Workload>,
    /// Empty: all.
    pub engines: Vec<Engine>,
    /// Groups for a log write, where it is not given.
    pub batch: u64,
    /// Which way names come.
    pub order: Order,
}

/// A workload on one kind of data, by all engines.
#[derive(Debug, Clone)]
pub struct Round {
    /// One for each engine; the folder is to be filled in.
    pub jobs: Vec<Job>,
}

/// All rounds.
pub fn rounds(scale: &Scale, choice: &Choice) -> Vec<Round> {
    let wanted =
        |workload: &Workload| choice.workloads.is_empty() || choice.workloads.contains(workload);
    let mut rounds = Vec::new();
    for workload in Workload::value_variants().iter().copied().filter(wanted) {
        if workload == Workload::Disk && wanted(&Workload::LookupCold) {
            // Told by what was prepared for cold lookups, which is the same.
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

/// The names a workload has in results, with sizes.
fn sizes(workload: Workload, scale: &Scale) -> Vec<(String, u64)> {
    let plain = workload.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    match workload {
        Workload::Create if scale.creates.len() == 1 => vec![(plain, scale.creates[0])],
        Workload::Create => {
            let named = |&count: &u64| (format!("{plain}_{}", short(count)), count);
            scale.creates.iter().map(named).collect()
        }
        Workload::ScanLarge => vec![(format!("scan_{}", short(scale.count)), scale.count)],
        // In small databases what is there once, as space taken ahead for a log, would count too
        // much.
        Workload::LookupCold | Workload::Disk => vec![(plain, scale.cold)],
        // As many records.
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
        // What a disk takes to sync does not depend on what else there is.
        _ if workload.is_synced() => &[Data::Trees],
        // All of it is in files.
        Workload::LookupCold | Workload::Disk | Workload::Steady => &[Data::Mixed],
        _ => &[Data::Trees, Data::Mixed],
    }
}

/// Variants of an engine are run where they may make a difference.
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

/// Size of trees that no engine fills with so many records, or three times as many, and what is
/// done to them.
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
