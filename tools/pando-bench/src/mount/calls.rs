//! The system calls of one worker.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, open, statx, unlink};

use super::worker::Task;
use crate::names::FilePath;
use crate::{BenchError, Latencies, Phase};

/// Interval of progress reports.
const TELL: Duration = Duration::from_millis(100);

/// Runs a phase. Returns the latencies and the number of operations. It calls `tell` at intervals
/// with the number of operations so far.
pub(super) fn run(
    task: &Task,
    phase: Phase,
    order: &[u32],
    inos: &[u64],
    mut tell: impl FnMut(u64) -> io::Result<()>,
) -> Result<(Latencies, u64), BenchError> {
    let mut latencies = Latencies::default();
    let mut begun = Instant::now();
    if phase == Phase::Readdir {
        let listed = list(task)?;
        latencies.record(nanos(begun.elapsed()));
        return Ok((latencies, listed));
    }
    let mut path = FilePath::new(task.directory.as_os_str().as_bytes(), task.client);
    let mut tell_at = begun + TELL;
    for (&file, done) in order.iter().zip(1..) {
        path.set(u64::from(file));
        call(phase, path.path(), inos.get(file as usize).copied())?;
        let now = Instant::now();
        latencies.record(nanos(now - begun));
        begun = now;
        if now >= tell_at {
            tell_at = now + TELL;
            tell(done).map_err(|source| failed("tell progress", b"")(source))?;
        }
    }
    Ok((latencies, order.len() as u64))
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

fn failed<E: Into<io::Error>>(what: &'static str, path: &[u8]) -> impl FnOnce(E) -> BenchError {
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_owned()));
    move |error| BenchError::Call { what, path, source: error.into() }
}

fn call(phase: Phase, path: &[u8], ino: Option<u64>) -> Result<(), BenchError> {
    match phase {
        Phase::Create => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            open(path, flags, mode).map(drop).map_err(failed("create", path))
        }
        Phase::Stat => stat(path, ino),
        Phase::Unlink => unlink(path).map_err(failed("unlink", path)),
        Phase::Readdir => unreachable!("a listing is of a directory"),
    }
}

fn stat(path: &[u8], ino: Option<u64>) -> Result<(), BenchError> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
        .map_err(failed("stat", path))?;
    let is_file = FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::RegularFile;
    if is_file && found.stx_size == 0 && Some(found.stx_ino) == ino {
        return Ok(());
    }
    let what = format!(
        "{} was listed as inode {} and is inode {}, mode {:o}, {} bytes",
        path.escape_ascii(),
        ino.unwrap_or_default(),
        found.stx_ino,
        found.stx_mode,
        found.stx_size
    );
    Err(BenchError::Wrong { phase: Phase::Stat, what })
}

/// Lists the directory once. Returns the number of entries besides `.` and `..`.
fn list(task: &Task) -> Result<u64, BenchError> {
    let shown = task.directory.as_os_str().as_bytes();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        open(&task.directory, flags, Mode::empty()).map_err(failed("opendir", shown))?;
    let mut listed = 0;
    for entry in Dir::new(directory).map_err(failed("opendir", shown))? {
        let entry = entry.map_err(failed("readdir", shown))?;
        listed += u64::from(!matches!(entry.file_name().to_bytes(), b"." | b".."));
    }
    let workload = &task.workload;
    let expected = workload.listed_by(task.client);
    if listed == expected {
        return Ok(listed);
    }
    let what = format!("{listed} entries instead of {expected}");
    Err(BenchError::Wrong { phase: Phase::Readdir, what })
}
