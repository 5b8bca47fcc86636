//! Runs one phase of all clients.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pando_client::path::{Dir, Paths};
use pando_client::{Client, IfThere};
use pando_types::{Attr, Credentials, Errno, FileKind, Name};

use super::Naming;
use super::tree::Tree;
use crate::names::{self, FilePath};
use crate::report::rounded;
use crate::{BenchError, Latencies, Phase, PhaseReport, Watch, Workload};

/// Interval of progress reports to the watch.
pub(crate) const TELL: Duration = Duration::from_millis(100);
/// Interval of checks for an interrupt while no operation ends.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for operations in flight after an interrupt.
const DRAIN_FOR: Duration = Duration::from_secs(5);
/// Operations after which a future yields, if none of them had to wait.
const TURN: u32 = 64;
const MODE: u16 = 0o644;

/// A client and its files.
pub(super) struct Lane<'a> {
    client: &'a Client,
    index: u32,
    paths: Paths<'a>,
    /// The open directory, if files are named by handle.
    dir: Option<Dir<'a>>,
    directory: &'a [u8],
    /// Inode numbers as creates returned them, by file.
    inos: Vec<Cell<u64>>,
    order: RefCell<Vec<u32>>,
    next: Cell<usize>,
}

/// State that all futures of a phase share.
struct Tally<'a> {
    watch: &'a dyn Watch,
    latencies: RefCell<Latencies>,
    done: Cell<u64>,
    tell_at: Cell<Instant>,
    error: RefCell<Option<BenchError>>,
    is_over: Cell<bool>,
}

impl<'a> Lane<'a> {
    pub(super) async fn open(
        client: &'a Client,
        index: u32,
        tree: &'a Tree,
        workload: &Workload,
        naming: Naming,
    ) -> Result<Self, BenchError> {
        let paths = Paths::new(client, Credentials::ROOT);
        let directory = tree.of(index);
        let dir = match naming {
            Naming::Path => None,
            Naming::Handle => {
                let dir = paths.dir(directory).await;
                Some(dir.map_err(BenchError::operation("lookup", directory))?)
            }
        };
        Ok(Self {
            client,
            index,
            paths,
            dir,
            directory,
            inos: vec![Cell::new(0); workload.files_of(index) as usize],
            order: RefCell::default(),
            next: Cell::new(0),
        })
    }

    /// Takes the next file that no future has taken.
    fn take(&self) -> Option<u32> {
        let next = self.next.get();
        let file = self.order.borrow().get(next).copied()?;
        self.next.set(next + 1);
        Some(file)
    }

    /// Does the operations of one future, one after another.
    async fn work(&self, phase: Phase, tally: &Tally<'_>) {
        let mut path = FilePath::new(self.directory, self.index);
        let mut begun = Instant::now();
        let mut turn = 0;
        while !tally.is_over()
            && let Some(file) = self.take()
        {
            path.set(u64::from(file));
            if let Err(error) = self.operation(phase, &path, file as usize).await {
                return tally.fail(error);
            }
            begun = tally.record(begun, 1);
            turn += 1;
            if turn == TURN {
                turn = 0;
                tokio::task::yield_now().await;
                begun = Instant::now();
            }
        }
    }

    async fn operation(
        &self,
        phase: Phase,
        path: &FilePath,
        file: usize,
    ) -> Result<(), BenchError> {
        let failed = |errno| BenchError::operation(phase.name(), path.path())(errno);
        match phase {
            Phase::Create => {
                let attr = self.create(path).await.map_err(failed)?;
                self.inos[file].set(attr.ino.0);
                check(phase, path, &attr, attr.ino.0)
            }
            Phase::Stat => {
                let attr = self.stat(path).await.map_err(failed)?;
                check(phase, path, &attr, self.inos[file].get())
            }
            Phase::Unlink => self.unlink(path).await.map_err(failed),
            Phase::Readdir => Err(failed(Errno::EINVAL)),
        }
    }

    async fn create(&self, path: &FilePath) -> Result<Attr, Errno> {
        match &self.dir {
            Some(dir) => dir.create(&Name::new(path.name())?, MODE).await,
            None => Ok(self.paths.create(path.path(), MODE, IfThere::Refuse).await?.0),
        }
    }

    async fn stat(&self, path: &FilePath) -> Result<Attr, Errno> {
        match &self.dir {
            Some(dir) => dir.stat(&Name::new(path.name())?).await,
            None => self.paths.lstat(path.path()).await,
        }
    }

    async fn unlink(&self, path: &FilePath) -> Result<(), Errno> {
        match &self.dir {
            Some(dir) => dir.unlink(&Name::new(path.name())?).await,
            None => self.paths.unlink(path.path()).await,
        }
    }

    /// Lists the whole directory once.
    async fn list(&self, expected: u64, tally: &Tally<'_>) {
        let begun = Instant::now();
        let entries = match &self.dir {
            Some(dir) => dir.readdir().await,
            None => self.paths.readdir(self.directory).await,
        };
        match entries {
            Ok(entries) if entries.len() as u64 == expected => {
                tally.record(begun, expected);
            }
            Ok(entries) => tally.fail(BenchError::Wrong {
                phase: Phase::Readdir,
                what: format!("{} entries instead of {expected}", entries.len()),
            }),
            Err(errno) => tally.fail(BenchError::operation("readdir", self.directory)(errno)),
        }
    }
}

