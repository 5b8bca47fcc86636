//! Random calls of all persons, made from a seed.
//!
//! `PANDO_PERMISSION_CALLS` is the number of calls (`PANDO_LONG`: many more), of which half go
//! through two mounts. `PANDO_SEED` is the first seed.

use crate::arena::{Arena, Call, Difference, Kind, looks};
use crate::calls::Maker;

/// Number of calls of a history. There are few, so that a history that differs is soon shortened.
const HISTORY: usize = 400;
/// Number of calls after which all trees are compared, and the maker is told what exists.
const LOOK: usize = 20;
/// Maximum number of differing histories that are shown.
const SHOWN: usize = 8;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn a_program_that_calls_alone_finds_what_a_local_disk_answers() {
    compare_with(Kind::Alone);
}

#[test]
fn a_program_that_calls_through_two_mounts_finds_what_a_local_disk_answers() {
    compare_with(Kind::Two);
}

fn compare_with(other: Kind) {
    let long = std::env::var_os("PANDO_LONG").is_some();
    let calls = number("PANDO_PERMISSION_CALLS").unwrap_or(if long { 200_000 } else { 6_000 });
    let first = number("PANDO_SEED").unwrap_or(1);
    let mut arena = Arena::new(other, &["--suid", "--dev"]);
    let mut shown = Vec::new();
    for seed in first.. {
        if arena.calls >= calls / 2 {
            break;
        }
        if let Some((history, first)) = differing(&mut arena, seed) {
            let history = arena.shortest(history);
            // The difference may not occur again. Then nothing could be left out, and it is shown
            // as it was found.
            let difference = arena.run(&history).map_or(first, |(_, difference)| difference);
            let lines: Vec<_> = history.iter().map(|call| format!("    {call}")).collect();
            shown.push(format!("seed {seed}:\n{}\n{difference}", lines.join("\n")));
            eprintln!("{}", shown[shown.len() - 1]);
        }
        if shown.len() == SHOWN {
            break;
        }
    }
    eprintln!("differences that are to be: {:#?}", arena.listed);
    assert!(shown.is_empty(), "{} histories differ:\n{}", shown.len(), shown.join("\n"));
}

/// A history that ends with a difference, if this seed has one.
fn differing(arena: &mut Arena, seed: u64) -> Option<(Vec<Call>, Difference)> {
    let mut maker = Maker::new(seed);
    let mut history: Vec<Call> = Vec::new();
    arena.reset();
    for number in 1..=HISTORY {
        history.push(maker.make());
        if number % LOOK == 0 {
            history.extend(looks());
        }
        let new = history.len() - if number % LOOK == 0 { 3 } else { 1 };
        for nth in new..history.len() {
            match arena.ask(&history[nth]) {
                Ok(tree) if history[nth].line == "tree" => maker.sees(&tree),
                Ok(_) if arena.parted => return None,
                Ok(_) => {}
                Err(difference) => {
                    history.truncate(nth + 1);
                    return Some((history, difference));
                }
            }
        }
    }
    None
}
