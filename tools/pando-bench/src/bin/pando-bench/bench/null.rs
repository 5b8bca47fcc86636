//! `pando-bench null`: the null file system in a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pando_bench::nullfs::{self, Behaviour, Kernel};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::failure::Failure;
use crate::output::number::number;
use crate::output::print;

/// Interval of checks whether another process has unmounted the file system.
const LOOK: Duration = Duration::from_millis(50);

/// Mount the null file system until a signal comes or it is unmounted
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct NullArgs {
    /// An existing directory
    pub mountpoint: PathBuf,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// What the kernel may remember: what a mount of Pando lets it that is alone on its volume, or
    /// one of several
    #[arg(long, value_enum, default_value_t = NullKernel::Several)]
    pub kernel: NullKernel,
}

/// What the kernel of the null file system may remember.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum NullKernel {
    Several,
    Alone,
}

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
    print::json(&serde_json::json!({ "mount": mounted.mountpoint().display().to_string() }));
    while signals.pending().next().is_none() && !mounted.is_over() {
        std::thread::sleep(LOOK);
    }
    Ok(ExitCode::SUCCESS)
}
