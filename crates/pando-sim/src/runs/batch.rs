//! Runs many seeds on all cores, and explains a seed that fails.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::check::Excuse;
use crate::config::parameters::{Durability, SimConfig};
use crate::counts::Count as _;
use crate::counts::stats::Stats;
use crate::runs::run::run;
use crate::runs::verdict::Verdict;

/// Number of trace lines that are shown of a failing seed.
const TAIL: usize = 120;

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// The fault that was found.
    pub fault: String,
}

/// Runs seeds `from .. from + count`, each with its `config`. Stops when `failures` seeds have
/// failed.
#[must_use]
pub fn batch(
    from: u64,
    count: u64,
    failures: usize,
    config: impl Fn(u64) -> SimConfig + Sync,
) -> (Stats, Vec<Failed>) {
    let next = AtomicU64::new(from);
    let results = Mutex::new((Stats::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    let config = config(seed);
                    let kind = config.kind;
                    let verdict = run(config);
                    if verdict.stats.excuses.contains_key(&Excuse::NotFound) {
                        show_undecided(kind, seed);
                    }
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.0.add(&verdict.stats);
                    if let Some(fault) = verdict.fault {
                        results.1.push(Failed { seed, fault });
                    }
                    if results.1.len() >= failures {
                        return;
                    }
                }
            });
        }
    });
    let (stats, mut failed) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|failed| failed.seed);
    (stats, failed)
}

/// Tells of a run that is neither right nor wrong, also if its test passes.
fn show_undecided(kind: &str, seed: u64) {
    let line =
        format!("\nNOT TESTED: {kind}, seed {seed}: no order was found, and none was ruled out\n");
    // The harness keeps what a passing test prints, but not this.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs a seed again with its trace. Returns its fault, the last events, and the command that
/// repeats it.
#[must_use]
pub fn explain(config: SimConfig) -> String {
    let seed = config.seed;
    let kind = config.kind;
    let power = match config.durability {
        Durability::OsWithPowerLoss => "PANDO_SIM_POWER=1 ",
        _ => "",
    };
    let verdict = run(SimConfig { verbose: true, ..config });
    let Verdict { fault, tail, stats, .. } = verdict;
    let tail = &tail[tail.len().saturating_sub(TAIL)..];
    format!(
        "seed {seed}: {}\nthe last events:\n{}\nforgiven: {:?}\nonce more: PANDO_SIM_{kind}=1 {power}PANDO_SIM_SEED={seed} cargo test -p pando-sim one_seed -- --nocapture",
        fault.as_deref().unwrap_or("nothing wrong this time"),
        tail.join("\n"),
        stats.excuses
    )
}
