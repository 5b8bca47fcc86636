//! Measures a growing directory. Creates are counted in windows of time, so that a mean cannot hide
//! a pause.
//!
//! One session makes empty files in one directory, several at a time, up to the wanted number. Then
//! it lists the directory page by page: every file must be listed once.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pando_client::path::{Dir, Paths};
use pando_client::{Client, Options, Transport, Volume};
use pando_types::{Credentials, Errno, Ino, Name};
use serde::Serialize;

use crate::names::{self, FilePath};
use crate::report::rounded;
use crate::{BenchError, Latencies, Percentiles, Phase, Watch};

/// Length of a window.
pub const WINDOW: Duration = Duration::from_millis(100);
/// Entries that each listing request asks for.
const PAGE: u32 = 1024;

/// Parameters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Settings {
    /// Number of files at the end, up to [`names::FILES_MAX`].
    pub files: u64,
    /// Creates in flight, 1 to [`crate::library::IN_FLIGHT_MAX`].
    pub in_flight: u32,
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    /// Creates a second, over the whole run.
    pub ops_per_second: f64,
    /// Creates a second, over the first tenth of the files.
    pub first_tenth_per_second: f64,
    /// Creates a second, over the last tenth of the files.
    pub last_tenth_per_second: f64,
    /// Files made in each whole window of [`WINDOW`].
    pub windows: Vec<u64>,
    /// Latency of a create.
    pub latency_micros: Percentiles,
    /// Microseconds from the request for the first page of the listing to its reply.
    pub first_page_micros: f64,
    /// Duration of the whole listing, in seconds.
    pub listing_seconds: f64,
}

impl Growth {
    /// Files made in the slowest window. 0 if the run was shorter than a window.
    #[must_use]
    pub fn worst_window(&self) -> u64 {
        self.windows.iter().copied().min().unwrap_or_default()
    }
}

/// State that all futures share.
struct Tally<'a> {
    watch: &'a dyn Watch,
    files: u64,
    next: Cell<u64>,
    done: Cell<u64>,
    begun: Instant,
    /// Time of completion of each tenth, since the start.
    tenths: RefCell<Vec<Duration>>,
    windows: RefCell<Vec<u64>>,
    latencies: RefCell<Latencies>,
    error: RefCell<Option<BenchError>>,
}

/// Grows a new directory in the root, and leaves it there. It must be polled in a tokio runtime. It
/// spawns no task.
pub async fn run(
    transport: Arc<dyn Transport>,
    volume: Volume,
    settings: Settings,
    watch: &dyn Watch,
) -> Result<Growth, BenchError> {
    let Settings { files, in_flight } = settings;
    if !(10..=names::FILES_MAX).contains(&files) {
        let why = format!("10 to {} files are possible, not {files}", names::FILES_MAX);
        return Err(BenchError::Workload(why));
    }
    let slots = in_flight.try_into().ok().filter(|_| in_flight <= crate::library::IN_FLIGHT_MAX);
    let slots = slots.ok_or_else(|| {
        BenchError::Workload(format!("{in_flight} operations cannot be in flight"))
    })?;
    let options = Options { slots, ..Options::default() };
    let client = Client::connect_with(transport, volume, options).await;
    let client = client.map_err(BenchError::operation("opening a session", b""))?;
    let path = format!("/{}", names::run_name()).into_bytes();
    let paths = Paths::new(&client, Credentials::ROOT);
    paths.mkdir(&path, 0o755).await.map_err(BenchError::operation("mkdir", &path))?;
    let dir = paths.dir(&path).await.map_err(BenchError::operation("lookup", &path))?;

    let grown = {
        let work = std::pin::pin!(grow(&dir, settings, watch));
        let alive = std::pin::pin!(client.maintain());
        match futures_util::future::select(work, alive).await {
            futures_util::future::Either::Left((grown, _)) => grown?,
            futures_util::future::Either::Right(((), work)) => work.await?,
        }
    };
    let listing = list(&client, &path, files, watch).await?;
    client.close().await.map_err(BenchError::operation("ending a session", b""))?;
    Ok(Growth { first_page_micros: listing.0, listing_seconds: listing.1, ..grown })
}

async fn grow(dir: &Dir<'_>, settings: Settings, watch: &dyn Watch) -> Result<Growth, BenchError> {
    watch.begin("create", settings.files);
    let tally = Tally {
        watch,
        files: settings.files,
        next: Cell::new(0),
        done: Cell::new(0),
        begun: Instant::now(),
        tenths: RefCell::default(),
        windows: RefCell::default(),
        latencies: RefCell::default(),
        error: RefCell::default(),
    };
    let mut all: FuturesUnordered<_> = (0..settings.in_flight).map(|_| tally.work(dir)).collect();
    tokio::task::coop::unconstrained(async { while all.next().await.is_some() {} }).await;
    drop(all);
    watch.end();
    tally.finish()
}

