//! Measures partitions that are directories of a local file system, as in GIGA+'s prototype (GIGA+
//! §4.1, §5.5, Figure 10).
//!
//! A file is made by `open(O_CREAT|O_EXCL)` and `close` in the directory of its partition. A full
//! partition is split as in the prototype: its names are read, and those of the upper half move to
//! another directory. Here they move by `rename` within the file system. Nothing is fsynced.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pando_placement::{Secrets, range};
use pando_types::PartitionIndex;
use rustix::fs::{Mode, OFlags, open, openat, renameat};
use serde::Serialize;
use serde_json::json;

use super::directory::{Directory, Due, Rules};
use super::figure::{Axis, Chart, Figure, Nature, Series, Table, whole};
use crate::{BenchError, Watch};

/// Partitions on the server in Figure 10.
pub const PARTITIONS: [u16; 2] = [1, 16];

/// The result of filling one directory, for one kind of storage.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Backend {
    /// The storage of the partitions.
    pub keeps: String,
    /// Number of partitions at which splitting stops.
    pub partitions: u16,
    /// Number of files made.
    pub files: u64,
    /// Seconds for all files, including splits.
    pub seconds: f64,
    /// Number of splits.
    pub splits: u64,
    /// Seconds of that time that went into splits.
    pub splitting: f64,
    /// Creates a second, for each tenth of the files.
    pub tenths: Vec<f64>,
}

/// Measures the rate of each tenth of a run.
#[derive(Debug)]
pub struct Tenths {
    files: u64,
    done: u64,
    begun: Instant,
    last: Instant,
    rates: Vec<f64>,
}

impl Tenths {
    /// Starts the measurement.
    #[must_use]
    pub fn begin(files: u64) -> Self {
        let begun = Instant::now();
        Self { files, done: 0, begun, last: begun, rates: Vec::new() }
    }

    /// Counts one file.
    pub fn made(&mut self) {
        self.done += 1;
        let tenth = self.rates.len() as u64 + 1;
        if self.done >= self.files * tenth / 10 {
            let count = self.done - self.files * (tenth - 1) / 10;
            let now = Instant::now();
            self.rates.push(count as f64 / (now - self.last).as_secs_f64().max(1e-9));
            self.last = now;
        }
    }

    /// Total seconds, and creates a second in each tenth.
    #[must_use]
    pub fn end(self) -> (f64, Vec<f64>) {
        (self.begun.elapsed().as_secs_f64(), self.rates)
    }
}

/// One directory whose partitions are directories of the file system.
struct Local {
    folder: PathBuf,
    directory: Directory,
    secrets: Secrets,
    open: Vec<Option<OwnedFd>>,
    splitting: f64,
}

/// Fills a directory in a new folder within `parent`. It leaves the folder there, since a removal
/// of so many files slows a file system down for a while. `keeps` is the file system's name.
pub fn run(
    parent: &Path,
    keeps: &str,
    partitions: u16,
    files: u64,
    threshold: u64,
    watch: &dyn Watch,
) -> Result<Backend, BenchError> {
    let folder = parent.join(format!("in-{partitions}"));
    fs::create_dir(&folder).map_err(BenchError::io("make", &folder))?;
    let rules = Rules { servers: 1, per_server: partitions, threshold, is_jittered: false };
    let mut local = Local {
        folder,
        directory: Directory::new(rules),
        secrets: Secrets { dir: [1; 32], name: [2; 16] },
        open: Vec::new(),
        splitting: 0.0,
    };
    local.make(PartitionIndex(0))?;
    watch.begin(keeps, files);
    let mut tenths = Tenths::begin(files);
    for number in 0..files {
        local.create(&format!("file.{number:08}"))?;
        tenths.made();
        if number % 1024 == 0 {
            watch.advance(number);
            if watch.is_interrupted() {
                return Err(BenchError::Interrupted);
            }
        }
    }
    watch.end();
    let (seconds, rates) = tenths.end();
    Ok(Backend {
        keeps: keeps.to_owned(),
        partitions,
        files,
        seconds,
        splits: local.directory.moved.splits_here,
        splitting: local.splitting,
        tenths: rates,
    })
}

