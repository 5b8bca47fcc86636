//! Runs the measurements, prints the results and draws charts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench_engines::job::{Job, Order, Workload};
use bench_engines::plan::{self, Choice, Scale};
use bench_engines::report::Results;
use bench_engines::runner::{self, Runner};
use bench_engines::store::Engine;
use bench_engines::{charts, process};
use clap::{Parser, Subcommand};

/// Pando's store beside RocksDB, LMDB, fjall and redb, on identical work.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// A small form of everything, in less than three minutes.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Measure this only; may be given several times.
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// Measure this engine only; may be given several times.
    #[arg(long, value_name = "NAME")]
    engine: Vec<Engine>,
    /// Operations for each log write.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Which way names come.
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
    /// Records instead of 1,000,000 (with --quick 100,000).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..100_000_000))]
    count: Option<u64>,
    /// Runs of everything; the median counts. Default 3, with --quick 1.
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Where databases are made: a folder that is empty, or not there yet. Default: a temporary
    /// one.
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show results that --json has printed, of one run or several: an hour is long to keep a
    /// machine quiet in one piece.
    Show {
        /// The results.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
        /// Draw charts into this folder.
        #[arg(long, value_name = "PATH")]
        charts: Option<PathBuf>,
    },
    /// Do one job, in this process.
    #[command(hide = true)]
    Job {
        /// What to do, as JSON.
        job: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-engines: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command. Returns whether every measurement succeeded.
fn run(arguments: Arguments) -> Result<bool> {
    match &arguments.command {
        Some(Command::Job { job }) => {
            let job: Job = serde_json::from_str(job)?;
            println!("{}", serde_json::to_string(&job.run_here()?)?);
            Ok(true)
        }
        Some(Command::Show { files, json, charts }) => {
            let mut results = Results::default();
            for file in files {
                results.join(read(file)?);
            }
            results.judge();
            if let Some(folder) = charts {
                charts::draw(&results, folder)?;
            }
            results.print(*json)?;
            Ok(true)
        }
        None => measure(arguments),
    }
}

fn measure(arguments: Arguments) -> Result<bool> {
    let mut scale = if arguments.quick { Scale::quick() } else { Scale::full() };
    if let Some(count) = arguments.count {
        scale = Scale { count, creates: vec![count], writes: count, steady: count, ..scale };
    }
    let choice = Choice {
        workloads: arguments.only,
        engines: arguments.engine,
        batch: arguments.batch,
        order: arguments.order,
    };
    let temporary = match &arguments.folder {
        Some(folder) => {
            runner::take_folder(folder)?;
            None
        }
        None => Some(tempfile::Builder::new().prefix("bench-engines-").tempdir()?),
    };
    let folder = match (&arguments.folder, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, temporary) => temporary.as_ref().context("a folder")?.path().to_path_buf(),
    };
    let runner = Runner {
        program: std::env::current_exe()?,
        folder,
        repeat: arguments.repeat.unwrap_or(if arguments.quick { 1 } else { 3 }).max(1),
    };
    let mut results = Results {
        machine: process::machine(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ..Results::default()
    };
    results.load[0] = process::load();
    for (number, round) in plan::rounds(&scale, &choice).iter().enumerate() {
        results.progress(&round.jobs);
        runner.round(&round.jobs, number, &mut results);
    }
    results.load[1] = process::load();
    results.judge();
    if let Some(folder) = &arguments.folder {
        std::fs::remove_dir(folder)?;
    }
    results.print(arguments.json)?;
    Ok(results.failed.is_empty())
}

fn read(file: &Path) -> Result<Results> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what --json prints", file.display()))
}
