//! `pando-bench null`: the null file system in a process of its own. With `--keep` that process is
//! a keeper. It starts another one that serves, and a successor whenever that one dies.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pando_bench::nullfs::{self, Behaviour, Kernel};
use pando_keeper::{Kept, Plan};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::output::failure::Failure;
use crate::output::number::number;
use crate::output::print;

/// Interval of checks whether another process has unmounted the file system.
const LOOK: Duration = Duration::from_millis(50);
/// A process that has served for so long serves well.
const WELL: Duration = Duration::from_secs(1);

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
    /// Keep the mount while the process that serves it dies, and start another one. That one goes
    /// on with the same tree
    #[arg(long)]
    pub keep: bool,
    /// Serve what the keeper on the standard input holds; `--keep` starts this
    #[arg(long, conflicts_with = "keep")]
    pub kept: bool,
}

/// What the kernel of the null file system may remember.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum NullKernel {
    Several,
    Alone,
}

/// What `null` does with these arguments.
pub fn run(args: &NullArgs) -> Result<ExitCode, Failure> {
    if args.keep { keep(args) } else { serve(args) }
}

fn keep(args: &NullArgs) -> Result<ExitCode, Failure> {
    let place = args.mountpoint.display();
    let mountpoint = args.mountpoint.canonicalize();
    let mountpoint =
        mountpoint.map_err(|error| Failure::plain(format!("cannot mount at {place}: {error}")))?;
    let kernel = args.kernel.to_possible_value().expect("each value has a name");
    let mut arguments: Vec<OsString> =
        ["pando-bench", "null", "--kept", "--kernel"].map(Into::into).into();
    arguments.extend([kernel.get_name().into(), mountpoint.into_os_string()]);
    if let Some(threads) = args.threads {
        arguments.extend(["--threads".into(), threads.to_string().into()]);
    }
    // A core file must not go to the mount itself.
    std::env::set_current_dir("/").map_err(Failure::plain)?;
    let code =
        pando_keeper::keep(Plan { arguments, lease: Plan::LEASE }).map_err(Failure::plain)?;
    Ok(ExitCode::from(code))
}

fn serve(args: &NullArgs) -> Result<ExitCode, Failure> {
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
    let mut kept = args.kept.then(Kept::connect).transpose().map_err(Failure::plain)?;
    let mounted = match &mut kept {
        Some(kept) => nullfs::mount_kept(kept, &args.mountpoint, &options, behaviour),
        None => nullfs::mount(&args.mountpoint, &options, behaviour),
    };
    let mounted = mounted.map_err(Failure::plain)?;
    if kept.as_ref().is_none_or(|kept| kept.generation() == 0) {
        print::json(&serde_json::json!({ "mount": mounted.mountpoint().display().to_string() }));
    }
    let (begun, mut is_told) = (Instant::now(), false);
    while signals.pending().next().is_none() && !mounted.is_over() {
        if let Some(kept) = kept.as_ref().filter(|_| !is_told && begun.elapsed() >= WELL) {
            kept.serving();
            is_told = true;
        }
        std::thread::sleep(LOOK);
    }
    drop(mounted);
    if let Some(kept) = kept {
        kept.over(0);
    }
    Ok(ExitCode::SUCCESS)
}
