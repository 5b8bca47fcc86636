//! Figure 11: the contribution of each idea. Each is added in turn to a baseline that has none.
//!
//! |  | resolving the path | access and content metadata |
//! |---|---|---|
//! | baseline | one component after another | not decoupled |
//! | + speculation | guessed, all at once | not decoupled |
//! | + cache | remembered | not decoupled |
//! | + decoupling | remembered | decoupled: Pando as it is |
//!
//! The library cannot do without decoupling: a file's metadata lies in its entry, beside the times
//! of its directory. So two more requests after each create stand for a system without it. One
//! changes a file on the shard where the new file's metadata would lie, the other on the shard of
//! the parent's times. Both shards are chosen by hash. Each request is a real change with a log
//! write. The locks and votes that would make the three changes atomic are left out, in that
//! system's favour.

use std::time::Duration;

use pando_client::{Client, IfThere};
use pando_types::{Credentials, DirId, Errno, Ino, Name, SetAttr, ShardIndex, TimeSet};
use serde::Serialize;
use serde_json::json;

use super::load::{Load, busiest};
use super::spy::Timing;
use super::stage::{close, make_dirs, make_file, paths};
use super::{How, Stage, failed, millis};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, whole};

/// "At a depth of 10" (§5.3).
const DEPTH: u32 = 10;

/// The ideas that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Factor {
    /// No idea.
    Baseline,
    /// It guesses directory ids.
    Speculation,
    /// It also remembers paths.
    Cache,
    /// It also has decoupled metadata. These are all ideas.
    Decoupling,
}

impl Factor {
    /// All factors. Each includes those before it.
    pub const ALL: [Self; 4] = [Self::Baseline, Self::Speculation, Self::Cache, Self::Decoupling];

    /// Name of the factor in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Speculation => "+ speculation",
            Self::Cache => "+ cache",
            Self::Decoupling => "+ decoupling",
        }
    }

    const fn how(self) -> How {
        match self {
            Self::Baseline => How::Sequential,
            Self::Speculation => How::Speculative,
            Self::Cache | Self::Decoupling => How::Cached,
        }
    }

    const fn is_coupled(self) -> bool {
        !matches!(self, Self::Decoupling)
    }
}

/// The kind of object that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Making {
    /// A file.
    Create,
    /// A directory.
    Mkdir,
}

impl Making {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Create, Self::Mkdir];

    const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Mkdir => "mkdir",
        }
    }
}

/// One bar of the figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bar {
    /// The ideas that the client uses.
    pub factor: Factor,
    /// The kind of object that is made.
    pub making: Making,
    /// Medians of the times with one caller.
    pub timing: Timing,
    /// Calls a second with many callers.
    pub per_second: f64,
    /// Frames for each call that the busiest shard receives.
    pub busiest: f64,
    /// Frames for each call that a shard receives on average.
    pub mean: f64,
}

/// All bars of the figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Factors {
    /// Number of shards.
    pub shards: u16,
    /// Microseconds that the relay adds to each round trip.
    pub round_trip: f64,
    /// Microseconds of a round trip of a frame through the relay.
    pub echo: f64,
    /// Number of callers for the rates.
    pub callers: u32,
    /// Ordered by kind of object, then by factor.
    pub bars: Vec<Bar>,
}

/// Measures all bars.
pub async fn run(stage: &Stage<'_>) -> Result<Factors, BenchError> {
    let (count, callers, millis, branches) =
        stage.pick([(200, 256, 4_000, 16), (30, 64, 700, 8), (2, 4, 20, 2)]);
    let maker = stage.client(How::Cached).await?;
    let scratch = Scratch::make(stage, &maker).await?;
    let mut all = Factors {
        shards: stage.shards(),
        round_trip: stage.round_trip_micros(),
        echo: stage.echo,
        callers,
        bars: Vec::new(),
    };
    stage.watch.begin("figure 11", (Making::ALL.len() * Factor::ALL.len()) as u64);
    for making in Making::ALL {
        for factor in Factor::ALL {
            stage.go_on()?;
            let top = format!("/figure-11-{}-{factor:?}", making.name());
            let leaves = leaves(&maker, &top, branches).await?;
            let timing = alone(stage, factor, making, &scratch, &leaves, count).await?;
            let time = Duration::from_millis(millis);
            let crowd = Crowd { factor, making, scratch: &scratch, leaves: &leaves, callers };
            let (per_second, busiest, mean) = crowd.run(stage, time).await?;
            all.bars.push(Bar { factor, making, timing, per_second, busiest, mean });
            stage.watch.advance(all.bars.len() as u64);
        }
    }
    stage.watch.end();
    Ok(all)
}

