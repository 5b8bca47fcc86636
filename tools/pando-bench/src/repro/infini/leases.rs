//! Figure 13: a cache that is invalidated lazily, against one whose entries have leases, by size of
//! the cache.
//!
//! Pando has no leases on its cache. Here they are added to the library's cache from outside. Each
//! caller keeps an expiry time for every directory that it remembers. Before a call, it renews the
//! expired leases on the path, all at once, with one frame for each shard. The paper's own lease
//! version must do so, too (§5.5: "a lease version of InfiniFS"). Then the library makes the call.
//! So both kinds have equal caches and calls, and differ only by the renewals.
//!
//! The tree does not change meanwhile. With leases, a change would have to wait until they expire.
//! That cost is not in the figure.
//!
//! A run starts in a steady state: caches are full, and leases expire evenly over their time. All
//! kinds run in turn, three times. The run with the median rate is reported.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use pando_client::{Client, Options, Transport};
use pando_placement::ClusterMap;
use pando_types::op::{Head, Op, Request};
use pando_types::reply::Body;
use pando_types::{Credentials, DirId, Errno, Glimpse, Name, ShardIndex};
use serde::Serialize;
use serde_json::json;

use super::load::{Load, busiest};
use super::stage::{close, make_dirs, make_file, paths};
use super::{How, Stage, failed, times};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};

/// Directories above each file. All files share the first [`SHARED`] of them.
const DEPTH: u32 = 10;
const SHARED: u32 = 4;
/// Memory of a remembered directory, in bytes (`Options::paths_bytes`).
const DIRECTORY_BYTES: u64 = 300;
/// "The lease expiration time is set to 1s, 5s, and 10s" (Figure 13); `None`: lazy invalidation.
pub const LEASES: [Option<u64>; 4] = [None, Some(10), Some(5), Some(1)];

/// One point of the figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Time of a lease in seconds. `None`: lazy invalidation.
    pub lease: Option<u64>,
    /// Capacity of the cache, as a part of the tree's directories.
    pub cache: f64,
    /// Calls a second.
    pub per_second: f64,
    /// Median latency in microseconds.
    pub p50: f64,
    /// The 99th percentile of the latency, in microseconds.
    pub p99: f64,
    /// Leases renewed for each call.
    pub renewals: f64,
    /// Frames for each call that the busiest shard receives.
    pub busiest: f64,
    /// Frames for each call that a shard receives on average.
    pub mean: f64,
}

/// All points of the figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leases {
    /// Number of shards.
    pub shards: u16,
    /// Microseconds that the relay adds to each round trip.
    pub round_trip: f64,
    /// Number of callers. Each has a client of its own.
    pub callers: u32,
    /// Number of directories of the tree.
    pub directories: u32,
    /// Ordered by cache, then from no leases to the shortest.
    pub points: Vec<Point>,
}

/// The tree: a chain of [`SHARED`] directories, then branches of the others.
struct Tree {
    /// The parent's id and the name of each directory. An index into this is a *place*.
    places: Vec<(DirId, Name)>,
    /// The directories on the path of each file, as places.
    ways: Vec<Vec<u32>>,
    files: Vec<Vec<u8>>,
    inos: Vec<u64>,
}

impl Tree {
    async fn make(stage: &Stage<'_>, branches: u32) -> Result<Self, BenchError> {
        let maker = stage.client(How::Cached).await?;
        let mut numbers = HashMap::new();
        let mut tree =
            Self { places: Vec::new(), ways: Vec::new(), files: Vec::new(), inos: Vec::new() };
        let top =
            (2..=SHARED).fold("/figure-13".to_owned(), |path, step| format!("{path}/d{step}"));
        make_dirs(&paths(&maker), &top).await?;
        let making = (0..branches).map(|branch| {
            let (top, maker) = (&top, &maker);
            async move {
                let mut path = format!("{top}/b{branch}");
                (SHARED + 2..=DEPTH).for_each(|step| path.push_str(&format!("/d{step}")));
                make_dirs(&paths(maker), &path).await?;
                let file = format!("{path}/file");
                let ino = make_file(&paths(maker), &file).await?;
                Ok::<_, BenchError>((file, ino))
            }
        });
        for made in futures_util::future::join_all(making).await {
            let (file, ino) = made?;
            let places = way(stage, &file)?.into_iter().map(|place| {
                *numbers.entry(place.clone()).or_insert_with(|| {
                    tree.places.push(place);
                    tree.places.len() as u32 - 1
                })
            });
            tree.ways.push(places.collect());
            tree.files.push(file.into_bytes());
            tree.inos.push(ino);
        }
        close(std::slice::from_ref(&maker)).await?;
        Ok(tree)
    }

