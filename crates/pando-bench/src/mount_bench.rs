//! Creates, stats and unlinks empty files below a path, from one or more processes, and counts operations a second.
//!
//! The workers are the program itself, started again: call [`become_worker_if_asked`] first thing in `main`. They do
//! each phase when told to, all at once; a phase's time is from the first word to the last worker's answer.

mod phase;
mod worker;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

pub use phase::Phase;
pub use worker::become_worker_if_asked;

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// An existing directory; the run works in a fresh directory below it and removes that.
    pub path: PathBuf,
    /// Files of each worker.
    pub files_per_worker: u64,
    /// Workers.
    pub workers: u32,
    /// What a worker is.
    pub kind: WorkerKind,
    /// Whether each worker has a directory of its own; else all share one.
    pub own_directories: bool,
}

/// What a worker is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerKind {
    /// A process: the program started again.
    Process,
    /// A thread of this process.
    Thread,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub path: PathBuf,
    /// Workers.
    pub workers: u32,
    /// What they were.
    pub kind: WorkerKind,
    /// Whether each had a directory of its own.
    pub own_directories: bool,
    /// Files of all of them.
    pub files: u64,
    /// In the order they ran.
    pub phases: Vec<PhaseReport>,
}

/// One phase's figures.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// From the start to the last worker's end.
    pub seconds: f64,
    /// Files a second, all workers together.
    pub ops_per_second: f64,
}

impl Report {
    /// Operations a second of one phase.
    #[must_use]
    pub fn rate(&self, phase: Phase) -> f64 {
        self.phases.iter().find(|report| report.phase == phase).map_or(0.0, |r| r.ops_per_second)
    }

    /// As JSON, for scripts.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// Runs all phases. What is left behind by a failure is removed as far as possible.
pub fn run(config: &Config) -> io::Result<Report> {
    let base = config.path.join(format!("mount-bench-{}", std::process::id()));
    std::fs::create_dir(&base)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", base.display())))?;
    let result = run_in(config, &base);
    if result.is_err() {
        let _ = std::fs::remove_dir_all(&base);
    }
    result
}

fn run_in(config: &Config, base: &Path) -> io::Result<Report> {
    let files = config.files_per_worker * u64::from(config.workers);
    let mut workers = Vec::new();
    let mut directories = Vec::new();
    for number in 0..config.workers {
        let directory =
            if config.own_directories { base.join(number.to_string()) } else { base.to_owned() };
        if config.own_directories {
            std::fs::create_dir(&directory)?;
            directories.push(directory.clone());
        }
        let task = phase::Task { directory, worker: number, files: config.files_per_worker };
        workers.push(worker::Worker::start(config.kind, task)?);
    }
    let mut phases = Vec::new();
    for phase in Phase::ALL {
        let start = Instant::now();
        for worker in &mut workers {
            worker.begin(phase)?;
        }
        for worker in &mut workers {
            worker.finish(phase)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        phases.push(PhaseReport { phase, seconds, ops_per_second: files as f64 / seconds });
    }
    for directory in directories {
        std::fs::remove_dir(directory)?;
    }
    std::fs::remove_dir(base)?;
    Ok(Report {
        path: config.path.clone(),
        workers: config.workers,
        kind: config.kind,
        own_directories: config.own_directories,
        files,
        phases,
    })
}
