//! Asks a mount at each interval, and prints what has happened since the last answer.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::rates::{HEADING, Rates};
use crate::admin::mount;
use crate::console::number::number;
use crate::console::output::{json_to_reader, line_to_reader};
use crate::failure::Failure;

/// Lines of a terminal after which the heading comes again.
const HEADING_EVERY: u64 = 20;

/// Show what a mount does, a line a second
#[derive(Args, Debug)]
#[command(after_help = "\
Columns:
  find stat list make drop open data more   requests of the kernel, a second, by kind
  p50 p99                                   half of them, and 99 in 100, took at most so long
  shards own                                messages to shards, a second; what the mount answered itself
  read written                              bytes a second that went through requests
  unstored memory                           bytes that are not stored yet; memory of the process
  waiting lent                              requests without an answer; parts of directories lent to the mount

The first line is the average since the mount began. --json has all operations.

Examples:
  pando stats ~/tree
  pando stats ~/tree --interval 10 --count 6
  pando stats ~/tree --json | jq .latencies.CREATE")]
pub struct StatsArgs {
    /// Folder at which a volume is mounted
    #[arg(value_name = "MOUNT")]
    pub mount: PathBuf,
    /// Seconds from line to line
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = number::<u64>(1..=3600))]
    pub interval: u64,
    /// End after so many lines [default: none, until Ctrl-C]
    #[arg(long, value_name = "LINES", value_parser = number::<u64>(1..=u64::MAX))]
    pub count: Option<u64>,
    /// Print one JSON object on each line
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &StatsArgs) -> Result<ExitCode, Failure> {
    let (root, volume) = mount::at(&args.mount)?;
    let is_terminal = std::io::stdout().is_terminal();
    let interval = Duration::from_secs(args.interval);
    let (mut before, mut lines) = (None, 0u64);
    let mut next = Instant::now();
    loop {
        let now = mount::status(&root, &volume)?;
        let rates = Rates::between(before.as_ref(), &now);
        let is_read = if args.json {
            json_to_reader(&rates)
        } else {
            let is_due = lines == 0 || (is_terminal && lines.is_multiple_of(HEADING_EVERY));
            (!is_due || line_to_reader(HEADING)) && line_to_reader(&rates.line())
        };
        lines += 1;
        if !is_read || args.count == Some(lines) {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(now);
        // An answer that came late delays no later one.
        next = (next + interval).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
