//! Has a mount count its requests by caller for a while, and shows what it has found.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pando_server::admin::Answer;

use super::shown::{show, sorted};
use crate::admin::asking::SOON;
use crate::admin::mount;
use crate::admin::protocol::{MountProfile, Query, Told};
use crate::console::number::number;
use crate::console::output::{self, say};
use crate::failure::Failure;
use crate::process::signals;

/// Show which users and processes ask a mount for what
#[derive(Args, Debug)]
#[command(after_help = "\
The mount counts by caller only while a profile runs. Ctrl-C ends it early, and shows what there is.
Process 0 is the kernel itself: it reads ahead, writes back, and closes files.

Examples:
  pando profile ~/tree
  pando profile ~/tree --seconds 60 --rows 100
  pando profile ~/tree --json | jq '.rows | group_by(.user)'")]
pub struct ProfileArgs {
    /// Folder at which a volume is mounted
    #[arg(value_name = "MOUNT")]
    pub mount: PathBuf,
    /// Seconds to count for
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = number::<u64>(1..=3600))]
    pub seconds: u64,
    /// Show so many rows, those that took longest; --json has all
    #[arg(long, value_name = "ROWS", default_value = "30", value_parser = number::<usize>(1..=100_000))]
    pub rows: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    let (root, volume) = mount::at(&args.mount)?;
    let (_sender, stops) = signals::listen()?;
    let number = getrandom::u64().map_err(Failure::plain)?;
    let seconds = args.seconds;
    ask(&root, &volume, &Query::BeginProfile { number, seconds })?;
    if std::io::stderr().is_terminal() {
        say!("counting for {seconds} s (Ctrl-C ends it)");
    }
    let _ = stops.recv_timeout(Duration::from_secs(seconds));
    let Told::Profile(profile) = ask(&root, &volume, &Query::EndProfile { number })? else {
        return Err(Failure::unexpected("the process"));
    };
    let profile = MountProfile { rows: sorted(profile.rows), ..profile };
    if args.json {
        output::json(&profile);
    } else {
        output::line(show(&profile, args.rows).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(root: &Path, volume: &str, query: &Query) -> Result<Told, Failure> {
    match mount::ask(root, volume, query, SOON)? {
        Answer::Ok(told) => Ok(told),
        Answer::Error(error) => Err(Failure::plain(error)),
    }
}
