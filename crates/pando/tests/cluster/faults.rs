//! One fault per round, under a load that records what was acknowledged.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::worker::Worker;
use crate::site::{MOUNTS, Process, SERVERS, Site};

const WORKERS: u64 = 4;
/// In the long form, one fault in this many lasts long, until each kind has done so for each
/// process. The number has no common divisor with `ALL`.
const LASTING_EVERY: usize = 7;
/// Number of pairs of a kind and a process.
const ALL: usize = 18;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Kill,
    Suspend,
    Cut,
}

/// The kind and process of fault `n`, each pair in turn, for ever. Neighbours differ in both.
fn nth(n: usize) -> (Process, Fault) {
    let processes: Vec<_> =
        (0..SERVERS).map(Process::Server).chain((0..MOUNTS).map(Process::Mount)).collect();
    let kinds = [Fault::Kill, Fault::Suspend, Fault::Cut];
    (processes[n % processes.len()], kinds[(n + n / processes.len()) % kinds.len()])
}

fn is_long() -> bool {
    std::env::var_os("PANDO_LONG").is_some()
}

/// Makes faults under load, and checks what was acknowledged.
pub struct Faults {
    random: fastrand::Rng,
    workers: Vec<Worker>,
    done: Vec<Fault>,
    operations: u64,
    check_every: usize,
}

impl Faults {
    /// Acknowledged changes are checked after every `check_every` faults, and when the outcome of a
    /// call is unknown.
    pub fn new(site: &Site, check_every: usize) -> Self {
        let seed = std::env::var("PANDO_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        eprintln!("PANDO_SEED={seed}");
        // The model's modes assume the usual umask.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let worker = |number| Worker::new(number, seed, &site.mount((number % 2) as u8));
        let workers = (0..WORKERS).map(worker).collect();
        let random = fastrand::Rng::with_seed(seed);
        Self { random, workers, done: Vec::new(), operations: 0, check_every }
    }

    /// Number of faults to make. In the short form it is one for each pair, unless `PANDO_FAULTS`
    /// gives it.
    pub fn wanted(long: usize) -> usize {
        let wanted = std::env::var("PANDO_FAULTS").map(|n| n.parse().expect("a number"));
        wanted.unwrap_or(if is_long() { long } else { ALL })
    }

    pub fn count(&self) -> usize {
        self.done.len()
    }

    /// Makes one fault under load. Changes through one mount must be seen through the other.
    pub fn next(&mut self, site: &mut Site) {
        let round = self.done.len();
        let (process, mut fault) = nth(round);
        if let (Process::Mount(number), Fault::Kill) = (process, fault)
            && !site.station(number).may_be_killed()
        {
            fault = Fault::Suspend;
        }
        let mut pause = |least, more: u64| Duration::from_millis(least + self.random.u64(..more));
        // After some twenty seconds, connections are given up.
        let is_turn = round < ALL * LASTING_EVERY && (round + 1).is_multiple_of(LASTING_EVERY);
        let is_lasting = is_long() && is_turn;
        let lasting = if is_lasting { pause(3_000, 25_000) } else { pause(100, 900) };
        let before = pause(100, 200);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut self.workers {
                scope.spawn(|| worker.run(&stop));
            }
            std::thread::sleep(before);
            match fault {
                Fault::Kill => site.kill(process),
                Fault::Suspend => site.suspend(process),
                Fault::Cut => site.lan.cut(process.host()),
            }
            std::thread::sleep(lasting);
            match fault {
                Fault::Kill => site.start(process),
                Fault::Suspend => site.resume(process),
                Fault::Cut => site.lan.heal(process.host()),
            }
            // Everything recovers by itself.
            stop.store(true, Ordering::Relaxed);
        });
        self.done.push(fault);
        let all = self.done.len().is_multiple_of(self.check_every);
        std::thread::scope(|scope| {
            for (number, worker) in self.workers.iter_mut().enumerate() {
                self.operations += worker.take_acknowledged();
                if all || worker.is_in_doubt() {
                    let there = site.mount(1 - (number % 2) as u8);
                    scope.spawn(move || worker.check(&there, round as u64));
                }
            }
        });
    }

    /// Removes everything, and checks that of the root's names only `left` remain.
    pub fn end(mut self, site: &Site, left: &[&str]) {
        let rounds = self.done.len();
        let of = |kind| self.done.iter().filter(|fault| **fault == kind).count();
        let [kill, suspend, cut] = [Fault::Kill, Fault::Suspend, Fault::Cut].map(of);
        eprintln!(
            "{rounds} faults ({kill} kill -9, {suspend} SIGSTOP, {cut} cable), {} acknowledged operations",
            self.operations
        );
        assert!(self.operations > rounds as u64 * 5, "hardly any load: {}", self.operations);
        self.workers.iter_mut().for_each(Worker::remove_all);
        for number in 0..MOUNTS {
            let list = fs::read_dir(site.mount(number)).unwrap().map(|entry| entry.unwrap());
            let names: Vec<_> = list.map(|entry| entry.file_name()).collect();
            assert_eq!(names, left, "what was removed is back");
        }
    }
}
