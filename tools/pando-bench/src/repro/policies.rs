//! How far a directory splits (GIGA+ §5.2 and §5.3, Figures 6 and 8). The model compares one
//! partition on each server, several, and splitting without end. Measured work of real shards
//! stands beside it.

mod show;

use serde::Serialize;

use super::des::{self, Costs, Report, Setup, Splitting};
use super::directory::Rules;
use super::scaling::{PAPER_1, workload};
use super::{FILES_PER_SERVER, Size, THRESHOLD};
use crate::{BenchError, Watch};

/// Figure 6: "a large directory is created over 16 servers".
pub const SERVERS: u16 = 16;
/// Partitions on each server in Figure 8.
pub const PARTITIONS: [u16; 5] = [1, 4, 8, 16, 32];

/// The modelled result of one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Policy {
    /// Partitions on each server at which splitting stops; 65,535: it never stops.
    pub per_server: u16,
    /// Median rate of the windows, in creates a second.
    pub rate_usual: f64,
    /// The result of the model.
    pub report: Report,
    /// The rate over time: pairs of seconds and creates a second.
    #[serde(skip)]
    pub windows: Vec<(f64, f64)>,
    /// Part of the time in windows with less than half of the median rate of the policy with one
    /// partition on each server.
    pub stalled: f64,
}

/// One point of Figure 8.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RunTime {
    /// Number of servers.
    pub servers: u16,
    /// Partitions on each server at which splitting stops.
    pub per_server: u16,
    /// Run time of the concurrent create benchmark, in seconds.
    pub seconds: f64,
}

/// The measured work of real shards under one policy, all in one thread.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredPolicy {
    /// Number of shards.
    pub shards: u16,
    /// Partitions on each shard at which splitting stops.
    pub per_server: u16,
    /// Number of entries above which a partition splits.
    pub threshold: u64,
    /// Number of files made.
    pub files: u64,
    /// Seconds of all shards together.
    pub seconds: f64,
    /// Splits to another shard, and splits within one.
    pub splits: [u64; 2],
    /// Entries moved to another shard.
    pub entries_moved: u64,
    /// Bytes of messages between shards.
    pub bytes: u64,
    /// Creates that reached a wrong shard.
    pub astray: u64,
}

/// The results for both figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Policies {
    /// Figure 6 with our live splits.
    pub live: Vec<Policy>,
    /// Figure 6 with the locked splits of GIGA+'s prototype.
    pub locked: Vec<Policy>,
    /// Figure 8 with our live splits.
    pub run_times: Vec<RunTime>,
    /// Figure 8 with the locked splits of GIGA+'s prototype.
    pub run_times_locked: Vec<RunTime>,
    /// Files and threshold of Figure 8, as a part of the paper's.
    pub scale: f64,
}

const POLICIES: [u16; 3] = [1, 16, u16::MAX];

/// Runs the model.
pub fn run(size: Size, seed: u64, costs: Costs, watch: &dyn Watch) -> Result<Policies, BenchError> {
    let prototype = Costs::gigaplus((1e9 / PAPER_1) as u64);
    let (each, part, clusters): (u64, u64, &[u16]) = match size {
        Size::Full => (FILES_PER_SERVER, 2, &[1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 30, 32]),
        Size::Quick => (FILES_PER_SERVER / 8, 20, &[1, 2, 4, 6, 8, 12, 16, 24, 32]),
        Size::Tiny => (20_000, 100, &[2, 3, 4, 6]),
    };
    let mut all = Policies {
        live: vec![],
        locked: vec![],
        run_times: vec![],
        run_times_locked: vec![],
        scale: 1.0 / part as f64,
    };
    let threshold = THRESHOLD * each / FILES_PER_SERVER;
    watch.begin("policies", POLICIES.len() as u64);
    for (per_server, done) in POLICIES.into_iter().zip(1..) {
        for (costs, splitting, window, list) in [
            (costs, Splitting::Live, 5_000_000, &mut all.live),
            (prototype, Splitting::Locked, 250_000_000, &mut all.locked),
        ] {
            let setup = workload(SERVERS, each, costs, splitting, seed);
            let rules = Rules { per_server, threshold, ..setup.rules };
            let usual = list.first().map(|one: &Policy| one.rate_usual);
            list.push(policy(&Setup { rules, window, ..setup }, usual));
        }
        watch.advance(done);
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    watch.begin("clusters", clusters.len() as u64);
    for (servers, done) in clusters.iter().zip(1..) {
        for per_server in PARTITIONS {
            for (costs, splitting, list) in [
                (costs, Splitting::Live, &mut all.run_times),
                (prototype, Splitting::Locked, &mut all.run_times_locked),
            ] {
                let setup = workload(*servers, FILES_PER_SERVER / part, costs, splitting, seed);
                let rules = Rules { per_server, threshold: THRESHOLD / part, ..setup.rules };
                let seconds = des::run(&Setup { rules, ..setup }).seconds;
                list.push(RunTime { servers: *servers, per_server, seconds });
            }
        }
        watch.advance(done);
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    Ok(all)
}

fn policy(setup: &Setup, of_one: Option<f64>) -> Policy {
    let report = des::run(setup);
    let rates = report.windows.iter().map(|window| window.rate).collect();
    let rate_usual = super::stats::median(rates);
    let half = of_one.unwrap_or(rate_usual) / 2.0;
    let stalled = report.seconds_below(half) / report.seconds;
    Policy {
        per_server: setup.rules.per_server,
        rate_usual,
        windows: report.windows.iter().map(|window| (window.at, window.rate)).collect(),
        stalled,
        report,
    }
}

/// Mean run time over clusters with `per_server` partitions, relative to the mean with 4, 8 and 16.
/// It covers all clusters of more than one server, or with `uneven_only` those that are no power of
/// two.
#[must_use]
pub fn relative(run_times: &[RunTime], per_server: u16, uneven_only: bool) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    let counts = |run: &&RunTime| {
        run.per_server == per_server
            && run.servers > 1
            && !(uneven_only && run.servers.is_power_of_two())
    };
    for run in run_times.iter().filter(counts) {
        let few = run_times.iter().filter(|other| other.servers == run.servers);
        let few: Vec<f64> =
            few.filter(|o| [4, 8, 16].contains(&o.per_server)).map(|o| o.seconds).collect();
        sum += run.seconds / (few.iter().sum::<f64>() / few.len() as f64);
        count += 1.0;
    }
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    /// GIGA+, §5.2, lesson 1, and §5.3, lesson 2.
    #[test]
    fn splitting_for_ever_costs_and_a_few_partitions_balance() {
        let all = run(Size::Tiny, 1, super::super::tests::COSTS, &Silent).unwrap();
        let [one, _, forever] = &all.locked[..] else { panic!("three policies") };
        assert!(forever.report.seconds > 1.3 * one.report.seconds);
        assert!(forever.report.moved.entries_here > forever.report.moved.entries_away);
        let [one, _, forever] = &all.live[..] else { panic!("three policies") };
        assert!(forever.report.seconds < 1.3 * one.report.seconds);
        let seconds = |servers, per_server| {
            let of = |run: &&RunTime| (run.servers, run.per_server) == (servers, per_server);
            all.run_times.iter().find(of).unwrap().seconds
        };
        assert!(
            seconds(3, 8) < 0.95 * seconds(3, 1),
            "three servers with one partition are uneven"
        );
        assert!(seconds(6, 8) < 0.95 * seconds(6, 1));
        assert_eq!(all.figures(&[])[1].tables.len(), 3);
    }
}
