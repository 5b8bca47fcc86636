//! Real shards in this process, as `pando up` runs them. Threads with a client each create files in
//! one directory, and note when each create finished (Figures 4 and 5). If there are more of them
//! than CPUs, shards and threads only take turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pando_bench::Watch;
use pando_bench::repro::des::Window;
use pando_bench::repro::growth::MeasuredGrowth;
use pando_client::path::Paths;
use pando_client::{Client, Volume, block_on};
use pando_server::host::HostOptions;
use pando_server::{Folder, Host};
use pando_types::op::{Head, Op, Request};
use pando_types::reply::Body;
use pando_types::{Credentials, DirId, Name, ShardIndex};
use tempfile::TempDir;

use crate::output::failure::Failure;
use crate::volume::here::Direct;
use crate::volume::make;

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(10);
/// Interval of checks whether all splits are over.
const LOOK: Duration = Duration::from_millis(2);

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub shards: u16,
    pub threads: u32,
    /// Files of all threads together.
    pub files: u64,
    /// Entries beyond which a partition splits.
    pub threshold: u64,
}

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Run {
    pub seconds: f64,
    pub files: u64,
    pub growth: MeasuredGrowth,
}

impl Run {
    /// Creates a second, over the whole run.
    pub fn rate(&self) -> f64 {
        self.files as f64 / self.seconds.max(1e-9)
    }
}

/// The shards of a temporary volume. Fields are dropped in this order.
struct Running {
    host: Arc<Host>,
    volume: Volume,
    _folder: TempDir,
}

impl Running {
    fn start(load: &Load) -> Result<Self, Failure> {
        let temporary = make::temporary("pando-repro-")?;
        let folder = Folder::new(&temporary.path().join("volume"))?;
        let superblock = make::format(&folder, load.shards)?;
        let options = HostOptions { split_threshold: load.threshold, ..HostOptions::default() };
        let (host, _) = Host::start(&folder, &superblock, &options, &superblock.all_shards())?;
        let volume =
            Volume { id: superblock.id(), secrets: superblock.secrets(), map: superblock.map() };
        Ok(Self { host: Arc::new(host), volume, _folder: temporary })
    }

    fn client(&self) -> Result<Client, Failure> {
        let transport = Arc::new(Direct(self.host.clone()));
        block_on(Client::connect(transport, self.volume.clone()))
            .map_err(|errno| Failure::plain(format!("opening a session: {}", errno.symbol())))
    }

    /// Number of partitions of a directory that a shard owns.
    fn partitions(&self, dir: DirId) -> usize {
        let owned = |shard| {
            let request = Request {
                head: Head::default(),
                credentials: Credentials::ROOT,
                op: Op::InspectDir(ShardIndex(shard), dir),
                trail: None,
            };
            match block_on(self.host.call(ShardIndex(shard), request)).map(|reply| reply.result) {
                Some(Ok(Body::Inspected(list))) => {
                    list.iter().filter(|it| it.state == "owned").count()
                }
                _ => 0,
            }
        };
        (0..self.volume.map.shards).map(owned).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.host.stop();
    }
}

/// For each create of one thread: its end in nanoseconds since the start, and its duration in
/// nanoseconds.
type Times = Vec<(u64, u32)>;

/// Fills a directory from all threads.
pub fn run(load: Load, watch: &dyn Watch) -> Result<Run, Failure> {
    let running = Running::start(&load)?;
    let clients: Vec<Client> =
        (0..load.threads).map(|_| running.client()).collect::<Result<_, _>>()?;
    let each = load.files / u64::from(load.threads);
    let mut last_split = None;
    watch.begin("create", load.files);
    let begun = Instant::now();
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(thread, client)| scope.spawn(move || work(client, thread, each, begun)))
            .collect();
        let all_done = || threads.iter().all(std::thread::ScopedJoinHandle::is_finished);
        while !all_done() {
            if last_split.is_none() && running.partitions(DirId::ROOT) == usize::from(load.shards) {
                last_split = Some(begun.elapsed());
            }
            std::thread::sleep(LOOK);
        }
        threads.into_iter().map(join).collect::<Result<Vec<Times>, Failure>>()
    })?;
    watch.end();
    if watch.is_interrupted() {
        return Err(Failure::plain("interrupted"));
    }
    let partitions = running.partitions(DirId::ROOT) as u64;
    Ok(summary(load, &times, last_split, partitions))
}

