//! Each planted fault is found by the check that is named here, within the seeds that
//! [`crate::seeds`] runs. Each of those seeds holds without the fault.

use pando_sim::SimConfig;
use pando_sim::Stats;
use pando_sim::counts::Count as _;
use pando_sim::holding;
use pando_sim::run;

use crate::forgiven;

type Client = pando_client::Planted;
type Core = pando_core::Planted;
type Shell = pando_server::host::Planted;
type Store = babu::Planted;

/// No order of the history explains all answers.
const ORDER: &str = "; the best one holds ";
/// `pando-fsck` finds a fault.
const STRUCTURE: &str = "structure";
/// A fsynced change is missing.
const PROMISE: &str = "fsynced as";
/// A client does not end.
const END: &str = "did not come to an end";
/// After all clients have ended, something of them is left.
const REST: &str = "is not at rest";
/// A store takes what it finds for damage.
const REFUSED: &str = "cannot open";
/// A shard gets a message that no shard may send.
const IMPROPER: &str = "was refused as one that cannot be";
/// A client hears `EIO` although nothing failed.
const GAVE_UP: &str = "a client gave up";

/// A version did not go up though it must.
const VERSIONS: &str = "a write raised no version";
/// A time differs from the one that was set.
const TIMES: &str = "a write left the time of the last one";

fn is_found_by(checks: &[&str], runs: fn(u64) -> SimConfig, plant: impl Fn(&mut SimConfig)) {
    let clean = |seed| {
        plant_in_thread(None, None);
        runs(seed)
    };
    holding::is_found_by(checks, clean, plant);
}

fn plant_in_thread(client: Option<Client>, store: Option<Store>) {
    Client::plant(client);
    Store::plant(store);
}

