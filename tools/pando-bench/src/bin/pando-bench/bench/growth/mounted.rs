//! Lists the grown directory through a mount with common programs, and measures that.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::resident::resident;
use crate::bench::args::GrowthArgs;
use crate::bench::show;
use crate::output::failure::Failure;
use crate::output::text::bytes;
use crate::volume::program::option;
use crate::volume::servers::Server;

/// Times and memory of listing a directory through a mount whose process has not seen it before.
#[derive(Clone, Debug, Serialize)]
pub struct Mounted {
    /// Time from opening the directory to its first names: one `readdir` buffer of the C library.
    first_names_micros: f64,
    /// Time of `ls -U | head`, with the start and end of both programs.
    head_micros: f64,
    /// Time of a whole `ls -U`.
    listing_seconds: f64,
    /// Resident memory of the process that serves the mount, before the whole listing.
    memory_before_bytes: u64,
    /// The highest resident memory that was sampled during the listing.
    memory_most_bytes: u64,
}

impl Mounted {
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        vec![
            ("mount: first names, µs", show::micros(self.first_names_micros)),
            ("mount: ls -U | head, µs", show::micros(self.head_micros)),
            ("mount: ls -U, s", format!("{:.2}", self.listing_seconds)),
            ("mount: memory before it", bytes(self.memory_before_bytes)),
            ("mount: most meanwhile", bytes(self.memory_most_bytes)),
        ]
    }
}

/// Serves and mounts the volume, which has one directory, and lists that directory.
pub fn list(mut server: Server, args: &GrowthArgs) -> Result<Mounted, Failure> {
    let threshold = option("--split-threshold", Some(args.split_threshold));
    let durability = option("--durability", Some(args.durability.name()));
    server.up(threshold.chain(durability))?;
    let directory = only_entry(server.mountpoint())?;
    let first_names_micros = micros(|| first_name(&directory))?;
    let head_micros = micros(|| head(&directory))?;
    let memory = || server.pid().map_or(0, resident);
    let memory_before_bytes = memory();
    let mut memory_most_bytes = memory_before_bytes;
    let begun = Instant::now();
    let listed = count(&directory, || memory_most_bytes = memory_most_bytes.max(memory()));
    let listing_seconds = begun.elapsed().as_secs_f64();
    let (listed, files) = (listed.map_err(|error| failed(&error))?, args.files);
    if listed != files {
        return Err(Failure::plain(format!("`ls -U` lists {listed} names instead of {files}")));
    }
    Ok(Mounted {
        first_names_micros,
        head_micros,
        listing_seconds: (listing_seconds * 1e3).round() / 1e3,
        memory_before_bytes,
        memory_most_bytes,
    })
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::plain(format!("cannot list the directory through its mount: {error}"))
}

fn micros(act: impl FnOnce() -> std::io::Result<()>) -> Result<f64, Failure> {
    let begun = Instant::now();
    act().map_err(|error| failed(&error))?;
    Ok((begun.elapsed().as_secs_f64() * 1e7).round() / 10.0)
}

fn only_entry(folder: &Path) -> Result<PathBuf, Failure> {
    let mut entries = std::fs::read_dir(folder).map_err(|error| failed(&error))?;
    let first = entries.next().transpose().map_err(|error| failed(&error))?;
    first.map(|entry| entry.path()).ok_or_else(|| Failure::plain("the volume is empty"))
}

fn first_name(directory: &Path) -> std::io::Result<()> {
    std::fs::read_dir(directory)?.next().transpose().map(drop)
}

/// Starts `ls -U` directly, so that no alias of the user applies.
fn ls(directory: &Path) -> std::io::Result<(Child, ChildStdout)> {
    let mut command = Command::new("ls");
    let mut child = command.arg("-U").arg(directory).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("was asked for");
    Ok((child, stdout))
}

fn head(directory: &Path) -> std::io::Result<()> {
    let (mut child, names) = ls(directory)?;
    let status = Command::new("head").stdin(names).stdout(Stdio::null()).status()?;
    // `ls` ends by SIGPIPE, since `head` has closed the pipe. So its status does not count.
    child.wait()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other("`head` has failed")) }
}

/// Counts the lines of `ls -U`. It calls `between` at intervals.
fn count(directory: &Path, mut between: impl FnMut()) -> std::io::Result<u64> {
    let (mut child, mut names) = ls(directory)?;
    let (mut lines, mut buffer) = (0, vec![0; 1 << 16]);
    for reads in 0_u64.. {
        let length = names.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
        if reads % 1024 == 0 {
            between();
        }
    }
    between();
    if child.wait()?.success() { Ok(lines) } else { Err(std::io::Error::other("`ls` has failed")) }
}
