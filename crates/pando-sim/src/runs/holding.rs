//! What test programs of the simulator share. Many seeds have to hold, enough has to happen in
//! them, and a planted fault has to be found.

use crate::config::parameters::SimConfig;
use crate::counts::stats::Stats;
use crate::runs::batch::{batch, explain};
use crate::runs::run::run;

/// Number of seeds in which a planted fault must be found.
const PLANTED_SEEDS: u64 = 300;

/// The number in an environment variable, if it is set and is a number.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Counts of runs that all held.
pub struct Held {
    /// The sum of their counts.
    pub stats: Stats,
    /// Whether at least as many seeds ran as the test asked for.
    is_enough: bool,
}

impl Held {
    /// The counts, if at least as many seeds ran as the test asked for.
    #[must_use]
    pub fn if_enough(self) -> Option<Stats> {
        self.is_enough.then_some(self.stats)
    }
}

/// Runs `seeds` seeds, or those that the environment names: `PANDO_SIM_SEEDS` seeds from
/// `PANDO_SIM_FROM` on, until `PANDO_SIM_FAILURES` have failed.
///
/// # Panics
/// If a seed fails, with the explanation of the first one that failed.
pub fn all_hold(seeds: u64, config: impl Fn(u64) -> SimConfig + Sync) -> Held {
    let count = number("PANDO_SIM_SEEDS").unwrap_or(seeds);
    let from = number("PANDO_SIM_FROM").unwrap_or(1);
    let failures = number("PANDO_SIM_FAILURES").unwrap_or(1);
    let (stats, failed) = batch(from, count, failures as usize, &config);
    println!("{stats}");
    for failed in &failed {
        println!("seed {}: {}", failed.seed, failed.fault);
    }
    if let Some(first) = failed.first() {
        panic!("{}\n{}", first.fault, explain(config(first.seed)));
    }
    Held { stats, is_enough: count >= seeds }
}

/// Checks that something happened at least `least` times. Otherwise its test could not fail.
///
/// # Panics
/// If `count` is smaller than `least`.
pub fn hit(what: &str, count: u64, least: u64) {
    assert!(count >= least, "{what}: {count}, less than {least}");
}

/// Looks for a seed in which a planted fault is found. `plant` adds the fault to a run of `runs`,
/// and one of `checks` must be in the first line of what is found. Findings of other checks do not
/// count. Each seed must hold without the fault.
///
/// # Panics
/// If no seed finds the fault, or a seed does not hold without it.
pub fn is_found_by(
    checks: &[&str],
    runs: impl Fn(u64) -> SimConfig,
    plant: impl Fn(&mut SimConfig),
) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default();
    let mut others = Vec::new();
    for seed in 1..=PLANTED_SEEDS {
        assert_eq!(run(runs(seed)).fault, None, "seed {seed}, without the fault");
        let mut config = runs(seed);
        plant(&mut config);
        let Some(fault) = run(config).fault else { continue };
        let first = fault.lines().next().unwrap_or_default();
        let shown: String = first.chars().take(80).collect();
        if checks.iter().any(|check| first.contains(check)) {
            println!("{name}, seed {seed}: {shown}; other checks before: {}", others.len());
            return;
        }
        others.push((seed, shown));
    }
    panic!("not found in {PLANTED_SEEDS} seeds by {checks:?}; by others: {others:?}");
}