fn join(
    thread: std::thread::ScopedJoinHandle<'_, Result<Times, Failure>>,
) -> Result<Times, Failure> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Creates the files of one thread, in the root.
fn work(client: &Client, thread: usize, files: u64, begun: Instant) -> Result<Times, Failure> {
    let failed = |what: &str, errno: pando_types::Errno| {
        Failure::plain(format!("{what}: {}", errno.symbol()))
    };
    let dir = block_on(Paths::new(client, Credentials::ROOT).dir(b"/"))
        .map_err(|errno| failed("opening the root", errno))?;
    let mut times = Vec::with_capacity(files as usize);
    let mut last = begun.elapsed();
    for number in 0..files {
        let name = format!("file.{thread}.{number:08}");
        let name = Name::new(name.as_bytes()).map_err(|errno| failed(&name, errno))?;
        block_on(dir.create(&name, 0o644)).map_err(|errno| failed("creating a file", errno))?;
        let now = begun.elapsed();
        let took = u32::try_from((now - last).as_nanos()).unwrap_or(u32::MAX);
        times.push((u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), took));
        last = now;
    }
    Ok(times)
}

fn summary(load: Load, times: &[Times], last_split: Option<Duration>, partitions: u64) -> Run {
    let all = || times.iter().flatten().copied();
    let end = all().map(|(at, _)| at).max().unwrap_or(0);
    let width = WINDOW.as_nanos() as u64;
    let mut counts = vec![0_u64; (end / width) as usize + 1];
    all().for_each(|(at, _)| counts[(at / width) as usize] += 1);
    // The last window is incomplete.
    counts.pop();
    let window = WINDOW.as_secs_f64();
    let windows: Vec<Window> = counts
        .iter()
        .zip(0..)
        .map(|(count, index)| Window {
            at: (f64::from(index) + 0.5) * window,
            rate: *count as f64 / window,
        })
        .collect();
    let split_end = match load.shards {
        1 => 0.0,
        _ => last_split.map_or(f64::MAX, |at| at.as_secs_f64()),
    };
    let rates = |is_after: bool| {
        let of = windows.iter().filter(|window| (window.at > split_end) == is_after);
        let mut rates: Vec<f64> = of.map(|window| window.rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| rates.get(index).copied().unwrap_or(0.0);
        [at(rates.len() / 2), at(0)]
    };
    let longest = |is_after: bool| {
        let of = all().filter(|(at, _)| (*at as f64 / 1e9 > split_end) == is_after);
        of.map(|(_, took)| f64::from(took) / 1e3).fold(0.0, f64::max)
    };
    let files = times.iter().map(|times| times.len() as u64).sum();
    let growth = MeasuredGrowth {
        shards: load.shards,
        threads: load.threads,
        files,
        splits: partitions.saturating_sub(1),
        splitting: rates(false),
        after: rates(true),
        longest_micros: [longest(false), longest(true)],
        window,
        windows,
    };
    Run { seconds: end as f64 / 1e9, files, growth }
}

/// Median nanoseconds of a create by a single client with one shard.
pub fn create_alone(files: u64) -> Result<f64, Failure> {
    let load = Load { shards: 1, threads: 1, files, threshold: u64::MAX / 2 };
    let running = Running::start(&load)?;
    let client = running.client()?;
    let times = work(&client, 0, files, Instant::now())?;
    let mut took: Vec<u32> = times.into_iter().map(|(_, took)| took).collect();
    took.sort_unstable();
    Ok(took.get(took.len() / 2).copied().map_or(0.0, f64::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_bench::Silent;

    #[test]
    fn shards_of_this_process_fill_one_directory_while_it_splits() {
        let load = Load { shards: 4, threads: 2, files: 4_000, threshold: 100 };
        let run = run(load, &Silent).unwrap();
        assert_eq!((run.files, run.growth.splits), (4_000, 3));
        assert!(run.rate() > 0.0 && run.growth.longest_micros[0] > 0.0);
        assert!(create_alone(100).unwrap() > 0.0);
    }
}