    const fn directories(branches: u32) -> u32 {
        SHARED + branches * (DEPTH - SHARED)
    }
}

/// The directories of a path, as parent's id and name. None of them was ever renamed.
fn way(stage: &Stage<'_>, file: &str) -> Result<Vec<(DirId, Name)>, BenchError> {
    let mut dir = DirId::ROOT;
    let mut way = Vec::new();
    let parts: Vec<&str> = file.split('/').filter(|part| !part.is_empty()).collect();
    for part in &parts[..parts.len() - 1] {
        let name = Name::new(part.as_bytes()).map_err(failed("name", part.as_bytes()))?;
        way.push((dir, name.clone()));
        dir = stage.volume.secrets.dir_id(dir, &name, 0);
    }
    Ok(way)
}

/// Measures all points.
pub async fn run(stage: &Stage<'_>) -> Result<Leases, BenchError> {
    let (callers, branches, rounds, millis) =
        stage.pick([(128, 256, 3_u32, 2_000), (48, 64, 1, 600), (3, 4, 1, 30)]);
    let caches: &[f64] = stage.pick([&[0.25, 0.5, 1.0], &[0.25, 1.0], &[1.0]]);
    let tree = Tree::make(stage, branches).await?;
    let directories = Tree::directories(branches);
    let mut all = Leases {
        shards: stage.shards(),
        round_trip: stage.round_trip_micros(),
        callers,
        directories,
        points: Vec::new(),
    };
    let setups: Vec<(f64, Option<u64>)> =
        caches.iter().flat_map(|cache| LEASES.map(|lease| (*cache, lease))).collect();
    let mut found: Vec<Vec<Point>> = vec![Vec::new(); setups.len()];
    stage.watch.begin("figure 13", u64::from(rounds) * setups.len() as u64);
    // In turn, so that a change of the machine's speed affects all.
    for round in 0..rounds {
        for (nth, (cache, lease)) in setups.iter().enumerate() {
            stage.go_on()?;
            let kept = (f64::from(directories) * cache).ceil() as u64;
            let run = Run { stage, tree: &tree, lease: *lease, kept, callers };
            let point = run.measure(Duration::from_millis(millis)).await?;
            found[nth].push(Point { cache: *cache, ..point });
            stage.watch.advance(u64::from(round) * setups.len() as u64 + nth as u64);
        }
    }
    stage.watch.end();
    for mut rounds in found {
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        all.points.push(rounds[rounds.len() / 2]);
    }
    Ok(all)
}

struct Run<'a> {
    stage: &'a Stage<'a>,
    tree: &'a Tree,
    lease: Option<u64>,
    /// Number of directories that the cache has room for.
    kept: u64,
    callers: u32,
}

impl Run<'_> {
    async fn measure(&self, time: Duration) -> Result<Point, BenchError> {
        let stage = self.stage;
        // A tenth more than the directories take, so that the last one fits, too.
        let paths_bytes = (self.kept * DIRECTORY_BYTES * 11 / 10) as usize;
        let options = |_| Options { paths_bytes, ..Options::default() };
        let clients = stage.clients(self.callers, options).await?;
        let mut callers: Vec<Caller<'_>> = clients
            .iter()
            .zip(1..)
            .map(|(client, number)| Caller {
                client,
                tree: self.tree,
                transport: stage.transport.as_ref(),
                map: &stage.volume.map,
                leases: self
                    .lease
                    .map(|seconds| Held::new(seconds, self.kept, self.tree.places.len())),
                rng: fastrand::Rng::with_seed(stage.seed ^ (number << 20)),
                renewals: 0,
            })
            .collect();
        let warming = callers.iter_mut().map(Caller::warm);
        for warmed in futures_util::future::join_all(warming).await {
            warmed?;
        }
        stage.quiet().await;
        let before = stage.passed();
        let load = Load::begin(stage.watch, time);
        let calling = callers.iter_mut().map(|caller| load.caller(async |_| caller.call().await));
        let done = beside_maintenance(&clients, load.run(calling)).await?;
        stage.quiet().await;
        let (busiest, mean) = busiest(&before, &stage.passed(), done.operations);
        let renewals: u64 = callers.iter().map(|caller| caller.renewals).sum();
        drop(callers);
        close(&clients).await?;
        Ok(Point {
            lease: self.lease,
            cache: 0.0,
            per_second: done.per_second,
            p50: done.p50,
            p99: done.p99,
            renewals: renewals as f64 / done.operations.max(1) as f64,
            busiest,
            mean,
        })
    }
}

