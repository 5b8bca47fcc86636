//! Seeds that nobody has run before: other ones each time.
//!
//! `PANDO_SIM_FRESH` names the first; `./test` draws it, and shows it. What fails tells how it is run once more, alone.

use std::hash::{BuildHasher, Hasher};

use pando_sim::batch::{batch, explain};
use pando_sim::config::SimConfig;

/// Seeds of each kind. Few, as long as about one run in five hundred shows a fault that is known and not mended (docs/STATUS.md).
const SEEDS: u64 = 2;

#[test]
fn fresh_seeds_hold() {
    let given = std::env::var("PANDO_SIM_FRESH").ok().and_then(|seed| seed.parse().ok());
    let drawn = || std::hash::RandomState::new().build_hasher().finish() >> 32;
    let from: u64 = given.unwrap_or_else(drawn);
    println!("fresh seeds from {from}");
    for (_, kind) in SimConfig::KINDS {
        for loses_power in [false, true] {
            let config = |seed| match loses_power {
                true => kind(seed).with_power_loss(),
                false => kind(seed),
            };
            let (_, failed) = batch(from, SEEDS, 1, config);
            if let Some(first) = failed.first() {
                panic!("{}\n{}", first.fault, explain(config(first.seed)));
            }
        }
    }
}
