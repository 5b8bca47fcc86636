//! `pando bench null`: the null file system in a process of its own.

use std::process::ExitCode;
use std::time::Duration;

use pando_bench::nullfs::{self, Behaviour, Kernel};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::args::{NullArgs, NullKernel};
use crate::console::output;
use crate::failure::Failure;

/// Interval of checks whether another process has unmounted the file system.
const LOOK: Duration = Duration::from_millis(50);

pub fn serve(args: &NullArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
    let defaults = pando_fuse::Options::default();
    let options = pando_fuse::Options {
        threads: args.threads.map_or(defaults.threads, usize::from),
        allow_other: rustix::process::geteuid().is_root(),
        source: "null".to_owned(),
        ..defaults
    };
    let kernel = match args.kernel {
        NullKernel::Several => Kernel::Several,
        NullKernel::Alone => Kernel::Alone,
    };
    let behaviour = Behaviour { kernel, ..Behaviour::default() };
    let mounted = nullfs::mount(&args.mountpoint, &options, behaviour).map_err(Failure::plain)?;
    output::json(&serde_json::json!({ "mount": mounted.mountpoint().display().to_string() }));
    while signals.pending().next().is_none() && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}