impl Tally<'_> {
    /// Makes files one after another. After each create the future yields. So a reply that arrives
    /// waits for at most as many creates as are in flight. Longer turns would show up as latency of
    /// the waiting creates.
    async fn work(&self, dir: &Dir<'_>) {
        let mut path = FilePath::new(b"", 0);
        while self.error.borrow().is_none() && self.next.get() < self.files {
            if self.watch.is_interrupted() {
                self.error.borrow_mut().get_or_insert(BenchError::Interrupted);
                return;
            }
            path.set(self.next.replace(self.next.get() + 1));
            let begun = Instant::now();
            if let Err(errno) = create(dir, path.name()).await {
                let error = BenchError::operation("create", path.name())(errno);
                self.error.borrow_mut().get_or_insert(error);
                return;
            }
            self.record(begun);
            tokio::task::yield_now().await;
        }
    }

    fn record(&self, begun: Instant) {
        let now = Instant::now();
        self.latencies.borrow_mut().record((now - begun).as_nanos() as u64);
        let since = now - self.begun;
        let window = (since.as_nanos() / WINDOW.as_nanos()) as usize;
        let mut windows = self.windows.borrow_mut();
        if windows.len() <= window {
            windows.resize(window + 1, 0);
            self.watch.advance(self.done.get());
        }
        windows[window] += 1;
        let done = self.done.get() + 1;
        self.done.set(done);
        if done.is_multiple_of(self.files / 10) {
            self.tenths.borrow_mut().push(since);
        }
    }

    fn finish(self) -> Result<Growth, BenchError> {
        if let Some(error) = self.error.into_inner() {
            return Err(error);
        }
        let tenths = self.tenths.into_inner();
        let seconds = tenths[9].as_secs_f64();
        let tenth = (self.files / 10) as f64;
        let mut windows = self.windows.into_inner();
        // The last window is incomplete.
        windows.pop();
        Ok(Growth {
            ops_per_second: (tenth * 10.0 / seconds).round(),
            first_tenth_per_second: (tenth / tenths[0].as_secs_f64()).round(),
            last_tenth_per_second: (tenth / (tenths[9] - tenths[8]).as_secs_f64()).round(),
            windows,
            latency_micros: self.latencies.into_inner().percentiles(),
            first_page_micros: 0.0,
            listing_seconds: 0.0,
        })
    }
}

async fn create(dir: &Dir<'_>, name: &[u8]) -> Result<Ino, Errno> {
    Ok(dir.create(&Name::new(name)?, 0o644).await?.ino)
}

/// Lists the directory and checks that each file is listed once. Returns the microseconds until the
/// first page, and the seconds of the whole listing.
async fn list(
    client: &Client,
    path: &[u8],
    files: u64,
    watch: &dyn Watch,
) -> Result<(f64, f64), BenchError> {
    let failed = |errno| BenchError::operation("readdir", path)(errno);
    let paths = Paths::new(client, Credentials::ROOT);
    let ino = paths.resolve(path).await.map_err(failed)?;
    let mut seen = vec![0u64; (files as usize).div_ceil(64)];
    let (mut position, mut count, mut first) = (0, 0, 0.0);
    watch.begin("list", files);
    let begun = Instant::now();
    loop {
        let page = client.readdir(&Credentials::ROOT, ino, position, PAGE).await;
        let page = page.map_err(failed)?;
        if count == 0 {
            first = begun.elapsed().as_secs_f64() * 1e6;
        }
        let Some(last) = page.last() else { break };
        position = last.position;
        for entry in &page {
            see(&mut seen, files, entry.name.as_bytes())?;
        }
        count += page.len() as u64;
        watch.advance(count);
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    watch.end();
    client.forget(ino, 1);
    match count == files {
        true => Ok((rounded(first, 10.0), rounded(seconds, 1000.0))),
        false => Err(wrong(format!("{count} entries are listed instead of {files}"))),
    }
}

/// Notes a listed name. Fails if it is foreign or was listed before.
fn see(seen: &mut [u64], files: u64, name: &[u8]) -> Result<(), BenchError> {
    let shown = || name.escape_ascii().to_string();
    let file = names::parse(name).filter(|&(client, file)| client == 0 && file < files);
    let Some((_, file)) = file else {
        return Err(wrong(format!("{} is listed, which nobody made", shown())));
    };
    let (word, bit) = (&mut seen[file as usize / 64], 1 << (file % 64));
    if *word & bit != 0 {
        return Err(wrong(format!("{} is listed twice", shown())));
    }
    *word |= bit;
    Ok(())
}

const fn wrong(what: String) -> BenchError {
    BenchError::Wrong { phase: Phase::Readdir, what }
}
