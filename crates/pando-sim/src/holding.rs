//! What test programs of the simulator share: many seeds have to hold, enough has to happen in
//! them, and a planted fault has to be found.

use crate::batch::{batch, explain};
use crate::config::SimConfig;
use crate::run::run;
use crate::stats::Stats;

/// Seeds in which a planted fault has to be found.
const PLANTED_SEEDS: u64 = 300;

/// A number in an environment variable.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs that held.
pub struct Held {
    /// What was counted.
    pub stats: Stats,
    /// Whether they are as many as hit everything.
    is_enough: bool,
}

impl Held {
    /// What was counted, if the runs are as many as hit everything.
    #[must_use]
    pub fn if_enough(self) -> Option<Stats> {
        self.is_enough.then_some(self.stats)
    }
}

/// Runs so many seeds, or those that the environment says: `PANDO_SIM_SEEDS` from `PANDO_SIM_FROM`
/// on, until `PANDO_SIM_FAILURES` have failed.
///
/// # Panics
/// With the story of the first that failed.
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

/// Something has to have happened so often, or its test could not fail.
///
/// # Panics
/// If it has not.
pub fn hit(what: &str, count: u64, least: u64) {
    assert!(count >= least, "{what}: {count}, less than {least}");
}

/// Looks for the first seed of `runs` that one of `checks` finds with what `plant` does; what
/// others find does not count. Each seed holds without the fault.
///
/// # Panics
/// If there is none, or a seed does not hold.
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
