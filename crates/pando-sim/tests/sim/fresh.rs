//! Runs new seeds each time.
//!
//! `PANDO_SIM_FRESH` is the first seed; `./test` draws it and shows it. A failure tells the command
//! that runs its seed again, alone. `PANDO_SIM_FRESH_SEEDS` runs that many seeds of each kind, and
//! names all that fail.

use std::hash::{BuildHasher, Hasher};

use pando_sim::SimConfig;
use pando_sim::batch::{batch, explain};
use pando_sim::holding::number;

use crate::forgiven::too_much;

/// Number of seeds of each kind. They are few, since each run of `./test` draws others.
const SEEDS: u64 = 2;

#[test]
fn fresh_seeds_hold() {
    let drawn = || std::hash::RandomState::new().build_hasher().finish() >> 32;
    let from = number("PANDO_SIM_FRESH").unwrap_or_else(drawn);
    let (seeds, failures) = match number("PANDO_SIM_FRESH_SEEDS") {
        Some(seeds) => (seeds, usize::MAX),
        None => (SEEDS, 1),
    };
    println!("fresh seeds from {from}");
    let (mut worst, mut forgiven) = (None, Vec::new());
    for (name, kind) in SimConfig::KINDS {
        for loses_power in [false, true] {
            let config = |seed| match loses_power {
                true => kind(seed).with_power_loss(),
                false => kind(seed),
            };
            let (stats, failed) = batch(from, seeds, failures, config);
            println!("{name}, loss of power {loses_power}: {:?}", stats.excuses);
            let what = too_much(name, loses_power, &stats);
            forgiven
                .extend(what.map(|what| format!("{name}, loss of power {loses_power}: {what}")));
            for failed in &failed {
                let what = failed.fault.lines().take(3).collect::<Vec<_>>().join("; ");
                println!("{name}, loss of power {loses_power}, seed {}: {what}", failed.seed);
            }
            worst = worst.or(failed.first().map(|first| config(first.seed)));
        }
    }
    if let Some(config) = worst {
        panic!("{}", explain(config));
    }
    assert!(forgiven.is_empty(), "too much is forgiven: {forgiven:#?}");
}
