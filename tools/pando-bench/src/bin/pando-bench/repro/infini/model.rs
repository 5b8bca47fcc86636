//! A model of directory renames with 32 shards, each on a machine of its own. It uses costs that
//! are measured here by [`super::virtual_time`]. It also shows how much the result depends on each
//! cost. The paper reports "near 10K ops/sec" (§5.6).

use pando_bench::Watch;
use pando_bench::echo::{self, Load, Socket};
use pando_bench::repro::Size;
use pando_bench::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};
use pando_bench::repro::infini::times;
use pando_types::op::{Op, RenameFlags};
use pando_types::reply::Body;
use pando_types::{DirRef, Name, ShardIndex};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

use super::codec;
use super::virtual_time::{Costs, World};
use crate::output::failure::Failure;

/// One way, in nanoseconds: half of "a round-trip time of about 60 μs" (§5.1.2).
const HOP: u64 = 30_000;
/// The paper's number of servers.
const SHARDS: u16 = 32;
/// The paper's rate: "near 10K ops/sec" (§5.6).
pub const PAPER: f64 = 10_000.0;

/// One run of the model.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// How this run differs from the first one.
    pub what: String,
    pub shards: u16,
    pub callers: u64,
    /// Renames within one parent: rate in renames a second, and mean time in microseconds.
    pub here: Rate,
    pub away: Rate,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rate {
    pub per_second: f64,
    pub micros: f64,
    /// Part of the time in which shard 0 is busy. `others` is that of the busiest other shard.
    pub coordinator: f64,
    pub others: f64,
    /// Messages between shards for each rename.
    pub messages: f64,
}

/// Cost of one kind of message at a shard.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepCost {
    pub step: &'static str,
    /// Messages of this kind for each rename, in the measured run.
    pub each: f64,
    /// Median cost in nanoseconds.
    pub median: u64,
}

/// The measured costs, and the results of the model.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    pub steps: Vec<StepCost>,
    pub costs: Costs,
    pub runs: Vec<Run>,
}

/// Parameters of one run.
#[derive(Clone)]
struct Setup {
    what: String,
    shards: u16,
    callers: u64,
    costs: Costs,
}

/// Measures the costs, and runs the model with them.
pub fn run(size: Size, watch: &dyn Watch) -> Result<Model, Failure> {
    let (renames, shards, seconds) = match size {
        Size::Full => (1_500, SHARDS, 1.0),
        Size::Quick => (200, SHARDS, 0.2),
        Size::Tiny => (12, 4, 0.02),
    };
    let frame = frame_cost(Duration::from_secs_f64(seconds), watch)?;
    watch.begin("costs", 2);
    let unknown = Costs { hop: HOP, frame, sync: None, steps: BTreeMap::new() };
    let (mut steps, mut syncs) = (BTreeMap::<_, Vec<u64>>::new(), Vec::new());
    for (done, away) in [false, true].into_iter().enumerate() {
        let mut world = World::new(shards, unknown.clone())?;
        load(&mut world, 16, renames, away)?;
        for (kind, samples) in world.samples {
            steps.entry(kind).or_default().extend(samples);
        }
        syncs.extend(world.syncs);
        watch.advance(done as u64 + 1);
    }
    watch.end();
    let costs = Costs {
        hop: HOP,
        frame,
        sync: Some(median(&mut syncs)),
        steps: steps.iter_mut().map(|(kind, samples)| (*kind, median(samples))).collect(),
    };
    let each = |kind: &str| steps[kind].len() as f64 / f64::from(renames) / 2.0;
    let shown = costs.steps.iter();
    let shown = shown.map(|(step, median)| StepCost { step, each: each(step), median: *median });
    let setups = setups(shards, &costs, size);
    let mut model = Model { steps: shown.collect(), costs: costs.clone(), runs: Vec::new() };
    watch.begin("model", setups.len() as u64);
    for setup in setups {
        let [here, away] = [false, true].map(|away| {
            let mut world = World::new(setup.shards, setup.costs.clone())?;
            load(&mut world, setup.callers, renames, away)
        });
        let Setup { what, shards, callers, .. } = setup;
        model.runs.push(Run { what, shards, callers, here: here?, away: away? });
        watch.advance(model.runs.len() as u64);
        if watch.is_interrupted() {
            return Err(Failure::plain("interrupted"));
        }
    }
    watch.end();
    Ok(model)
}

