//! Measures two mounts in turn, A B A B …, and their ratio pair by pair, so that the comparison holds while the machine's
//! speed drifts: `mount_pairs PATH_A PATH_B [FILES [WORKERS [PAIRS]]]`. One directory, empty files. JSON on standard output.

use std::io;
use std::path::Path;

use pando_bench::mount_bench::{self, Config, Phase, Report, WorkerKind};
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    mount_bench::become_worker_if_asked();
    let mut arguments = std::env::args().skip(1);
    let mut path = || arguments.next().ok_or_else(|| io::Error::other("give two directories"));
    let (a, b) = (path()?, path()?);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let files: u32 = number(10_000).map_err(io::Error::other)?;
    let workers: u32 = number(1).map_err(io::Error::other)?;
    let pairs: u32 = number(5).map_err(io::Error::other)?;
    // Once each, not counted: caches, partitions, processes.
    measure(&a, files, workers)?;
    measure(&b, files, workers)?;
    let mut runs = Vec::new();
    for pair in 0..pairs {
        eprintln!("pair {} of {pairs}, {workers} workers", pair + 1);
        runs.push((measure(&a, files, workers)?, measure(&b, files, workers)?));
    }
    let phases: Vec<Value> = Phase::ALL.into_iter().map(|phase| summary(phase, &runs)).collect();
    let report = json!({
        "a": a, "b": b, "files": files, "workers": workers, "pairs": pairs, "phases": phases,
    });
    println!("{report:#}");
    Ok(())
}

fn measure(path: &str, files: u32, workers: u32) -> io::Result<Report> {
    mount_bench::run(&Config {
        path: Path::new(path).to_owned(),
        files_per_worker: u64::from(files / workers.max(1)),
        workers,
        kind: WorkerKind::Process,
        own_directories: false,
    })
}

fn summary(phase: Phase, runs: &[(Report, Report)]) -> Value {
    let of = |rate: &dyn Fn(&(Report, Report)) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(rate).collect();
        all.sort_by(f64::total_cmp);
        json!({ "min": all.first(), "median": all.get(all.len() / 2), "max": all.last() })
    };
    json!({
        "phase": phase,
        "a_ops_per_s": of(&|(a, _)| a.rate(phase).round()),
        "b_ops_per_s": of(&|(_, b)| b.rate(phase).round()),
        "ratio": of(&|(a, b)| (a.rate(phase) / b.rate(phase) * 1000.0).round() / 1000.0),
    })
}
