//! Clients borrow directories from shards, and no program can tell.

use pando_sim::SimConfig;
use pando_sim::holding::hit;
use pando_sim::run;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to a loan.
const SEEDS: u64 = 40;

#[test]
fn what_is_lent_is_seen_by_nobody_else_and_all_that_was_answered_comes_back() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::lending).if_enough() else { return };
    let (loans, runs) = (stats.loans, stats.runs);
    hit("parts lent", loans.lent, runs * 6);
    hit("parts lent of directories that have split", loans.lent_split, runs / 2);
    hit("parts wanted by others", loans.recalled, runs * 6);
    hit("parts given back", loans.returned, runs * 6);
    hit("changes of holders", loans.elements, runs * 50);
    hit("parts taken back without their holders", loans.fenced, runs / 8);
    // Few seeds have many of them.
    hit("changes set aside", loans.set_aside, u64::from(runs >= 200));
    hit("changes that were lost with their machine", loans.died, runs / 4);
    hit("journals of dead clients that were sent", loans.journals, runs / 3);
    hit("journals that could not be written", loans.journals_failed, runs / 10);
    hit("clients that stood still", loans.stood_still, runs / 6);
    hit("clients that were cut off", loans.cut_off, runs / 6);
    hit("clients that died", stats.client_deaths, runs / 2);
    assert!(loans.refused <= runs / 10, "{} changes refused", loans.refused);
}

/// Machines lose power, and clients fsync. What is fsynced under a grant is there afterwards,
/// unless the client was told that it is lost.
#[test]
fn in_mode_os_a_loss_of_power_takes_nothing_that_was_fsynced_under_a_grant() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::lending).if_enough() else { return };
    hit("losses of power", stats.power_losses, stats.runs / 2);
    hit("parts lent", stats.loans.lent, stats.runs * 10);
    hit("promises", stats.promises.made, stats.runs * 20);
    hit("looks at a promise", stats.promises.looks, stats.runs * 25);
}

/// Clients look on, and remember what they see, until it is their turn to change something.
#[test]
fn what_is_remembered_is_as_if_it_were_asked_again() {
    let Some(stats) = all_hold(SEEDS / 2, false, SimConfig::holding).if_enough() else { return };
    hit("answers given again", stats.loans.remembered, stats.runs * 20);
    hit("parts lent", stats.loans.lent, stats.runs * 3);
    hit("read grants", stats.loans.read, stats.runs * 3);
    hit("read grants that were wanted back", stats.loans.read_recalled, stats.runs);
    hit("read grants that ended without their sessions", stats.loans.read_fenced, stats.runs / 8);
}

#[test]
fn what_is_remembered_is_not_lost_with_a_shards_power() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::holding).if_enough() else { return };
    hit("answers given again", stats.loans.remembered, stats.runs * 20);
    hit("losses of power", stats.power_losses, stats.runs / 2);
}

#[test]
fn kernels_answer_nothing_that_another_client_has_changed() {
    let Some(stats) = all_hold(SEEDS / 2, false, SimConfig::kernels).if_enough() else { return };
    hit("answers of kernels", stats.loans.known_to_kernels, stats.runs * 20);
    hit("read grants that were wanted back", stats.loans.read_recalled, stats.runs);
    hit("parts that were wanted back", stats.loans.recalled, stats.runs);
}

/// Seeds that once failed: docs/TESTING.md tells how.
#[test]
fn seeds_that_once_failed_hold() {
    for seed in [28, 31, 37, 44, 56, 78, 98, 247, 267] {
        assert_eq!(run(SimConfig::lending(seed)).fault, None, "seed {seed}");
    }
    for seed in [5137, 5324] {
        let with_power_loss = SimConfig::lending(seed).with_power_loss();
        assert_eq!(run(with_power_loss).fault, None, "seed {seed}");
    }
    for seed in [91, 173, 247] {
        assert_eq!(run(SimConfig::kernels(seed)).fault, None, "seed {seed} of kernels");
    }
}

#[test]
fn a_seed_gives_the_same_bytes_again() {
    for (kind, seeds) in [
        (SimConfig::lending as fn(u64) -> SimConfig, 3..7),
        (SimConfig::holding, 3..11),
        (SimConfig::kernels, 3..7),
    ] {
        for seed in seeds {
            let [first, second] = [(); 2].map(|()| run(kind(seed)));
            assert_eq!(first.hash, second.hash, "seed {seed}");
        }
    }
}