macro_rules! planted {
    ($($test:ident: $part:ident::$fault:ident, $runs:expr, $checks:expr;)*) => {
        $(#[test] fn $test() { is_found_by(&$checks, $runs, |config| planted!(@$part $fault config)); })*
    };
    (@Core $fault:ident $config:ident) => { $config.planted = Some(Core::$fault) };
    (@Shell $fault:ident $config:ident) => { $config.planted_in_shell = Some(Shell::$fault) };
    (@Client $fault:ident $config:ident) => {{ let _ = $config; plant_in_thread(Some(Client::$fault), None) }};
    (@Store $fault:ident $config:ident) => {{ let _ = $config; plant_in_thread(None, Some(Store::$fault)) }};
}

// Some begin with a seed that found the fault when this was written. Before it are many that do
// not, or of which the search for an order takes up to two minutes.
planted! {
    others_use_what_is_lent: Core::RecallNotAwaited, SimConfig::lending, [ORDER];
    an_outcome_that_is_not_recorded: Core::OutcomeNotRecorded, SimConfig::new, [ORDER];
    an_intent_forgotten_early: Core::IntentForgottenEarly, SimConfig::new, [STRUCTURE];
    a_split_whose_tail_is_open: Core::SplitTailUnlocked, SimConfig::new, [STRUCTURE];
    a_change_during_the_copy_that_is_not_sent_again: Core::ChangeNotResent, SimConfig::splitting, [STRUCTURE];
    a_partition_that_stays_open_while_it_is_given_back: Core::MergeTailUnlocked, |seed| SimConfig::splitting(3 + seed), [STRUCTURE];
    a_slot_that_is_open_in_its_exchange: Core::HashSlotUnlocked, SimConfig::handing_over, [STRUCTURE];
    a_shard_that_misses_a_version: Core::VersionNotLearned, SimConfig::by_path, [ORDER];
    an_announcement_before_the_locks: Core::VersionBeforeLocks, SimConfig::by_path, [ORDER];
    a_directory_closed_without_a_word_to_the_shards: Core::SubdirsNotCounted, SimConfig::by_path, [ORDER];
    moves_that_are_not_checked_against_each_other: Core::ClaimUnchecked, SimConfig::moving, [STRUCTURE];
    a_file_that_is_said_to_be_durable_before_it_is: Core::SyncFileUnsynced, SimConfig::losing_power, [PROMISE];
    a_sync_that_waits_for_no_decision: Core::SyncFileAwaitsNothing, |seed| SimConfig::losing_power(30 + seed), [PROMISE];
    numbers_that_are_reserved_in_memory_only: Core::ReservationLost, |seed| SimConfig::splitting(8 + seed), [STRUCTURE];
    a_vote_before_its_sync: Core::VoteUnsynced, SimConfig::losing_power, [IMPROPER];
    a_floor_above_what_lives: Core::FloorOverLiving, SimConfig::new, [STRUCTURE];
    a_first_look_that_is_trusted: Core::LookTrusted, |seed| SimConfig::moving(23 + seed), [STRUCTURE];
    setuid_that_stays_at_a_write: Core::SetuidKept, SimConfig::new, [ORDER];
    opens_that_outlive_their_session: Core::OpensOutlive, SimConfig::new, [STRUCTURE];
    a_write_that_leaves_the_version_of_the_data: Core::DataVersionStays, SimConfig::new, [VERSIONS];
    a_write_that_leaves_the_time_of_the_content: Core::TimeStays, SimConfig::new, [TIMES];
    a_link_that_is_not_counted: Core::LinkNotCounted, SimConfig::new, [STRUCTURE];
    a_copy_that_runs_beside: Core::CopyRunsBeside, SimConfig::new, [ORDER];

    a_request_that_has_run_and_is_refused_for_a_full_disk: Core::RanAndRefused, |seed| SimConfig::disks(35 + seed), [ORDER];
    a_write_under_a_lock_that_another_has: Core::EndedSessionRuns, |seed| SimConfig::locking(80 + seed), ["a lock of its session was another's"];
    locks_that_are_lost_on_their_way_to_another_shard: Core::LocksNotHandedOver, SimConfig::locking, ["and both live", "two hold a lock at once"];

    a_reply_before_the_log_is_written: Shell::ReplyBeforeLogWrite, SimConfig::new, [ORDER];
    a_reply_before_the_sync: Shell::ReplyBeforeSync, SimConfig::new, [ORDER];
    peers_told_before_the_sync: Shell::PeersBeforeSync, SimConfig::losing_power, [STRUCTURE];
    a_timer_that_never_fires: Shell::NoTicks, SimConfig::new, [END];

    a_retry_under_a_new_number: Client::RetryRenumbered, SimConfig::new, [GAVE_UP];
    a_retry_that_goes_to_a_wrong_owner: Client::RetryAstray, |seed| SimConfig::new(16 + seed), [ORDER];
    a_redirect_that_is_not_learned: Client::RedirectNotLearned, SimConfig::new, [GAVE_UP];
    a_sequence_that_comes_again: Client::SequenceReused, SimConfig::new, [GAVE_UP];
    a_lost_request_that_is_called_not_run: Client::LostSaysNotRun, SimConfig::new, [ORDER];

    a_sync_that_does_nothing: Store::SyncDoesNothing, SimConfig::losing_power, [REFUSED];
}

/// A request or a session waits on a timer that stands still. Which of them a check sees first
/// depends on the seed.
#[test]
fn timers_that_go_by_the_time_of_day() {
    is_found_by(&[END, REST], SimConfig::new, |config| {
        (config.one_clock, config.end_within) = (true, 20_000_000_000);
    });
}

/// A judge that excuses any difference lets all seeds pass. Its count of excuses shows it.
#[test]
fn a_judge_that_forgives_everything() {
    let forgiven = |is_planted: bool| {
        pando_sim::forgive_all(is_planted);
        let mut all = Stats::default();
        for seed in 1..=forgiven::RUNS_MIN {
            let verdict = run(SimConfig::new(seed));
            assert_eq!(verdict.fault, None, "seed {seed}");
            all.add(&verdict.stats);
        }
        pando_sim::forgive_all(false);
        forgiven::too_much("ANY", false, &all)
    };
    assert_eq!(forgiven(false), None);
    let what = forgiven(true).expect("too much is forgiven");
    assert!(what.starts_with("OtherObjection "), "{what}");
    println!("{what}");
}
