//! Deciding whether a check, which panics, finds a planted fault.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SEEDS: u64 = 100;

/// Runs `check` with one seed after the other, each first without the fault. Ends when the check
/// panics with `words` for a seed with the fault. Other panics do not count.
pub fn is_found_as(words: &str, plant: impl Fn(bool), check: impl Fn(u64)) {
    let mut others = Vec::new();
    for seed in 0..SEEDS {
        plant(false);
        check(seed);
        plant(true);
        let checked = catch_unwind(AssertUnwindSafe(|| check(seed)));
        plant(false);
        let Err(panic) = checked else { continue };
        let said = said(&*panic);
        if said.contains(words) {
            println!("seed {seed}: {}", first_line(&said));
            return;
        }
        others.push((seed, first_line(&said).to_owned()));
    }
    panic!("not found in {SEEDS} seeds as {words:?}; in other words: {others:?}");
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn first_line(said: &str) -> &str {
    said.lines().next().unwrap_or_default()
}