/// The leases of one caller. There are at most as many as its cache holds directories. The least
/// recently used one makes room.
struct Held {
    time: Duration,
    room: u64,
    /// By place: the expiry time, and the value of `clock` at the last use.
    until: Vec<Option<(Instant, u64)>>,
    by_use: BTreeMap<u64, u32>,
    clock: u64,
}

impl Held {
    fn new(seconds: u64, room: u64, places: usize) -> Self {
        let time = Duration::from_secs(seconds);
        Self { time, room, until: vec![None; places], by_use: BTreeMap::new(), clock: 0 }
    }

    /// Places on the path whose lease has expired. The library fetches a directory without a lease
    /// by itself.
    fn over(&self, way: &[u32], now: Instant) -> Vec<u32> {
        let is_over =
            |place: &&u32| self.until[**place as usize].is_some_and(|(until, _)| until <= now);
        way.iter().filter(is_over).copied().collect()
    }

    /// Notes that the path was used at `now`. Leases that had expired, or did not exist, start
    /// anew.
    fn took(&mut self, way: &[u32], over: &[u32], now: Instant) {
        for &place in way {
            self.clock += 1;
            let held = self.until[place as usize];
            if let Some((_, used)) = held {
                self.by_use.remove(&used);
            }
            let until = match held {
                Some((until, _)) if !over.contains(&place) => until,
                _ => now + self.time,
            };
            self.until[place as usize] = Some((until, self.clock));
            self.by_use.insert(self.clock, place);
        }
        while self.by_use.len() as u64 > self.room
            && let Some((_, place)) = self.by_use.pop_first()
        {
            self.until[place as usize] = None;
        }
    }

    /// Spreads the expiry times evenly, as after a long run.
    fn spread(&mut self, rng: &mut fastrand::Rng, now: Instant) {
        for (until, _) in self.until.iter_mut().flatten() {
            *until = now + self.time.mul_f64(rng.f64());
        }
    }
}

struct Caller<'a> {
    client: &'a Client,
    tree: &'a Tree,
    transport: &'a dyn Transport,
    map: &'a ClusterMap,
    leases: Option<Held>,
    rng: fastrand::Rng,
    renewals: u64,
}

impl Caller<'_> {
    /// Uses every file once, which fills the cache.
    async fn warm(&mut self) -> Result<(), BenchError> {
        let mut order: Vec<usize> = (0..self.tree.files.len()).collect();
        self.rng.shuffle(&mut order);
        for at in order {
            self.stat(at).await?;
        }
        if let Some(leases) = &mut self.leases {
            leases.spread(&mut self.rng, Instant::now());
        }
        Ok(())
    }

    async fn call(&mut self) -> Result<(), BenchError> {
        let at = self.rng.usize(..self.tree.files.len());
        self.stat(at).await
    }

    async fn stat(&mut self, at: usize) -> Result<(), BenchError> {
        let way = &self.tree.ways[at];
        let over = match &self.leases {
            Some(leases) => leases.over(way, Instant::now()),
            None => Vec::new(),
        };
        self.renew(&over).await?;
        let path = &self.tree.files[at];
        let attr = paths(self.client).lstat(path).await.map_err(failed("lstat", path))?;
        if attr.ino.0 != self.tree.inos[at] {
            let what = format!("{} is inode {}", path.escape_ascii(), attr.ino.0);
            return Err(BenchError::WrongReply { operation: "lstat", what });
        }
        if let Some(leases) = &mut self.leases {
            leases.took(way, &over, Instant::now());
        }
        self.renewals += over.len() as u64;
        Ok(())
    }

    /// Renews all these leases at once, with one frame for each shard.
    async fn renew(&self, over: &[u32]) -> Result<(), BenchError> {
        let mut of_shard: HashMap<ShardIndex, Vec<(DirId, Name)>> = HashMap::new();
        for place in over {
            let (dir, name) = &self.tree.places[*place as usize];
            of_shard.entry(self.map.home(*dir)).or_default().push((*dir, name.clone()));
        }
        let asking = of_shard.into_iter().map(|(shard, places)| {
            let wanted = places.len();
            let request = Request {
                head: Head::default(),
                credentials: Credentials::ROOT,
                op: Op::Glimpse(shard, places),
                trail: None,
            };
            async move {
                let reply = self.transport.call(shard, Box::new(request)).await;
                match reply.map(|reply| reply.result) {
                    Ok(Ok(Body::Glimpses(seen)))
                        if seen.len() == wanted
                            && seen.iter().all(|it| matches!(it, Glimpse::Dir { .. })) =>
                    {
                        Ok(())
                    }
                    _ => Err(failed("renewing a lease", b"")(Errno::EIO)),
                }
            }
        });
        futures_util::future::join_all(asking).await.into_iter().collect()
    }
}