fn setups(shards: u16, costs: &Costs, size: Size) -> Vec<Setup> {
    let base = Setup { what: "as measured".to_owned(), shards, callers: 64, costs: costs.clone() };
    let sync = costs.sync.unwrap_or(0);
    let with = |what: &str, change: &dyn Fn(&mut Setup)| {
        let mut setup = base.clone();
        what.clone_into(&mut setup.what);
        change(&mut setup);
        setup
    };
    let scale = |factor: u64, part: u64| {
        move |setup: &mut Setup| {
            setup.costs.steps.values_mut().for_each(|nanos| *nanos = *nanos * factor / part);
        }
    };
    let mut all = vec![base.clone()];
    if size == Size::Tiny {
        return all;
    }
    all.extend([
        with("no fsync waited for, as in the paper", &|it| it.costs.sync = Some(0)),
        with("fsync × 2", &|it| it.costs.sync = Some(sync * 2)),
        with("network × ½", &|it| it.costs.hop /= 2),
        with("network × 2", &|it| it.costs.hop *= 2),
        with("steps × ½", &scale(1, 2)),
        with("steps × 2", &scale(2, 1)),
        with("frames × ½", &|it| it.costs.frame /= 2),
        with("frames × 2", &|it| it.costs.frame *= 2),
        with("1 caller", &|it| it.callers = 1),
        with("16 callers", &|it| it.callers = 16),
        with("256 callers", &|it| it.callers = 256),
        with("8 shards", &|it| it.shards = 8),
        with("16 shards", &|it| it.shards = 16),
        with("64 shards", &|it| it.shards = 64),
    ]);
    all
}

/// A caller and its directory, which it renames to and fro.
struct Mover {
    at: [(DirRef, Name); 2],
    sequence: u64,
    is_there: bool,
    begun: u64,
}

/// Renames `renames` directories by `callers` concurrent callers. Each caller has its own
/// directory.
fn load(world: &mut World, callers: u64, renames: u32, away: bool) -> Result<Rate, Failure> {
    let opened = world.call(0, ShardIndex(0), 0, Op::OpenSession)?;
    let Body::Session(session) = opened else { return Err(unexpected(&opened)) };
    world.session = session;
    let mut movers = Vec::new();
    for caller in 0..callers {
        movers.push(Mover::make(world, caller, away)?);
    }
    // The measurement starts here. Setup is over by then.
    let mut since = (world.now, world.busy(), world.messages);
    let warm = callers.min(u64::from(renames) / 4);
    let (mut done, mut micros) = (0_u64, 0.0);
    for (caller, mover) in (0..).zip(&mut movers) {
        mover.send(world, caller);
    }
    loop {
        let (caller, reply) = world.answer()?;
        match reply.result {
            Ok(Body::Moved(..)) => {}
            other => return Err(unexpected(&other)),
        }
        done += 1;
        let mover = &mut movers[caller as usize];
        if done == warm {
            since = (world.now, world.busy(), world.messages);
        } else if done > warm {
            micros += (world.now - mover.begun) as f64 / 1e3;
        }
        if done == warm + u64::from(renames) {
            break;
        }
        mover.is_there = !mover.is_there;
        mover.send(world, caller);
    }
    let (since, busy, messages) = since;
    let seconds = (world.now - since) as f64 / 1e9;
    let load = world.load(since, &busy);
    let count = f64::from(renames);
    Ok(Rate {
        per_second: count / seconds.max(1e-9),
        micros: micros / count,
        coordinator: load.first().copied().unwrap_or(0.0),
        others: load.iter().skip(1).copied().fold(0.0, f64::max),
        messages: (world.messages - messages) as f64 / count,
    })
}

impl Mover {
    fn make(world: &mut World, caller: u64, away: bool) -> Result<Self, Failure> {
        let mut mover = Self {
            at: [(DirRef::ROOT, name("a")?), (DirRef::ROOT, name("b")?)],
            sequence: 0,
            is_there: false,
            begun: 0,
        };
        let from = mover.mkdir(world, caller, DirRef::ROOT, &format!("from{caller}"))?;
        let to = match away {
            true => mover.mkdir(world, caller, DirRef::ROOT, &format!("to{caller}"))?,
            false => from,
        };
        mover.mkdir(world, caller, from, "a")?;
        mover.at[0].0 = from;
        mover.at[1].0 = to;
        Ok(mover)
    }

    fn mkdir(
        &mut self,
        world: &mut World,
        caller: u64,
        parent: DirRef,
        text: &str,
    ) -> Result<DirRef, Failure> {
        self.sequence += 1;
        let shard = world.map.home(parent.id);
        let op = Op::Mkdir(parent, name(text)?, 0o755);
        match world.call(caller, shard, self.sequence, op)? {
            Body::Made(dir, _) => Ok(dir),
            other => Err(unexpected(&other)),
        }
    }

    fn send(&mut self, world: &mut World, caller: u64) {
        let [a, b] = self.at.clone();
        let ((from, name), (to, new_name)) = if self.is_there { (b, a) } else { (a, b) };
        self.sequence += 1;
        self.begun = world.now;
        let shard = world.map.home(from.id);
        let op = Op::Rename { from, name, to, new_name, flags: RenameFlags::default() };
        world.send(caller, shard, self.sequence, op);
    }
}

impl World {
    /// Sends one request while no other is pending, and returns its reply.
    fn call(
        &mut self,
        caller: u64,
        shard: ShardIndex,
        sequence: u64,
        op: Op,
    ) -> Result<Body, Failure> {
        self.send(caller, shard, sequence, op);
        let (_, reply) = self.answer()?;
        reply.result.map_err(|refusal| unexpected(&refusal))
    }
}

