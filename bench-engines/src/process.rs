//! Facts from the kernel about this process and about files.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::Advice;
use rustix::time::{ClockId, clock_gettime};

/// Memory of this process in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Resident memory, including mapped files.
    pub all: u64,
    /// Resident memory without mapped files.
    pub own: u64,
}

/// The present memory of this process.
pub fn memory() -> Result<Memory> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kilobytes = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.with_context(|| format!("/proc/self/status has no {name}"))?.parse::<u64>()?
            * 1024)
    };
    Ok(Memory { all: kilobytes("VmRSS:")?, own: kilobytes("RssAnon:")? })
}

/// Measures time, CPU time and page faults since its start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
    cpu: Duration,
    faults: u64,
}

/// The figures of a stopwatch.
#[derive(Debug, Clone, Copy)]
pub struct Lap {
    /// Elapsed seconds.
    pub seconds: f64,
    /// CPU seconds of all threads.
    pub cpu_seconds: f64,
    /// Page faults that needed no disk: mostly pages touched for the first time.
    pub faults: u64,
}

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Result<Stopwatch> {
        Ok(Stopwatch { faults: faults()?, cpu: cpu_time(), start: Instant::now() })
    }

    /// The figures since the start.
    pub fn lap(&self) -> Result<Lap> {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_seconds = (cpu_time() - self.cpu).as_secs_f64();
        Ok(Lap { seconds, cpu_seconds, faults: faults()? - self.faults })
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Number of page faults of this process that needed no disk.
fn faults() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The fields after the process name, which may contain anything: the state is number 0.
    let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(7));
    Ok(field.context("/proc/self/stat is too short")?.parse()?)
}

/// Bytes that this process has made the kernel write: pages that it changed. Pages of files that it
/// removed before they were written do not count.
pub fn written_bytes() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io")?;
    let cancelled = io_count(&io, "cancelled_write_bytes: ")?;
    Ok(io_count(&io, "write_bytes: ")?.saturating_sub(cancelled))
}

/// Bytes that this process has made the kernel read from the disk.
pub fn read_bytes() -> Result<u64> {
    io_count(&fs::read_to_string("/proc/self/io")?, "read_bytes: ")
}

fn io_count(io: &str, name: &str) -> Result<u64> {
    let number = io.lines().find_map(|line| line.strip_prefix(name));
    Ok(number.with_context(|| format!("/proc/self/io has no {name}"))?.parse()?)
}

/// Bytes that the files of a folder take on disk.
pub fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        sum += if facts.is_dir() { disk_bytes(&entry.path())? } else { facts.blocks() * 512 };
    }
    Ok(sum)
}

/// Syncs all files of a folder.
pub fn sync(folder: &Path) -> Result<()> {
    each_file(folder, &|file| Ok(file.sync_data()?))
}

/// Syncs all files of a folder, and drops them from the page cache.
pub fn evict(folder: &Path) -> Result<()> {
    each_file(folder, &|file| {
        file.sync_all()?;
        Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

/// Calls `work` for each file of a folder. It skips files that are removed meanwhile.
fn each_file(folder: &Path, work: &dyn Fn(&File) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, work)?;
            continue;
        }
        match File::open(&path) {
            Ok(file) => work(&file).with_context(|| path.display().to_string())?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    Ok(())
}

/// Model and number of CPUs, and the kernel, for the results.
pub fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model =
        model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {model}, Linux {}", kernel.trim())
}

/// Mean number of runnable processes in the last minute. More than one means that other programs
/// use the machine.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}