/// Makes a tree whose top is a single directory. Returns its deepest directories.
async fn leaves(maker: &Client, top: &str, branches: u32) -> Result<Vec<String>, BenchError> {
    let mut leaves = Vec::new();
    for branch in 0..branches {
        let mut path = format!("{top}/b{branch}");
        (2..DEPTH).for_each(|step| path.push_str(&format!("/d{step}")));
        make_dirs(&paths(maker), &path).await?;
        leaves.push(path);
    }
    Ok(leaves)
}

/// A directory on each shard, for the changes that a system without decoupling would make there.
struct Scratch {
    dirs: Vec<String>,
}

impl Scratch {
    async fn make(stage: &Stage<'_>, maker: &Client) -> Result<Self, BenchError> {
        let mut dirs = Vec::new();
        for shard in (0..stage.shards()).map(ShardIndex) {
            let mut nth = 0_u32;
            let name = loop {
                let text = format!("scratch-{shard}-{nth}");
                let name = Name::new(text.as_bytes()).map_err(failed("scratch", b""))?;
                let id = stage.volume.secrets.dir_id(DirId::ROOT, &name, 0);
                if stage.volume.map.home(id) == shard {
                    break text;
                }
                nth += 1;
            };
            let path = format!("/{name}");
            make_dirs(&paths(maker), &path).await?;
            dirs.push(path);
        }
        Ok(Self { dirs })
    }

    /// Makes a file on each shard for one caller.
    async fn files(&self, client: &Client, caller: &str) -> Result<Vec<Ino>, BenchError> {
        let mut files = Vec::new();
        for dir in &self.dirs {
            let path = format!("{dir}/{caller}");
            match paths(client).create(path.as_bytes(), 0o644, IfThere::Refuse).await {
                Ok(_) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(failed("create", path.as_bytes())(errno)),
            }
            let ino = paths(client).resolve(path.as_bytes()).await;
            files.push(ino.map_err(failed("lookup", path.as_bytes()))?);
        }
        Ok(files)
    }
}

/// A caller that makes objects in all leaves in turn.
struct Maker<'a> {
    client: &'a Client,
    making: Making,
    leaves: &'a [String],
    /// A file on each shard. Empty if metadata is decoupled.
    elsewhere: Vec<Ino>,
    caller: String,
    /// The number of the first leaf.
    first: u64,
    rng: fastrand::Rng,
}

impl Maker<'_> {
    async fn make(&mut self, nth: u64) -> Result<(), BenchError> {
        let leaf = (self.first + nth) as usize % self.leaves.len();
        let path = format!("{}/{}-{nth}", self.leaves[leaf], self.caller);
        match self.making {
            Making::Create => drop(make_file(&paths(self.client), &path).await?),
            Making::Mkdir => {
                let made = paths(self.client).mkdir(path.as_bytes(), 0o755).await;
                made.map_err(failed("mkdir", path.as_bytes()))?;
            }
        }
        if !self.elsewhere.is_empty() {
            // The shard of the new object's metadata, and that of its parent's times.
            for at in [self.rng.usize(..self.elsewhere.len()), leaf % self.elsewhere.len()] {
                let set = SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() };
                let changed =
                    self.client.setattr(&Credentials::ROOT, self.elsewhere[at], set).await;
                changed.map_err(failed("setattr", path.as_bytes()))?;
            }
        }
        Ok(())
    }
}

async fn alone(
    stage: &Stage<'_>,
    factor: Factor,
    making: Making,
    scratch: &Scratch,
    leaves: &[String],
    count: u32,
) -> Result<Timing, BenchError> {
    let (client, spy) = stage.spied(factor.how()).await?;
    let elsewhere = match factor.is_coupled() {
        true => scratch.files(&client, "alone").await?,
        false => Vec::new(),
    };
    let rng = fastrand::Rng::with_seed(stage.seed);
    let caller = "alone".to_owned();
    let mut maker = Maker { client: &client, making, leaves, elsewhere, caller, first: 0, rng };
    // Fills the caches.
    let warm = leaves.len() as u64;
    for nth in 0..warm {
        maker.make(nth).await?;
    }
    let measuring = spy.often(count, async |nth| maker.make(warm + u64::from(nth)).await);
    let timing = beside_maintenance(std::slice::from_ref(&client), measuring).await?;
    client.close().await.map_err(failed("ending a session", b""))?;
    Ok(timing)
}

/// Many callers, each with a client of its own.
struct Crowd<'a> {
    factor: Factor,
    making: Making,
    scratch: &'a Scratch,
    leaves: &'a [String],
    callers: u32,
}

