//! The system behaves as one tree, whatever happens to it.

use pando_sim::Excuse;
use pando_sim::SimConfig;
use pando_sim::Stats;
use pando_sim::batch::{batch, explain};
use pando_sim::counts::parts::{Doubts, Handovers, LostSessions, Promises};
use pando_sim::holding;
use pando_sim::holding::number;
use pando_sim::run;

use crate::forgiven::too_much;

/// Enough seeds to hit everything that must be hit.
const SEEDS: u64 = 110;

/// Runs `seeds` seeds, and checks that no excuse is applied too often. Returns the counts, if
/// enough seeds ran to hit everything.
fn all_hold(seeds: u64, config: fn(u64) -> SimConfig) -> Option<Stats> {
    let held = holding::all_hold(seeds, config);
    assert_eq!(too_much(config(1).kind, false, &held.stats), None);
    held.if_enough()
}

#[test]
fn every_seed_holds() {
    if let Some(stats) = all_hold(SEEDS, SimConfig::new) {
        enough_was_hit(&stats);
        each_rule_is_used(&stats);
    }
}

/// Checks that each excuse was used: an unused one must be removed. Excepted are excuses that these
/// seeds do not meet, such as a walk that ends at a file. For those see docs/TESTING.md.
fn each_rule_is_used(stats: &Stats) {
    let used = [
        Excuse::OtherObjection,
        Excuse::FormerName,
        Excuse::CheckedBefore,
        Excuse::DirectoryCounts,
        Excuse::SessionOver,
    ];
    for excuse in used {
        assert!(stats.excuses.contains_key(&excuse), "{excuse:?} was never used");
    }
}

fn enough_was_hit(stats: &Stats) {
    let requests: u64 = stats.requests.iter().sum();
    for (shard, served) in stats.requests.iter().enumerate() {
        assert!(served * 100 >= requests * 15, "shard {shard} served {served} of {requests}");
    }
    assert!(stats.splits.local > 16 && stats.splits.moved > 16, "splits: {:?}", stats.splits);
    for kind in ["mkdir", "rmdir", "rename", "rename_dir", "link", "unlink", "dir_setattr", "split"]
    {
        let count = stats.remote.get(kind).copied().unwrap_or(0);
        assert!(count > 8, "{kind} over several shards: {count}");
    }
    for phase in [
        "prepared name",
        "prepared home",
        "prepared new home",
        "prepared seal",
        "prepared partition",
        "prepared link",
        "prepared new link",
        "prepared graph",
        "prepared arrive",
        "arriving",
    ] {
        let count = stats.crashed_in.get(phase).copied().unwrap_or(0);
        assert!(count > 0, "no shard died while {phase}: {:?}", stats.crashed_in);
    }
    let decided = stats.crashed_in.keys().filter(|what| what.starts_with("decided ")).count();
    assert!(decided >= 5, "shards died with few kinds decided: {:?}", stats.crashed_in);
    assert!(stats.checkpoint_crashes > 3, "{} checkpoints crashed", stats.checkpoint_crashes);
    assert!(stats.power_losses > 8, "{} power losses", stats.power_losses);
    assert!(stats.client_deaths > 8, "{} clients died", stats.client_deaths);
    assert!(stats.pauses > 80, "{} clients stood still", stats.pauses);
    assert!(stats.expired > 80, "{} leases ended", stats.expired);
    assert!(stats.refused_sessions > 48, "{} requests came late", stats.refused_sessions);
    let LostSessions { over, unsure } = stats.lost_sessions;
    assert!(over > 48 && unsure > 8, "{over} sessions lost, {unsure} with requests in flight");
    assert!(stats.lost_opens > 4, "{} opens lost with their session", stats.lost_opens);
    let Doubts { given_up, not_run, run } = stats.doubts;
    assert!(
        not_run > 80 && run > 80,
        "of {given_up} requests given up {not_run} turned out not to have run, {run} to have"
    );
    assert!(stats.broken_with_reply > 800, "{} replies lost", stats.broken_with_reply);
    assert!(stats.broken_with_request > 800, "{} requests lost", stats.broken_with_request);
    assert!(stats.crashed_together > 160, "{} processes", stats.crashed_together);
    assert!(stats.cuts_one_way > 160 && stats.cuts_both_ways > 160, "too few cuts");
    for kind in ["mkdir", "rmdir", "rename", "rename_dir", "link", "unlink", "split"] {
        let count = stats.cut_in.get(kind).copied().unwrap_or(0);
        assert!(count > 0, "no {kind} was cut off one way: {:?}", stats.cut_in);
    }
    let bytes = stats.bytes;
    assert!(bytes.cut > 1_600 && bytes.joined > 1_600, "{bytes:?}");
    assert!(bytes.refused > 80 && bytes.stuck > 16 && bytes.lingered > 160, "{bytes:?}");
    assert!(stats.repeated > 16, "{} requests were answered again", stats.repeated);
    assert!(stats.redirected > 16, "{} requests were sent elsewhere", stats.redirected);
    assert!(stats.suspicions > 80, "{} suspicions while running", stats.suspicions);
    assert!(stats.waited > 16, "{} inputs waited", stats.waited);
    assert!(stats.at_once > 1_600, "{} requests run at once", stats.at_once);
    assert!(stats.beside > 1_600, "{} turns beside others", stats.beside);
    assert!(stats.checkpoints > 800, "{} checkpoints", stats.checkpoints);
    assert!(stats.clocks_set > 160, "{} clocks set", stats.clocks_set);
}