impl Local {
    fn path(&self, i: PartitionIndex) -> PathBuf {
        self.folder.join(format!("p{}", i.0))
    }

    fn make(&mut self, i: PartitionIndex) -> Result<(), BenchError> {
        let path = self.path(i);
        fs::create_dir(&path).map_err(BenchError::io("make", &path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(&path, flags, Mode::empty())
            .map_err(|errno| BenchError::io("open", &path)(errno.into()))?;
        let length = self.open.len().max(i.0 as usize + 1);
        self.open.resize_with(length, || None);
        self.open[i.0 as usize] = Some(fd);
        Ok(())
    }

    fn fd(&self, i: PartitionIndex) -> Result<&OwnedFd, BenchError> {
        let missing = || BenchError::io("find", &self.path(i))(io::ErrorKind::NotFound.into());
        self.open.get(i.0 as usize).and_then(Option::as_ref).ok_or_else(missing)
    }

    fn create(&mut self, name: &str) -> Result<(), BenchError> {
        let order = self.secrets.order(name.as_bytes());
        let (i, _) = self.directory.locate(order);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = openat(self.fd(i)?, name, flags, mode)
            .map_err(|errno| BenchError::io("create", &self.path(i).join(name))(errno.into()))?;
        drop(file);
        self.directory.add(i);
        while let Some(due) = self.directory.due(i) {
            let begun = Instant::now();
            self.split(&due)?;
            self.splitting += begun.elapsed().as_secs_f64();
        }
        Ok(())
    }

    fn split(&mut self, due: &Due) -> Result<(), BenchError> {
        self.make(due.to)?;
        let (path, orders) = (self.path(due.from), range(due.to, due.radix));
        let mut moving = Vec::new();
        for entry in fs::read_dir(&path).map_err(BenchError::io("list", &path))? {
            let name = entry.map_err(BenchError::io("list", &path))?.file_name();
            let order = self.secrets.order(name.as_encoded_bytes());
            if orders.contains(&order.0) {
                moving.push(name);
            }
        }
        for name in &moving {
            renameat(self.fd(due.from)?, name, self.fd(due.to)?, name)
                .map_err(|errno| BenchError::io("move", &path.join(name))(errno.into()))?;
        }
        self.directory.split(due, moving.len() as u64);
        self.directory.own(due);
        Ok(())
    }
}

/// A row of Table 1: the create rate of one system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Baseline {
    /// The system.
    pub what: String,
    /// The paper's row to compare with, and its rate. `None`: Table 1 has no such row.
    pub paper: Option<(String, f64)>,
    /// Creates a second. `None`: measured elsewhere.
    pub rate: Option<f64>,
}

/// Figure 10 and Table 1.
#[must_use]
pub fn figure(backends: &[Backend], baselines: &[Baseline]) -> Figure {
    let tenths = backends.iter().map(|run| {
        let points = run
            .tenths
            .iter()
            .zip(1..)
            .map(|(rate, tenth)| (f64::from(tenth) / 10.0 * run.files as f64, *rate));
        Series::line(format!("{}, {} partitions", run.keeps, run.partitions), points)
    });
    Figure {
        name: "figure-10".to_owned(),
        title: "what keeps the partitions (§5.5, Figure 10), and one server alone (Table 1)".to_owned(),
        nature: Nature::Measured,
        tables: vec![seconds(backends), ratios(backends), table_1(baselines)],
        same: "what lies below decides how fast one server is, and how much splitting costs it".to_owned(),
        different: "one server and one thread instead of 16 clients' processes, ext4 instead of ext3 and ReiserFS; our store keeps all \
                    partitions in one tree in their order, so that a split within a server moves nothing"
            .to_owned(),
        data: json!({ "backends": backends, "baselines": baselines }),
        charts: vec![Chart {
            file: "figure-10".to_owned(),
            title: "Figure 10: creates on one server, by what keeps the partitions".to_owned(),
            x: Axis::linear("files in the directory"),
            y: Axis::linear("creates/s"),
            series: tenths.collect(),
        }],
    }
}

fn seconds(backends: &[Backend]) -> Table {
    let mut table = Table::new(
        "MEASURED: one server, one thread, nothing fsynced; Figure 10's 16 servers made 400,000 files each",
        [
            "kept in",
            "partitions",
            "files",
            "seconds",
            "splits",
            "in splits, s",
            "first tenth/s",
            "last tenth/s",
        ],
    );
    for run in backends {
        let at = |rate: Option<&f64>| rate.map_or("–".to_owned(), |rate| whole(*rate));
        table.row([
            run.keeps.clone(),
            run.partitions.to_string(),
            whole(run.files as f64),
            format!("{:.2}", run.seconds),
            run.splits.to_string(),
            format!("{:.3}", run.splitting),
            at(run.tenths.first()),
            at(run.tenths.last()),
        ]);
    }
    table
}

/// Run times with 16 partitions, relative to one.
fn ratios(backends: &[Backend]) -> Table {
    let mut paper = Table::new(
        "run time with 16 partitions, as a multiple of that with one",
        ["kept in", "the paper (§5.5)", "here"],
    );
    let mut kept: Vec<&str> = backends.iter().map(|run| run.keeps.as_str()).collect();
    kept.dedup();
    for keeps in kept {
        let seconds = |partitions| {
            let of = |run: &&Backend| run.keeps == keeps && run.partitions == partitions;
            backends.iter().find(of).map_or(f64::NAN, |run| run.seconds)
        };
        let ratio = format!("{:.2}", seconds(PARTITIONS[1]) / seconds(PARTITIONS[0]));
        paper.row([keeps.to_owned(), "–".to_owned(), ratio]);
    }
    let theirs = [
        ("ext3 (170 s with one)", "insensitive to the number of partitions: ~ 1"),
        ("ReiserFS (100 s with one)", "> 4 times ext3's time with 16, of over 600 s: ~ 6"),
        ("tmpfs (70 s with one)", "not told"),
    ];
    for (keeps, ratio) in theirs {
        paper.row([keeps.to_owned(), ratio.to_owned(), "–".to_owned()]);
    }
    paper
}

fn table_1(baselines: &[Baseline]) -> Table {
    let mut one = Table::new(
        "MEASURED: one directory on one server, beside Table 1",
        ["what", "creates/s", "Table 1"],
    );
    for line in baselines {
        let theirs = line.paper.as_ref();
        one.row([
            line.what.clone(),
            line.rate.map_or("–".to_owned(), whole),
            theirs.map_or("–".to_owned(), |(what, rate)| format!("{what}: {}", whole(*rate))),
        ]);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    #[test]
    fn a_local_file_system_keeps_so_many_partitions() {
        let temp = tempfile::tempdir().unwrap();
        for partitions in PARTITIONS {
            let run = run(temp.path(), "files", partitions, 1_000, 50, &Silent).unwrap();
            assert_eq!((run.splits, run.tenths.len()), (u64::from(partitions) - 1, 10));
            assert!(run.tenths.iter().all(|rate| *rate > 0.0) && run.seconds > 0.0);
            let kept = fs::read_dir(temp.path().join(format!("in-{partitions}"))).unwrap();
            assert_eq!(kept.count(), usize::from(partitions));
        }
    }

    #[test]
    fn names_are_where_their_order_says() {
        let temp = tempfile::tempdir().unwrap();
        run(temp.path(), "files", 16, 1_000, 50, &Silent).unwrap();
        let secrets = Secrets { dir: [1; 32], name: [2; 16] };
        let (mut names, mut directories) = (0, 0);
        for partition in fs::read_dir(temp.path().join("in-16")).unwrap() {
            let path = partition.unwrap().path();
            let index: u64 = path.file_name().unwrap().to_str().unwrap()[1..].parse().unwrap();
            directories += 1;
            for name in fs::read_dir(path).unwrap() {
                let order = secrets.order(name.unwrap().file_name().as_encoded_bytes());
                assert_eq!(pando_placement::hash_of_order(order) % 16, index);
                names += 1;
            }
        }
        assert_eq!((names, directories), (1_000, 16));
    }

    #[test]
    fn tenths_are_of_all() {
        for files in [10, 11, 99] {
            let mut tenths = Tenths::begin(files);
            (0..files).for_each(|_| tenths.made());
            assert_eq!(tenths.end().1.len(), 10);
        }
    }
}
