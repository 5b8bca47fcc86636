//! Load balance of GIGA+ against consistent hashing (GIGA+ §5.3, Figure 7). It has the paper's
//! Monte Carlo simulation, and our placement rule.
//!
//! A server's load is its share of the hash space.
//!
//! Figure 7(a): there are P partitions, with 2^r ≤ P < 2^(r+1). Of those of depth r, P − 2^r random
//! ones have split. There are five random selections.
//!
//! Figure 7(b): each of a server's V virtual servers has a random point, and the range up to the
//! next point, wrapping around. There are five random assignments.
//!
//! The measure is the mean of |load − even| / even over servers and drawings.

use pando_placement::{birth_radix, may_split, shard_of};
use pando_types::reply::Spread;
use pando_types::{PartitionIndex, Radix, ShardIndex};
use serde::Serialize;
use serde_json::json;

use super::Size;
use super::figure::{Axis, Chart, Figure, Nature, Series, Table, percent};
use super::stats::mean_ci95;

/// Partitions on each server of GIGA+. §5.3 mentions 1, 8, 16 and 32.
pub const PARTITIONS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Virtual servers of each server with consistent hashing.
pub const VIRTUAL: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// The largest cluster (Figure 7: "for all numbers of servers from 1 to 32").
pub const SERVERS_MAX: u16 = 32;
/// "five random selections", "five samples".
const DRAWINGS: u32 = 5;

/// Deviation of the load from an even one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Deviation {
    /// Number of servers in the cluster.
    pub servers: u16,
    /// Partitions, or virtual servers, of each server.
    pub each: u32,
    /// Mean of |load − even| / even.
    pub mean: f64,
    /// Half the width of the mean's 95 % confidence interval.
    pub ci95: f64,
}

/// Each server's share of the hash space, as Figure 7(a) draws it. New partitions take the next
/// numbers, and partition i is on server i mod N. So all servers have equally many.
#[must_use]
pub fn gigaplus_shares(servers: u16, each: u32, rng: &mut fastrand::Rng) -> Vec<f64> {
    let partitions = u32::from(servers) * each;
    let depth = partitions.ilog2();
    let first = 1_u32 << depth;
    let mut parents: Vec<u32> = (0..first).collect();
    rng.shuffle(&mut parents);
    let mut loads = vec![1.0 / f64::from(first); partitions as usize];
    for (child, parent) in (first..partitions).zip(parents) {
        loads[parent as usize] /= 2.0;
        loads[child as usize] = loads[parent as usize];
    }
    sums(servers, loads.into_iter().enumerate().map(|(i, load)| (i % usize::from(servers), load)))
}

/// Each server's share if it has `each` random points (Figure 7(b)).
#[must_use]
pub fn consistent_shares(servers: u16, each: u32, rng: &mut fastrand::Rng) -> Vec<f64> {
    let count = u32::from(servers) * each;
    let mut points: Vec<(f64, usize)> =
        (0..count).map(|i| (rng.f64(), i as usize % usize::from(servers))).collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let next = points.iter().skip(1).chain(points.first()).map(|point| point.0);
    let ranges: Vec<_> = points
        .iter()
        .zip(next)
        .map(|((from, server), to)| (*server, if to > *from { to - from } else { to + 1.0 - from }))
        .collect();
    sums(servers, ranges)
}

/// Each server's share once a directory has split as far as our placement rule allows.
#[must_use]
pub fn placed_shares(servers: u16, each: u16) -> Vec<f64> {
    let spread = Spread { base: ShardIndex(0), servers, per_server: each };
    let partitions = u32::from(servers) * u32::from(each);
    let share = |i| {
        let mut radix = birth_radix(PartitionIndex(i));
        while may_split(&spread, PartitionIndex(i), radix, servers) {
            radix = Radix(radix.0 + 1);
        }
        (usize::from(shard_of(&spread, PartitionIndex(i)).0), 0.5_f64.powi(radix.0.into()))
    };
    sums(servers, (0..partitions).map(share))
}

fn sums(servers: u16, loads: impl IntoIterator<Item = (usize, f64)>) -> Vec<f64> {
    let mut shares = vec![0.0; usize::from(servers)];
    for (server, load) in loads {
        shares[server] += load;
    }
    shares
}

fn deviation(servers: u16, each: u32, drawings: Vec<Vec<f64>>) -> Deviation {
    let even = 1.0 / f64::from(servers);
    let samples: Vec<f64> =
        drawings.into_iter().flatten().map(|share| (share - even).abs() / even).collect();
    let (mean, ci95) = mean_ci95(&samples);
    Deviation { servers, each, mean, ci95 }
}