/// Enough seeds to hit everything that can happen to a live copy.
const SPLITTING_SEEDS: u64 = 40;

#[test]
fn splits_and_merges_under_load_lose_and_double_nothing() {
    if let Some(stats) = all_hold(SPLITTING_SEEDS, SimConfig::splitting) {
        enough_was_split(&stats);
    }
}

fn enough_was_split(stats: &Stats) {
    let copies = stats.copies;
    let hit = |what: &str, count: u64, least: u64| {
        assert!(count >= least, "{what}: {count}, less than {least}");
    };
    hit("splits to another shard", stats.splits.moved, 315);
    hit("pages", copies.pages, 1_680);
    hit("rounds", copies.rounds, 30);
    hit("changes sent again", copies.rows_again, 210);
    hit("changes sent in the exchange", copies.rows_frozen, 126);
    hit("rounds of a frozen half", copies.rounds_frozen, 12);
    hit("halves that waited for transactions", copies.awaiting, 10);
    hit("halves opened again", copies.reopened, 6);
    hit("halves overtaken", copies.overtaken, 31);
    hit("splits given up for somebody else", copies.yielded, 6);
    hit("splits given up", copies.failed, 2);
    let merges = stats.merges;
    hit("merges to another shard", merges.moved, 420);
    hit("merges within a shard", merges.local, 50);
    hit("names given back", merges.entries, 105);
    hit("partitions not taken back", merges.refused, 105);
    hit("merges given up for somebody else", merges.yielded, 6);
    for phase in [
        "copying",
        "sending changes",
        "closing",
        "frozen",
        "arriving",
        "prepared arrive",
        "prepared merge",
        "decided split",
        "decided merge",
    ] {
        let count = stats.crashed_in.get(phase).copied().unwrap_or(0);
        assert!(count > 1, "{count} shards died while {phase}: {:?}", stats.crashed_in);
    }
}

/// Enough seeds to hit everything that can happen to a handover.
const HANDING_OVER_SEEDS: u64 = 40;

#[test]
fn hash_slots_that_are_handed_over_under_load_lose_and_double_nothing() {
    if let Some(stats) = all_hold(HANDING_OVER_SEEDS, SimConfig::handing_over) {
        enough_was_handed_over(&stats);
    }
}

fn enough_was_handed_over(stats: &Stats) {
    let Handovers { done, given_up, .. } = stats.handovers;
    assert!(done > 600, "{done} slots were handed over");
    assert!(given_up > 6, "{given_up} handovers were given up");
    assert!(stats.remote["join"] > 30, "{} shards were added", stats.remote["join"]);
    assert!(stats.splits.moved > 90, "splits: {:?}", stats.splits);
    for phase in
        ["copying", "closing", "frozen", "slot arriving", "prepared take slot", "decided handover"]
    {
        let count = stats.crashed_in.get(phase).copied().unwrap_or(0);
        assert!(count > 0, "no shard died while {phase}: {:?}", stats.crashed_in);
    }
}

/// Number of seeds. Without the renaming graph, nearly each of them would make a loop.
const MOVING_SEEDS: u64 = 40;

#[test]
fn directories_that_are_moved_into_each_other_stay_one_tree() {
    if let Some(stats) = all_hold(MOVING_SEEDS, SimConfig::moving) {
        let moved = stats.remote.get("rename_dir").copied().unwrap_or(0);
        assert!(moved > 600, "{moved} directories moved over several shards");
    }
}

