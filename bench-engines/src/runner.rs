//! Runs jobs. Each has a process and a folder of its own, so no job inherits another's allocator or
//! caches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cgroup::Cgroup;
use crate::job::{Data, Job, Outcome, Stage, Workload};
use crate::plan;
use crate::process;
use crate::report::{Amplification, Disk, Memory, Results, Row, Space};

/// The least memory limit. A process that does lookups needs this much for a database of any size.
const LEAST_LIMIT_BYTES: u64 = 16 << 20;

/// The place and number of runs.
pub struct Runner {
    /// The program to start as `PROGRAM job JSON`.
    pub program: PathBuf,
    /// Folder of the databases.
    pub folder: PathBuf,
    /// Number of runs of every job. The median counts.
    pub repeat: usize,
}

/// The result of a run, and the size of its database on disk before it.
struct Done {
    outcome: Outcome,
    prepared_bytes: u64,
    /// A condition of the run that was not met.
    note: Option<String>,
}

impl Runner {
    /// Runs the jobs of a round `repeat` times, each time in another order. Adds the medians to the
    /// results.
    pub fn round(&self, jobs: &[Job], number: usize, results: &mut Results) {
        let mut done: Vec<Vec<Done>> = jobs.iter().map(|_| Vec::new()).collect();
        for repeat in 0..self.repeat {
            for step in 0..jobs.len() {
                let position = (step + number + repeat) % jobs.len();
                let job = &jobs[position];
                match self.job(job) {
                    Ok(run) => done[position].push(run),
                    Err(error) => {
                        eprintln!("{} of {}: {error:#}", job.name, job.engine.name());
                        let failure = format!("{} {}: {error:#}", job.name, job.engine.name());
                        results.failed.push(failure);
                    }
                }
            }
        }
        for (job, runs) in jobs.iter().zip(done) {
            add(job, runs, results);
        }
    }

    fn job(&self, job: &Job) -> Result<Done> {
        let folder = self.folder.join(job.engine.name());
        let result = self.job_in(job, &folder);
        remove(&folder)?;
        // Some engines put a snapshot beside their folder.
        remove(&folder.with_extension("snapshot"))?;
        result
    }

    fn job_in(&self, job: &Job, folder: &Path) -> Result<Done> {
        remove(folder)?;
        fs::create_dir_all(folder)?;
        let mut job = Job { folder: folder.join("db"), ..job.clone() };
        if job.workload.is_prepared(job.data) {
            // A steady load has small trees only during the measurement.
            let tree_bytes = plan::holds_all(job.count);
            self.process(&Job { stage: Stage::Prepare, tree_bytes, ..job.clone() })
                .context("while preparing")?;
        }
        let prepared_bytes =
            if job.folder.exists() { process::disk_bytes(&job.folder)? } else { 0 };
        match job.workload {
            Workload::LookupCold => {}
            Workload::Steady => return self.steady(job),
            _ => return Ok(Done { outcome: self.process(&job)?, prepared_bytes, note: None }),
        }
        let limit = (prepared_bytes / 4).max(LEAST_LIMIT_BYTES);
        job.cache_bytes = (limit / 4) as usize;
        process::evict(folder)?;
        let (cgroup, note) = match Cgroup::with_memory(limit) {
            Ok(cgroup) => (Some(cgroup), None),
            Err(error) => (None, Some(format!("memory is not limited: {error:#}"))),
        };
        job.cgroup = cgroup.as_ref().map(|cgroup| cgroup.path().to_path_buf());
        let outcome = self.process(&job)?;
        let outcome = outcome.with("database_bytes", prepared_bytes).with("limit_bytes", limit);
        Ok(Done { outcome, prepared_bytes, note })
    }

