//! One run: its folder, its steps, and what is printed.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use tempfile::TempDir;

use super::args::BenchArgs;
use super::measured::{MIB, Measured, Step};
use super::steps::Work;
use crate::console::output;
use crate::console::text::{bytes, several};
use crate::failure::Failure;
use crate::mounts;

pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let interrupted = listen()?;
    let folder = folder(&args.path)?;
    let steps = steps(args, folder.path(), &interrupted);
    let path = folder.path().to_owned();
    let removed = folder.close().map_err(|error| {
        Failure::plain(format!(
            "cannot remove {}: {error}. Remove it with `rm -rf`: it holds only files of this run",
            path.display()
        ))
    });
    let steps = steps?;
    removed?;
    if args.json {
        let mount = mount(&args.path);
        output::json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "path": args.path,
            "file_system": mount.as_ref().map(|mount| &mount.kind),
            "volume": mount.as_ref().and_then(mounts::Mount::volume),
            "threads": args.threads,
            "files": args.files,
            "file_bytes": args.file_size,
            "large_file_bytes": u64::from(args.large) * MIB,
            "steps": steps,
        }));
    }
    Ok(ExitCode::SUCCESS)
}

/// A flag that the first signal sets. A second signal ends the process at once.
fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 1, interrupted.clone())
            .and_then(|_| flag::register(signal, interrupted.clone()))
            .map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
    }
    Ok(interrupted)
}

fn folder(path: &Path) -> Result<TempDir, Failure> {
    let shown = path.display();
    if !path.is_dir() {
        return Err(Failure::plain(format!(
            "there is no folder {shown}: name one that exists on a mount"
        )));
    }
    TempDir::with_prefix_in("pando-bench-", path).map_err(|error| {
        Failure::plain(format!(
            "cannot make a folder in {shown}: {error}: name a folder that you may write to"
        ))
    })
}

/// Does all steps. Prints the figures of each when it is done, unless JSON is wanted.
fn steps(
    args: &BenchArgs,
    folder: &Path,
    interrupted: &AtomicBool,
) -> Result<Vec<Measured>, Failure> {
    let tell = |line: &str| {
        if !args.json {
            output::line(line);
        }
    };
    tell(&title(args));
    tell(&Measured::heading());
    let work = Work { args, folder, interrupted, failed: AtomicBool::new(false) };
    let large = if args.large > 0 { &Step::LARGE[..] } else { &[] };
    let mut all = Vec::new();
    for &step in Step::SMALL.iter().chain(large) {
        let measured = work.step(step)?;
        tell(&measured.line());
        all.push(measured);
    }
    Ok(all)
}

fn title(args: &BenchArgs) -> String {
    let what = match mount(&args.path) {
        Some(mount) => match mount.volume() {
            Some(volume) => format!(" ({}, volume {volume})", mount.kind),
            None => format!(" ({})", mount.kind),
        },
        None => String::new(),
    };
    let large = match args.large {
        0 => String::new(),
        large => format!("; a large file of {} for each thread", bytes(u64::from(large) * MIB)),
    };
    format!(
        "{}{what}: {}, {} of {} in one folder{large}\n",
        args.path.display(),
        several(args.threads.into(), "thread", "threads"),
        several(args.files, "file", "files"),
        bytes(args.file_size.into()),
    )
}

fn mount(path: &Path) -> Option<mounts::Mount> {
    mounts::of(&path.canonicalize().ok()?).ok()?
}