/// Nanoseconds that a frame costs one side, in or out: codec and socket, with many frames in
/// flight.
fn frame_cost(time: Duration, watch: &dyn Watch) -> Result<u64, Failure> {
    let load = Load { socket: Socket::Tcp, outstanding: 64, connections: 8 };
    let report = echo::run(load, time, watch)
        .map_err(|error| Failure::plain(format!("sending frames to and fro: {error}")))?;
    // Each side reads one frame and writes one.
    let socket = 1e9 / report.frames_per_second / 2.0;
    Ok((socket + codec::nanos()?) as u64)
}

fn median(samples: &mut [u64]) -> u64 {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or(0)
}

fn name(text: &str) -> Result<Name, Failure> {
    Name::new(text.as_bytes()).map_err(|errno| unexpected(&errno))
}

fn unexpected(what: &impl std::fmt::Debug) -> Failure {
    Failure::plain(format!("a shard answered something else than was to be: {what:?}"))
}

impl Model {
    pub fn figure(&self) -> Figure {
        let by_shards = |of: fn(&Run) -> f64| {
            let mut points: Vec<(f64, f64)> = self
                .runs
                .iter()
                .filter(|run| run.what == "as measured" || run.what.ends_with(" shards"))
                .map(|run| (f64::from(run.shards), of(run)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        Figure {
            name: "figure-14-model".to_owned(),
            title: "renames of directories with 32 shards (§5.6)".to_owned(),
            nature: Nature::Both,
            tables: vec![self.costs_table(), self.runs_table()],
            same: "renames of directories do not scale with shards: shard 0 tells each of them to all".to_owned(),
            different: "one that changes its parent is checked by shard 0 against those under way, and walks up by messages; the paper's coordinator \
                        checks a graph of its own in memory. Votes for names and contents are fsynced here, the paper's log is asynchronous on \
                        a RAM disk; its servers have eight threads each, a shard here one"
                .to_owned(),
            data: json!(self),
            charts: vec![Chart {
                file: "figure-14-model".to_owned(),
                title: "Renames of directories, modelled, by the number of shards".to_owned(),
                x: Axis::log("shards"),
                y: Axis::linear("renames/s"),
                series: vec![
                    Series::line("same parent", by_shards(|run| run.here.per_second)),
                    Series::line("other parent", by_shards(|run| run.away.per_second)),
                ],
            }],
        }
    }

    fn costs_table(&self) -> Table {
        let micros = |nanos: u64| format!("{:.1}", nanos as f64 / 1e3);
        let mut steps = Table::new(
            "MEASURED: what each kind of message costs a shard with its store and log, one thread",
            ["", "of these, a rename", "µs, median"],
        );
        for step in &self.steps {
            steps.row([step.step.to_owned(), times(step.each), micros(step.median)]);
        }
        let Costs { hop, frame, sync, .. } = self.costs;
        for (what, nanos) in
            [("a frame in, or out", frame), ("an fsync of a log", sync.unwrap_or(0))]
        {
            steps.row([what.to_owned(), String::new(), micros(nanos)]);
        }
        steps.row([
            "a message on its way (the paper's network)".to_owned(),
            String::new(),
            micros(hop),
        ]);
        steps
    }

    fn runs_table(&self) -> Table {
        let mut runs = Table::new(
            "MODEL: renames of directories a second, and what one takes; the paper: \"stays near 10K ops/sec\" (§5.6)",
            [
                "",
                "shards",
                "callers",
                "same parent/s",
                "of the paper's",
                "ms",
                "shard 0 busy",
                "messages",
                "other parent/s",
                "of the paper's",
                "ms",
                "shard 0 busy",
                "messages",
            ],
        );
        for run in &self.runs {
            let cells = [run.here, run.away].into_iter().flat_map(|rate| {
                [
                    whole(rate.per_second),
                    times(rate.per_second / PAPER),
                    format!("{:.2}", rate.micros / 1e3),
                    percent(rate.coordinator),
                    format!("{:.0}", rate.messages),
                ]
            });
            let first = [run.what.clone(), run.shards.to_string(), run.callers.to_string()];
            runs.row(first.into_iter().chain(cells));
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_bench::Silent;

    /// In the model, everything but the measured costs is deterministic. Equal costs must give
    /// equal rates.
    #[test]
    fn the_model_runs_real_shards_and_is_the_same_for_the_same_costs() {
        let model = run(Size::Tiny, &Silent).unwrap();
        let rate = |away: bool| {
            let mut world = World::new(4, model.costs.clone()).unwrap();
            load(&mut world, 8, 20, away).unwrap()
        };
        for away in [false, true] {
            let (one, other) = (rate(away), rate(away));
            assert_eq!(one.per_second, other.per_second);
            assert!(one.per_second > 0.0 && one.micros > 60.0 && one.messages >= 6.0, "{one:?}");
            assert!((0.0..=1.0).contains(&one.coordinator), "{one:?}");
        }
        let mut slower = model.costs.clone();
        // So much that it outweighs whatever was measured, and that no vote comes too late.
        slower.hop += 50_000_000;
        let mut world = World::new(4, slower).unwrap();
        assert!(load(&mut world, 8, 20, true).unwrap().per_second < rate(true).per_second);
    }
}
