//! Kills `pando up` with `SIGKILL` at random times under load. This test, outside of Pando, notes
//! each acknowledged operation. After the next `up` all of them must be there.
//!
//! Each worker has a part of the tree, and names of its own in a directory that all share. So it
//! knows after each call what its part must look like. The call that was running when the process
//! died may have happened or not.

#[path = "../common/mod.rs"]
mod common;
mod landing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Volume;
use common::worker::Worker;
use landing::Landings;

const WORKERS: u64 = 4;
/// Sizes that are so small that splits, renames between shards and checkpoints run all the time.
const SIZES: [&str; 4] = ["--split-threshold", "12", "--checkpoint-bytes", "40000"];

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed_at_any_moment() {
    let long = std::env::var_os("PANDO_LONG").is_some();
    let rounds = if long { 500 } else { 60 };
    let seed = std::env::var("PANDO_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!("PANDO_SEED={seed}, {rounds} rounds");
    // The model's modes assume the usual umask.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut volume = Volume::up(&SIZES);
    let mut workers: Vec<_> =
        (0..WORKERS).map(|number| Worker::new(number, seed, &volume.mount)).collect();
    let mut landings = Landings::default();
    let mut operations = 0;
    for round in 0..rounds {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.run(&stop));
            }
            let moment = Duration::from_micros(20_000 + random.u64(..150_000));
            let caught = landings.await_moment(&volume, round, Instant::now() + moment);
            volume.kill();
            landings.count(caught);
            stop.store(true, Ordering::Relaxed);
        });
        landings.count_unfinished_indexes(&volume.folder);
        volume.start(&SIZES);
        landings.count_recovered(&volume);
        for worker in &mut workers {
            operations += worker.take_acknowledged();
            worker.check(&volume.mount, round);
        }
    }
    eprintln!("{rounds} kills, {operations} acknowledged operations, {landings:?}");
    assert!(operations > rounds * 20, "hardly any load: {operations} operations");
    assert!(landings.in_splits > 0 && landings.in_renames > 0 && landings.in_checkpoints > 0);
    assert!(landings.recovered > 0, "nothing was found unfinished after a kill");
    for worker in &mut workers {
        worker.remove_all();
    }
    let left = std::fs::read_dir(&volume.mount).unwrap().count();
    assert_eq!(left, 0, "what was removed is back");
    volume.stop();
}