fn check(phase: Phase, path: &FilePath, attr: &Attr, ino: u64) -> Result<(), BenchError> {
    let is_right = attr.ino.0 == ino
        && attr.kind == FileKind::Regular
        && (attr.mode, attr.nlink, attr.size) == (MODE, 1, 0);
    if is_right {
        return Ok(());
    }
    let what = format!("{} made as inode {ino} is {attr:?}", path.path().escape_ascii());
    Err(BenchError::Wrong { phase, what })
}

/// Fails if inode numbers in the listing differ from those that creates returned.
pub(super) fn compare(
    lanes: &[Lane<'_>],
    listed: &[Vec<u64>],
    phase: Phase,
) -> Result<(), BenchError> {
    for (lane, listed) in lanes.iter().zip(listed) {
        let mut pairs = lane.inos.iter().map(Cell::get).zip(listed);
        if let Some((made, listed)) = pairs.find(|(made, listed)| made != *listed) {
            let what = format!("inode {made} is listed as {listed}");
            return Err(BenchError::Wrong { phase, what });
        }
    }
    Ok(())
}

impl Tally<'_> {
    fn is_over(&self) -> bool {
        self.is_over.get() || self.watch.is_interrupted()
    }

    /// Records operations that began at `begun` and end now. Returns the present time.
    fn record(&self, begun: Instant, operations: u64) -> Instant {
        let now = Instant::now();
        self.latencies.borrow_mut().record((now - begun).as_nanos() as u64);
        self.done.set(self.done.get() + operations);
        if now >= self.tell_at.get() {
            self.tell_at.set(now + TELL);
            self.watch.advance(self.done.get());
        }
        now
    }

    /// Notes an error. Other futures end after their present operation.
    fn fail(&self, error: BenchError) {
        self.is_over.set(true);
        self.error.borrow_mut().get_or_insert(error);
    }
}

/// Runs a phase on all lanes.
pub(super) async fn run(
    lanes: &[Lane<'_>],
    workload: &Workload,
    phase: Phase,
    in_flight: u32,
    watch: &dyn Watch,
) -> Result<PhaseReport, BenchError> {
    let tally = Tally {
        watch,
        latencies: RefCell::default(),
        done: Cell::new(0),
        tell_at: Cell::new(Instant::now()),
        error: RefCell::new(None),
        is_over: Cell::new(false),
    };
    for lane in lanes {
        *lane.order.borrow_mut() = names::order(workload, lane.index, phase);
        lane.next.set(0);
    }
    watch.begin(phase.name(), workload.operations(phase));
    let (sent_before, cpu_before) = (requests(lanes.iter().map(|lane| lane.client)), cpu_nanos());
    let begun = Instant::now();
    if phase == Phase::Readdir {
        let each = lanes.iter().map(|lane| (lane, workload.listed_by(lane.index)));
        drive(each.map(|(lane, expected)| lane.list(expected, &tally)), watch).await?;
    } else {
        let each = lanes.iter().flat_map(|lane| (0..in_flight).map(move |_| lane));
        drive(each.map(|lane| lane.work(phase, &tally)), watch).await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sent = requests(lanes.iter().map(|lane| lane.client)) - sent_before;
    let cpu = cpu_nanos() - cpu_before;
    watch.end();
    if let Some(error) = tally.error.take() {
        return Err(error);
    }
    if watch.is_interrupted() {
        return Err(BenchError::Interrupted);
    }
    let operations = tally.done.get();
    let mut report = PhaseReport::new(phase, operations, seconds, &tally.latencies.borrow());
    let each = |total: f64| Some(rounded(total / operations.max(1) as f64, 1000.0));
    report.requests_per_operation = each(sent as f64);
    report.cpu_micros_per_operation = each(cpu as f64 / 1000.0);
    Ok(report)
}

/// Number of requests that these clients have sent, without renewals of leases.
pub(crate) fn requests<'a>(clients: impl Iterator<Item = &'a Client>) -> u64 {
    // Leases are renewed at any load, so renewals do not count.
    let of_load = |(name, count): (&str, u64)| if name == "Renew" { 0 } else { count };
    clients.flat_map(|client| client.counters().requests_by_op()).map(of_load).sum()
}

/// CPU nanoseconds that this process has used.
pub(crate) fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Runs all futures to their end. After an interrupt it stops once `DRAIN_FOR` has passed.
pub(crate) async fn drive<F: Future<Output = ()>>(
    futures: impl Iterator<Item = F>,
    watch: &dyn Watch,
) -> Result<(), BenchError> {
    // With tokio's cooperative budget, futures would wait although their answers have come.
    tokio::task::coop::unconstrained(async {
        let mut all: FuturesUnordered<F> = futures.collect();
        let mut drain_until = None;
        loop {
            match tokio::time::timeout(LOOK, all.next()).await {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(_) if watch.is_interrupted() => {
                    let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_FOR);
                    if Instant::now() >= until {
                        return Err(BenchError::Interrupted);
                    }
                }
                Err(_) => {}
            }
        }
    })
    .await
}
