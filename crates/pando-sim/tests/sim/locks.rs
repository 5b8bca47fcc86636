//! Programs lock files while their clients die, stand still and lose their sessions. No two clients
//! have one lock, and no write under a lock is lost or arrives late.

use pando_sim::SimConfig;
use pando_sim::batch::batch;
use pando_sim::holding::hit;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to a lock.
const SEEDS: u64 = 40;

#[test]
fn locks_are_one_holders_and_what_was_written_under_them_is_kept() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::locking).if_enough() else { return };
    let locks = stats.locks;
    hit("locks that were granted", locks.granted, 3_000);
    hit("shared ones", locks.shared, 450);
    hit("locks that were refused", locks.refused, 240);
    hit("locks of sessions that were over, given to others", locks.taken_over, 90);
    hit("owners who did not know", locks.unaware, 45);
    hit("owners who were told", locks.told, 45);
    hit("values read and judged", locks.reads, 6_000);
    hit("values written", locks.writes, 2_500);
    hit("writes of unknown outcome", locks.unsure, 90);
    hit("of those, found by the next", locks.unsure_found, 3);
    hit("requests that came when the lock was another's", locks.late, 20);
    hit("sessions ended while their clients worked", locks.ended, 300);
    hit("slots with locks that were to move", locks.hash_slots_moved, 750);
    hit("locked files renamed", locks.renamed, 90);
    hit("clients that died", stats.client_deaths, 60);
    hit("clients that stood still", stats.pauses, 150);
    hit("losses of power", stats.power_losses, 60);
}

#[test]
fn in_mode_os_a_loss_of_power_takes_locks_and_values_of_its_last_moments_only() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::locking).if_enough() else { return };
    hit("losses of power", stats.power_losses, 150);
    hit("values read and judged", stats.locks.reads, 2_400);
    hit("locks of sessions that were over, given to others", stats.locks.taken_over, 6);
}

/// In mode `os`, a loss of power may undo an unlock. Then the session still has the lock, and no
/// owner in the mount knows of it. The client must unlock again, or no other client gets the lock
/// while that mount is alive.
#[test]
fn a_lock_that_was_given_back_does_not_come_back_for_ever() {
    let waits = |seed| SimConfig {
        lock_patience: None,
        session_ends: 0,
        pauses: 0,
        client_deaths: 0,
        end_within: 60_000_000_000,
        ..SimConfig::locking(seed).with_power_loss()
    };
    let (_, failed) = batch(1, 60, 1, waits);
    assert!(failed.is_empty(), "seed {}: {}", failed[0].seed, failed[0].fault);
}