/// All parts of Figure 7.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadBalance {
    /// Figure 7(a).
    pub gigaplus: Vec<Deviation>,
    /// Figure 7(a) by our placement rule, in which only those splits happen that are due.
    pub placed: Vec<Deviation>,
    /// Figure 7(b).
    pub consistent: Vec<Deviation>,
}

/// Computes all parts in about a second. The tiny size leaves out most numbers of virtual servers.
#[must_use]
pub fn run(size: Size, seed: u64) -> LoadBalance {
    let mut rng = fastrand::Rng::with_seed(seed);
    let most = if size == Size::Tiny { 128 } else { 1024 };
    let mut all = LoadBalance { gigaplus: vec![], placed: vec![], consistent: vec![] };
    for servers in 1..=SERVERS_MAX {
        for each in PARTITIONS {
            let drawings = (0..DRAWINGS).map(|_| gigaplus_shares(servers, each, &mut rng));
            all.gigaplus.push(deviation(servers, each, drawings.collect()));
            let placed = placed_shares(servers, each as u16);
            all.placed.push(deviation(servers, each, vec![placed]));
        }
        for each in VIRTUAL.into_iter().filter(|each| *each <= most) {
            let drawings = (0..DRAWINGS).map(|_| consistent_shares(servers, each, &mut rng));
            all.consistent.push(deviation(servers, each, drawings.collect()));
        }
    }
    all
}

/// Mean deviation over all clusters of more than one server. A single server is always even.
#[must_use]
pub fn mean_of(deviations: &[Deviation], each: u32) -> f64 {
    let of = deviations.iter().filter(|d| d.each == each && d.servers > 1);
    let means: Vec<f64> = of.map(|d| d.mean).collect();
    mean_ci95(&means).0
}

impl LoadBalance {
    /// The fewest virtual servers with which consistent hashing is as even as `of` with `each`
    /// partitions. `None`: more than were tried.
    #[must_use]
    pub fn virtual_servers_to_match(&self, of: &[Deviation], each: u32) -> Option<u32> {
        let goal = mean_of(of, each);
        let tried = VIRTUAL.into_iter().filter(|v| self.consistent.iter().any(|d| d.each == *v));
        tried.into_iter().find(|v| mean_of(&self.consistent, *v) <= goal)
    }