#[test]
fn one_seed() {
    let Some(seed) = number("PANDO_SIM_SEED") else { return };
    // `PANDO_SIM_SPLITTING=1` and its like choose the kind of the run. `PANDO_SIM_POWER=1` is mode
    // `os` with losses of power. `PANDO_SIM_WATCH=2950000000` judges the structure after each step
    // from that time on, nanoseconds.
    let chosen = |kind: &str| number(&format!("PANDO_SIM_{kind}")) == Some(1);
    let kind = SimConfig::KINDS.into_iter().find(|(kind, _)| chosen(kind));
    let config = kind.map_or(SimConfig::new as fn(u64) -> SimConfig, |(_, of)| of)(seed);
    let config = if chosen("POWER") { config.with_power_loss() } else { config };
    let watched_from = number("PANDO_SIM_WATCH").unwrap_or(u64::MAX);
    let verdict = run(SimConfig { verbose: true, watched_from, ..config.clone() });
    for line in &verdict.tail {
        println!("{line}");
    }
    println!("{config:?}");
    println!("{}", verdict.stats);
    if let Some(fault) = verdict.fault {
        panic!("{fault}");
    }
}

/// Seeds that once failed, beyond those that always run. One lost an open file in an exchange of
/// which a half was told. One closed a file in a session that was over. Of 237, 36, 79 and 1170 the
/// search found no order. docs/TESTING.md tells of the others.
#[test]
fn seeds_that_once_failed_hold() {
    type Kind = fn(u64) -> SimConfig;
    let kept: [(Kind, &[u64]); 6] = [
        (SimConfig::new, &[1597, 1840]),
        (SimConfig::splitting, &[237, 984, 2179]),
        (SimConfig::handing_over, &[3033]),
        (SimConfig::disks, &[36, 79, 1170, 22_000_495]),
        (SimConfig::objects, &[102]),
        (SimConfig::locking, &[3_000_553]),
    ];
    let without_power: [(Kind, &[u64]); 4] = [
        (SimConfig::new, &[3542]),
        (SimConfig::disks, &[54, 103, 119, 142, 168, 20_000_764, 20_000_861]),
        (SimConfig::moving, &[2528]),
        (SimConfig::handing_over, &[2623, 2650, 6000, 50_033_207]),
    ];
    let kept = kept.iter().flat_map(|(kind, seeds)| seeds.iter().map(|seed| kind(*seed)));
    let without_power = without_power
        .iter()
        .flat_map(|(kind, seeds)| seeds.iter().map(|seed| kind(*seed).with_power_loss()));
    for config in kept.chain(without_power) {
        let (kind, seed) = (config.kind, config.seed);
        let verdict = run(config);
        assert_eq!(verdict.fault, None, "{kind}, seed {seed}");
        let undecided = verdict.stats.excuses.get(&Excuse::NotFound);
        assert_eq!(undecided, None, "{kind}, seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_bytes_again() {
    for seed in [3, 5, 8] {
        let [first, second] = [(); 2].map(|()| run(SimConfig::new(seed)));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_ne!(first.hash, run(SimConfig::new(seed + 1000)).hash, "seed {seed}");
    }
}

#[test]
fn in_mode_os_a_loss_of_power_leaves_the_structure_whole_and_what_was_fsynced() {
    let count = number("PANDO_SIM_SEEDS").unwrap_or(SEEDS) / 3;
    let from = number("PANDO_SIM_FROM").unwrap_or(1);
    let all_hold = |count: u64, kind: fn(u64) -> SimConfig| {
        let config = |seed| kind(seed).with_power_loss();
        let (stats, failed) = batch(from, count, 1, config);
        if let Some(first) = failed.first() {
            panic!("{}\n{}", first.fault, explain(config(first.seed)));
        }
        assert_eq!(too_much(config(from).kind, true, &stats), None);
        stats
    };
    let stats = all_hold(count, SimConfig::new);
    assert!(stats.power_losses > count / 2, "{} power losses", stats.power_losses);
    let Promises { made, looks } = stats.promises;
    println!("{made} promises, {looks} looks at one");
    assert!(made > 10 * count && looks > 10 * count, "{made} promises, {looks} looks");
    all_hold(count / 5, SimConfig::handing_over);
    let stats = all_hold(count / 3, SimConfig::splitting);
    assert!(stats.power_losses > count / 6, "{} power losses", stats.power_losses);
}
