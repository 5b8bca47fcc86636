//! Loss of power: the real processes on a disk that forgets what was not synced.
//!
//! A seed decides how the volume is run, what its mount does, when the power is lost, and what the
//! disk forgets. `PANDO_POWER_SEED=N cargo test --package pando --test power` runs one seed again.
//! `PANDO_POWER_SEEDS=N` runs N seeds.

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod ext4;
mod load;
mod machine;
mod model;
mod served;
mod stores;

use std::time::Duration;

use load::Worker;
use machine::{Machine, Way};
use served::Kept;

const ROUNDS: u64 = 4;
const STEPS: u64 = 250;

#[test]
fn what_was_synced_survives_a_loss_of_power_and_the_rest_is_consistent() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let many = if std::env::var_os("PANDO_LONG").is_some() { 200 } else { 12 };
    let seeds = match number("PANDO_POWER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PANDO_POWER_SEEDS").unwrap_or(many),
    };
    // The model's modes assume the usual umask.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let (mut total, count) = (Total::default(), seeds.end - seeds.start);
    for seed in seeds {
        let replay = Replay(seed);
        total.add(&run(seed));
        std::mem::forget(replay);
    }
    eprintln!("{total:?}");
    let is_load = total.acknowledged > 100 * count && total.losses > count;
    assert!(count < 12 || is_load && total.at_start > 0, "hardly anything was lost: {total:?}");
}

/// Prints how to run a seed again, if the seed fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        let seed = self.0;
        eprintln!(
            "again: PANDO_POWER_SEED={seed} cargo test --package pando --test power what_was_synced"
        );
    }
}

/// Counts of what happened, to be shown.
#[derive(Default, Debug)]
struct Total {
    losses: u64,
    at_start: u64,
    /// Changes and syncs of the disk before the losses.
    requests: u64,
    acknowledged: u64,
    unreadable: u64,
}

impl Total {
    fn add(&mut self, other: &Self) {
        self.losses += other.losses;
        self.at_start += other.at_start;
        self.requests += other.requests;
        self.acknowledged += other.acknowledged;
        self.unreadable += other.unreadable;
    }
}

fn way(seed: u64, random: &mut fastrand::Rng) -> Way {
    Way {
        is_durable: seed % 2 == 1,
        is_split: seed % 3 == 2,
        shards: [1, 2, 4][random.usize(..3)],
        checkpoint_bytes: [30_000, 200_000, 64 << 20][random.usize(..3)],
        split_threshold: [5, 12, 8000][random.usize(..3)],
        has_ext4: seed / 2 % 3 == 2 && ext4::is_possible(),
    }
}

fn run(seed: u64) -> Total {
    let mut random = fastrand::Rng::with_seed(seed + 1);
    let way = way(seed, &mut random);
    eprintln!("seed {seed}: {way:?}");
    let mut machine = Machine::new(way);
    let (mount, is_durable) = (machine.mount.clone(), way.is_durable);
    let count = 1 + random.u64(..3);
    let worker = |number| Worker::new(number, seed, &mount, &machine.disk, is_durable);
    let mut workers: Vec<_> = (0..count).map(worker).collect();
    let mut total = Total::default();
    let mut is_running = false;
    for round in 0..ROUNDS {
        let is_at_start = !is_running && random.u64(..3) == 0;
        if is_at_start {
            machine.disk.pull_after(1 + random.u64(..100));
        }
        let started = if is_running { Ok(()) } else { machine.start() };
        if started.is_ok() && !is_at_start {
            let requests = if way.has_ext4 { 400 } else { 2000 };
            machine.disk.pull_after(1 + random.u64(..requests));
        }
        work(&mut machine, if started.is_ok() { &mut workers } else { &mut [] });
        let kept = [Kept::All, Kept::Some, Kept::Some, Kept::Synced][random.usize(..4)];
        machine.regain_power(&mut random, kept);
        total.losses += u64::from(kept != Kept::All);
        total.at_start += u64::from(started.is_err());
        total.requests += machine.disk.requests();
        machine.start().expect("nobody pulls the plug");
        let what = format!("seed {seed}, round {round}, had started {started:?}, kept {kept:?}");
        let may_lack = !is_durable && (kept == Kept::Some || way.has_ext4);
        for worker in &mut workers {
            let unreadable = worker.check(may_lack);
            let unreadable = unreadable.unwrap_or_else(|error| panic!("{what}: {error}"));
            total.unreadable += unreadable.len() as u64;
        }
        let damage = machine.damage(may_lack);
        assert!(damage.is_empty(), "{what}: {damage:#?}");
        // If the volume goes on running, the next loss meets what this start has done.
        is_running = random.bool();
        if !is_running {
            machine.stop();
            let damage = machine.damage(may_lack);
            assert!(damage.is_empty(), "{what}, stopped: {damage:#?}");
        }
    }
    total.acknowledged = workers.iter().map(Worker::acknowledged).sum();
    total
}

/// Lets the workers work until the power is lost or all are done.
fn work(machine: &mut Machine, workers: &mut [Worker]) {
    std::thread::scope(|scope| {
        let spawn = |worker| scope.spawn(|| Worker::run(worker, STEPS));
        let threads: Vec<_> = workers.iter_mut().map(spawn).collect();
        while !machine.disk.await_gone(Duration::from_millis(5))
            && threads.iter().any(|thread| !thread.is_finished())
        {}
        machine.lose_power();
    });
}