    /// All parts as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        Figure {
            name: "figure-7".to_owned(),
            title: "load balance of GIGA+ and of consistent hashing (§5.3, Figure 7)".to_owned(),
            nature: Nature::Computed,
            tables: vec![self.claims(), self.means()],
            same: "even at powers of two, uneven between them, more partitions help, and consistent hashing needs an order of magnitude \
                   more of them"
                .to_owned(),
            different: "our placement splits in a fixed order, not a random one, so that a cluster's balance is always the same".to_owned(),
            data: json!(self),
            charts: self.charts(),
        }
    }

    fn claims(&self) -> Table {
        let matched = |of: &[Deviation], each| match self.virtual_servers_to_match(of, each) {
            Some(v) => v.to_string(),
            None => format!("> {}", VIRTUAL[VIRTUAL.len() - 1]),
        };
        let mut claims = Table::new(
            "what the text says (§5.3), and what comes out; means over 2 to 32 servers",
            ["claim of the paper", "Monte Carlo", "our placement"],
        );
        let at_powers = |of: &[Deviation]| {
            let powers = of.iter().filter(|d| d.servers.is_power_of_two());
            percent(powers.map(|d| d.mean).fold(0.0, f64::max))
        };
        claims.row([
            "perfectly balanced when servers are a power of two: worst of them".to_owned(),
            at_powers(&self.gigaplus),
            at_powers(&self.placed),
        ]);
        let ratio = |of: &[Deviation]| mean_of(&self.consistent, 1) / mean_of(of, 1);
        claims.row([
            "consistent hashing \"almost two times worse\": one partition each".to_owned(),
            format!("{:.1} times", ratio(&self.gigaplus)),
            format!("{:.1} times", ratio(&self.placed)),
        ]);
        let worst = |of: &[Deviation]| {
            of.iter().filter(|d| d.each == 1).map(|d| d.mean).fold(0.0, f64::max)
        };
        let ratio = |of: &[Deviation]| worst(&self.consistent) / worst(of);
        claims.row([
            "the same, worst number of servers of each".to_owned(),
            format!("{:.1} times", ratio(&self.gigaplus)),
            format!("{:.1} times", ratio(&self.placed)),
        ]);
        claims.row([
            "it needs \"more than 128 partitions\" to match 8 of GIGA+".to_owned(),
            matched(&self.gigaplus, 8),
            matched(&self.placed, 8),
        ]);
        let gain = |of| format!("{:.1} points", 100.0 * (mean_of(of, 16) - mean_of(of, 32)));
        claims.row([
            "32 partitions \"only about 1 % better\" than 16".to_owned(),
            gain(&self.gigaplus),
            gain(&self.placed),
        ]);
        claims
    }

    fn means(&self) -> Table {
        let mut means = Table::new(
            "mean load deviation over 2 to 32 servers (the paper's own values are only plotted)",
            ["each server has", "GIGA+, Monte Carlo", "GIGA+, our placement", "consistent hashing"],
        );
        for each in VIRTUAL {
            let cell = |of: &[Deviation]| {
                let is_there = of.iter().any(|d| d.each == each);
                if is_there { percent(mean_of(of, each)) } else { "–".to_owned() }
            };
            means.row([
                each.to_string(),
                cell(&self.gigaplus),
                cell(&self.placed),
                cell(&self.consistent),
            ]);
        }
        means
    }

    fn charts(&self) -> Vec<Chart> {
        let lines = |of: &[Deviation], each: &[u32], what: &str| -> Vec<Series> {
            let line = |each: &u32| {
                let points = of.iter().filter(|d| d.each == *each);
                let points = points.map(|d| (f64::from(d.servers), d.mean * 100.0));
                Series::line(format!("{each} {what}"), points)
            };
            each.iter().map(line).collect()
        };
        let chart = |file: &str, title: &str, series| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("servers"),
            y: Axis::linear("mean load deviation, %"),
            series,
        };
        vec![
            chart(
                "figure-7a",
                "Figure 7(a): GIGA+, Monte Carlo",
                lines(&self.gigaplus, &[1, 4, 8, 16, 32], "partitions"),
            ),
            chart(
                "figure-7a-placement",
                "Figure 7(a) by our placement rule",
                lines(&self.placed, &[1, 4, 8, 16, 32], "partitions"),
            ),
            chart(
                "figure-7b",
                "Figure 7(b): consistent hashing",
                lines(&self.consistent, &[1, 8, 32, 128, 1024], "virtual servers"),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> LoadBalance {
        run(Size::Tiny, 1)
    }

    #[test]
    fn shares_are_of_one_whole() {
        let mut rng = fastrand::Rng::with_seed(2);
        for servers in [1, 3, 10, 31, 32] {
            for each in [1, 3, 8] {
                for shares in [
                    gigaplus_shares(servers, each, &mut rng),
                    consistent_shares(servers, each, &mut rng),
                    placed_shares(servers, each as u16),
                ] {
                    assert_eq!(shares.len(), usize::from(servers));
                    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
        }
    }

    /// §5.3: "perfectly load-balanced when the number of servers is a power-of-two". Other numbers
    /// are not even.
    #[test]
    fn powers_of_two_are_even_and_others_are_not() {
        let all = all();
        for d in all.gigaplus.iter().chain(&all.placed) {
            if d.servers.is_power_of_two() {
                assert!(d.mean < 1e-9, "{d:?}");
            } else if d.each == 1 {
                assert!(d.mean > 0.05, "{d:?}");
            }
        }
    }

    /// §5.3: "Increasing the number of hash-range partitions significantly improves load
    /// distribution".
    #[test]
    fn more_partitions_are_more_even() {
        let all = all();
        for of in [&all.gigaplus, &all.placed, &all.consistent] {
            for pair in PARTITIONS.windows(2) {
                assert!(mean_of(of, pair[1]) < mean_of(of, pair[0]), "{pair:?}");
            }
        }
    }

    /// §5.3: "consistent hashing needs more than 128 partitions per server to match … 8 partitions
    /// per server".
    #[test]
    fn consistent_hashing_needs_an_order_of_magnitude_more() {
        let all = all();
        assert!(mean_of(&all.consistent, 1) > 1.5 * mean_of(&all.gigaplus, 1));
        for of in [&all.gigaplus, &all.placed] {
            assert!(all.virtual_servers_to_match(of, 8).is_none_or(|v| v >= 64));
        }
    }

    #[test]
    fn one_seed_gives_one_result() {
        assert_eq!(all(), all());
        assert_eq!(all().figure().charts.len(), 3);
    }
}