    /// Runs a steady load. Then it drops all files from memory, and measures lookups in what the
    /// load has left.
    fn steady(&self, mut job: Job) -> Result<Done> {
        let outcome = self.process(&job)?;
        let disk_bytes = process::disk_bytes(&job.folder)?;
        process::evict(&job.folder)?;
        job.stage = Stage::Look;
        job.changes = outcome.operations;
        job.cache_bytes = (disk_bytes / 4) as usize;
        let looked = self.process(&job)?;
        let figure = |outcome: &Outcome, name: &str| {
            outcome.more.get(name).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
        };
        let live_bytes = figure(&outcome, "live_bytes");
        let outcome = outcome
            .with("disk_bytes", disk_bytes)
            .with("space_amplification", disk_bytes as f64 / live_bytes)
            .with("read_bytes_per_lookup", figure(&looked, "read_bytes_per_lookup"))
            .with("cold_lookups_per_s", looked.rate().round());
        Ok(Done { outcome, prepared_bytes: disk_bytes, note: None })
    }

    fn process(&self, job: &Job) -> Result<Outcome> {
        let mut command = Command::new(&self.program);
        command.arg("job").arg(serde_json::to_string(job)?).stdin(Stdio::null());
        let output = command.output().with_context(|| self.program.display().to_string())?;
        if !output.status.success() {
            bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("what the process printed")
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            fs::remove_file(folder).with_context(|| format!("cannot remove {}", folder.display()))
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Adds the median of several runs to the results.
fn add(job: &Job, mut runs: Vec<Done>, results: &mut Results) {
    runs.sort_by(|a, b| a.outcome.rate().total_cmp(&b.outcome.rate()));
    let rates: Vec<f64> = runs.iter().map(|run| run.outcome.rate().round()).collect();
    let count = runs.len();
    let Some(run) = runs.into_iter().nth(count / 2) else {
        return;
    };
    let engine = job.engine.name().to_owned();
    if run.outcome.unsupported {
        results.unsupported.push(format!("{} {engine}", job.name));
        return;
    }
    let figure = |name: &str| run.outcome.more.get(name).and_then(serde_json::Value::as_f64);
    if let (Some(all), Some(own), Some(data)) =
        (figure("memory_per_entry"), figure("own_memory_per_entry"), figure("key_and_value_bytes"))
        && job.workload == Workload::Create
    {
        results.memory.push(Memory {
            engine: engine.clone(),
            entries: job.count,
            bytes_per_entry: all,
            own_bytes_per_entry: own,
            key_and_value_bytes: data,
            ratio: all / data,
        });
    }
    if job.workload.is_of_files() {
        results.disk.push(Disk {
            engine: engine.clone(),
            entries: job.count,
            bytes_per_entry: run.prepared_bytes as f64 / job.count as f64,
        });
    }
    if job.workload == Workload::Disk {
        return;
    }
    if job.workload == Workload::Steady {
        let figure = |name: &str| figure(name).unwrap_or_default();
        results.write_amplification.push(Amplification {
            engine: engine.clone(),
            ratio: figure("write_amplification"),
            written_bytes: figure("written_bytes"),
            changed_bytes: figure("changed_bytes"),
            ops_per_s: run.outcome.rate().round(),
            space: Some(Space {
                ratio: figure("space_amplification"),
                disk_bytes: figure("disk_bytes"),
                live_bytes: figure("live_bytes"),
            }),
            read_bytes_per_lookup: Some(figure("read_bytes_per_lookup")),
            changes_per_record: Some(figure("changes_per_record")),
            is_settled: run.outcome.more.get("is_settled").and_then(serde_json::Value::as_bool),
        });
    }
    results.rows.push(Row {
        workload: job.name.clone(),
        data: job.data,
        engine,
        ops_per_s: run.outcome.rate().round(),
        batch: job.batch,
        operations: run.outcome.operations,
        runs: rates,
        note: run.note,
        more: run.outcome.more,
    });
}

impl Results {
    /// Prints one line of progress.
    pub fn progress(&self, jobs: &[Job]) {
        let Some(job) = jobs.first() else {
            return;
        };
        let data = match job.data {
            Data::Trees => "trees",
            Data::Mixed => "mixed",
        };
        eprintln!("{} ({data}) …", job.name);
    }
}

/// Makes the folder for databases if it is missing. Fails if it is not empty.
pub fn take_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let is_empty = fs::read_dir(folder)?.next().is_none();
    ensure!(is_empty, "{} is not empty: name a folder of its own", folder.display());
    Ok(())
}
