//! `pando fill`: many empty files in one directory, for demonstrations.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::console::output::aside;
use crate::console::text::count;
use crate::failure::Failure;

/// Create many empty files in a directory
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct FillArgs {
    /// The directory; made if it is missing
    pub directory: PathBuf,
    /// How many
    pub count: u64,
    /// What their names begin with
    #[arg(long, default_value = "file-")]
    pub prefix: String,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
}

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

pub fn run(args: &FillArgs) -> Result<ExitCode, Failure> {
    let shown = args.directory.display();
    fs::create_dir_all(&args.directory)
        .map_err(|error| Failure::plain(format!("cannot make {shown}: {error}")))?;
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.threads.max(1)).map(|_| scope.spawn(|| fill(args, &next))).collect();
        let mut told = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if told.elapsed() >= PROGRESS_INTERVAL {
                told = Instant::now();
                let done = next.load(Ordering::Relaxed).min(args.count);
                aside(format_args!("  {} of {} files", count(done), count(args.count)));
            }
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("creating files"))
    })
    .map_err(|error: io::Error| {
        Failure::plain(format!("cannot create a file in {shown}: {error}"))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    aside(format_args!(
        "  {} files in {seconds:.1} s: {} a second",
        count(args.count),
        count((args.count as f64 / seconds) as u64)
    ));
    Ok(ExitCode::SUCCESS)
}

fn fill(args: &FillArgs, next: &AtomicU64) -> io::Result<()> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= args.count {
            return Ok(());
        }
        let path = args.directory.join(format!("{}{number:09}", args.prefix));
        if let Err(error) = OpenOptions::new().write(true).create_new(true).open(path) {
            // Makes the other threads stop, too.
            next.store(args.count, Ordering::Relaxed);
            return Err(error);
        }
    }
}