impl Leases {
    fn at(&self, cache: f64, lease: Option<u64>) -> Option<&Point> {
        self.points.iter().find(|point| point.cache == cache && point.lease == lease)
    }

    fn caches(&self) -> Vec<f64> {
        let mut caches: Vec<f64> = self.points.iter().map(|point| point.cache).collect();
        caches.dedup();
        caches
    }

    fn name(lease: Option<u64>) -> String {
        lease.map_or_else(|| "lazy".to_owned(), |seconds| format!("leases of {seconds} s"))
    }

    /// The points as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let series = LEASES.map(|lease| {
            let points = self.points.iter().filter(|point| point.lease == lease);
            Series::line(
                Self::name(lease),
                points.map(|point| (point.cache * 100.0, point.per_second)).collect::<Vec<_>>(),
            )
        });
        Figure {
            name: "figure-13".to_owned(),
            title: "lazy invalidation against leases, by cache size (§5.5)".to_owned(),
            nature: Nature::Measured,
            tables: vec![self.table()],
            same: "leases cost renewals however large the cache is, most where they are short and near the root, which every caller renews; \
                   lazy invalidation has none, and gains more from a larger cache"
                .to_owned(),
            different: "the paper's values are only plotted; there 32 servers and 2,048 clients, here one machine whose processors all share, so \
                        that a renewal costs more beside the call itself, and a hot shard less"
                .to_owned(),
            data: json!(self),
            charts: vec![Chart {
                file: "figure-13".to_owned(),
                title: "Figure 13: lstat, lazy invalidation against leases".to_owned(),
                x: Axis::linear("cache, % of all directories"),
                y: Axis::linear("calls/s"),
                series: series.into(),
            }],
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            format!(
                "lstat below {DEPTH} directories of {}, {} callers; {} shards, {:.1} ms added to each round trip",
                whole(self.directories.into()),
                self.callers,
                self.shards,
                self.round_trip / 1e3
            ),
            [
                "cache",
                "invalidation",
                "calls/s",
                "of lazy",
                "p50 ms",
                "p99 ms",
                "renewals a call",
                "frames at the busiest shard",
                "at any",
            ],
        );
        for cache in self.caches() {
            let lazy = self.at(cache, None).map_or(f64::NAN, |point| point.per_second);
            for lease in LEASES {
                let Some(point) = self.at(cache, lease) else { continue };
                table.row([
                    percent(cache),
                    Self::name(lease),
                    whole(point.per_second),
                    times(point.per_second / lazy),
                    super::millis(point.p50),
                    super::millis(point.p99),
                    times(point.renewals),
                    times(point.busiest),
                    times(point.mean),
                ]);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_end_with_their_time_and_make_room_by_use() {
        let (mut held, begun) = (Held::new(5, 2, 3), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let [a, b, c] = [0, 1, 2];
        assert!(held.over(&[a], at(0)).is_empty(), "the cache fetches it");
        held.took(&[a, b], &[], at(0));
        assert!(held.over(&[a, b], at(4)).is_empty());
        assert_eq!(held.over(&[a], at(5)), [a]);
        held.took(&[a], &[a], at(5));
        assert!(held.over(&[a], at(9)).is_empty());
        // b was used least recently, so it is evicted. It does not count as an expired lease.
        held.took(&[c], &[], at(9));
        assert!(held.over(&[b], at(20)).is_empty());
        assert_eq!(held.over(&[a], at(20)), [a]);
    }
}