impl Crowd<'_> {
    async fn run(&self, stage: &Stage<'_>, time: Duration) -> Result<(f64, f64, f64), BenchError> {
        let clients = stage.clients(self.callers, |_| self.factor.how().options()).await?;
        let mut callers = Vec::new();
        let joining =
            clients.iter().zip(0..).map(|(client, number)| self.caller(stage, client, number));
        for caller in futures_util::future::join_all(joining).await {
            callers.push(caller?);
        }
        stage.quiet().await;
        let before = stage.passed();
        let load = Load::begin(stage.watch, time);
        let calling =
            callers.iter_mut().map(|maker| load.caller(async |nth| maker.make(nth + 1).await));
        let done = beside_maintenance(&clients, load.run(calling)).await?;
        stage.quiet().await;
        let (busiest, mean) = busiest(&before, &stage.passed(), done.operations);
        close(&clients).await?;
        Ok((done.per_second, busiest, mean))
    }

    async fn caller<'c>(
        &'c self,
        stage: &Stage<'_>,
        client: &'c Client,
        number: u64,
    ) -> Result<Maker<'c>, BenchError> {
        let caller = format!("c{number}");
        let elsewhere = match self.factor.is_coupled() {
            true => self.scratch.files(client, &caller).await?,
            false => Vec::new(),
        };
        let rng = fastrand::Rng::with_seed(stage.seed ^ (number + 1));
        let mut maker = Maker {
            client,
            making: self.making,
            leaves: self.leaves,
            elsewhere,
            caller,
            first: number,
            rng,
        };
        maker.make(0).await?;
        Ok(maker)
    }
}

impl Factors {
    /// One bar. `None` if it was not measured.
    #[must_use]
    pub fn at(&self, making: Making, factor: Factor) -> Option<&Bar> {
        self.bars.iter().find(|bar| (bar.making, bar.factor) == (making, factor))
    }

    /// What the paper's text says about this bar (§5.3).
    const fn paper(making: Making, factor: Factor) -> &'static str {
        match (making, factor) {
            (_, Factor::Baseline) => "72 % finding the way, around 9 RTTs; 28 % around 3 RTTs",
            (_, Factor::Speculation) => "finding the way 26 % of the baseline's, more than one RTT",
            (_, Factor::Cache) => "finding the way less than one RTT; more than 1M/s",
            (Making::Create, Factor::Decoupling) => "nearly one RTT; 3.3M/s",
            (Making::Mkdir, Factor::Decoupling) => "remains the same",
        }
    }

    /// The bars as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let lines = |making: Making, of: fn(&Bar) -> f64| {
            let bars = self.bars.iter().filter(move |bar| bar.making == making).zip(0..);
            bars.map(|(bar, at)| (f64::from(at), of(bar))).collect::<Vec<_>>()
        };
        let latency = Making::ALL.into_iter().flat_map(|making| {
            let name = making.name();
            [
                Series::line(format!("{name}: all"), lines(making, |bar| bar.timing.total / 1e3)),
                Series::line(
                    format!("{name}: finding the way"),
                    lines(making, |bar| bar.timing.resolution / 1e3),
                ),
            ]
        });
        Figure {
            name: "figure-11".to_owned(),
            title: "what each idea contributes (§5.3)".to_owned(),
            nature: Nature::Measured,
            tables: self.tables(),
            same: "guessing takes most of the way's round trips off, the cache the rest, and with decoupling a create is one request"
                .to_owned(),
            different: "one machine: all shards and callers share its processors, so rates do not grow as they do on 32 servers; what the busiest \
                        shard gets for each call tells where they would end. Without decoupling there are two requests more and no \
                        transaction. A mkdir has one request less with decoupling here, none less in the paper"
                .to_owned(),
            data: json!(self),
            charts: vec![Chart {
                file: "figure-11".to_owned(),
                title: "Figure 11: 0 baseline, 1 + speculation, 2 + cache, 3 + decoupling".to_owned(),
                x: Axis::linear("ideas"),
                y: Axis::linear("milliseconds"),
                series: latency.collect(),
            }],
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for making in Making::ALL {
            let mut table = Table::new(
                format!(
                    "{} below {DEPTH} directories; {} shards, {} ms added to each round trip; rates with {} callers",
                    making.name(),
                    self.shards,
                    millis(self.round_trip),
                    self.callers
                ),
                [
                    "",
                    "ms",
                    "finding the way",
                    "the rest",
                    "round trips of the relay's echo",
                    "calls/s",
                    "frames at the busiest shard",
                    "at any",
                    "paper (§5.3), 32 servers",
                ],
            );
            for factor in Factor::ALL {
                let Some(bar) = self.at(making, factor) else { continue };
                let Timing { resolution, processing, total, .. } = bar.timing;
                table.row([
                    factor.name().to_owned(),
                    millis(total),
                    millis(resolution),
                    millis(processing),
                    format!("{:.1}", total / self.echo.max(1.0)),
                    whole(bar.per_second),
                    format!("{:.2}", bar.busiest),
                    format!("{:.2}", bar.mean),
                    Self::paper(making, factor).to_owned(),
                ]);
            }
            tables.push(table);
        }
        tables
    }
}
