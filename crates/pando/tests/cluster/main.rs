//! Four servers and two mounts, each on a host of its own, under load, while they are killed, stopped and cut off in turn.
//! The recorder is this program, outside Pando: what was acknowledged on one mount must be there on the other.
//!
//! The short form takes each fault for some processes; `PANDO_LONG` takes all of them many times.

#[path = "../common/mod.rs"]
mod common;
mod lan;
mod site;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::random::Random;
use common::worker::Worker;
use common::{all, differences};
use site::{MOUNTS, Process, SERVERS, Site};

const WORKERS: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Kill,
    Suspend,
    Cut,
}

/// All faults of all processes in turn, as many as asked for.
fn faults(count: usize) -> Vec<(Process, Fault)> {
    let processes: Vec<_> =
        (0..SERVERS).map(Process::Server).chain((0..MOUNTS).map(Process::Mount)).collect();
    let kinds = [Fault::Kill, Fault::Suspend, Fault::Cut];
    // Neighbours differ in both.
    (0..count)
        .map(|n| (processes[n % processes.len()], kinds[(n + n / processes.len()) % kinds.len()]))
        .collect()
}

#[test]
fn what_one_mount_acknowledged_the_other_finds_whatever_process_fails() {
    let long = std::env::var_os("PANDO_LONG").is_some();
    let rounds = std::env::var("PANDO_FAULTS")
        .map_or(if long { 180 } else { 18 }, |n| n.parse().expect("a number"));
    let seed = std::env::var("PANDO_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!("PANDO_SEED={seed}, {rounds} faults");
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut random = Random::new(seed);
    let mut site = Site::new();
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|number| Worker::new(number, seed, &site.mount((number % 2) as u8)))
        .collect();
    let mut operations = 0;
    for (round, (process, fault)) in faults(rounds).into_iter().enumerate() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                scope.spawn(|| worker.run(&stop));
            }
            let pause = |millis| Duration::from_millis(millis);
            std::thread::sleep(pause(100 + random.below(200)));
            let lasting = pause(100 + random.below(900));
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
            // All goes on by itself.
            stop.store(true, Ordering::Relaxed);
        });
        for (number, worker) in workers.iter_mut().enumerate() {
            operations += worker.take_acknowledged();
            // What was done here is seen there.
            worker.check(&site.mount(1 - (number % 2) as u8), round as u64);
        }
    }
    eprintln!("{rounds} faults, {operations} acknowledged operations");
    assert!(operations > rounds as u64 * 20, "hardly any load: {operations} operations");
    for worker in &mut workers {
        worker.remove_all();
    }
    for number in 0..MOUNTS {
        assert_eq!(
            fs::read_dir(site.mount(number)).unwrap().count(),
            0,
            "what was removed is back"
        );
    }
    end(site);
}

#[test]
fn a_tree_is_extracted_here_and_compared_there_while_servers_fail() {
    let mut site = Site::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("pando-core");
    let archive = site.scratch().join("tree.tar");
    let packed = Command::new("tar")
        .args(["--format=posix", "-cf"])
        .arg(&archive)
        .arg("-C")
        .arg(&source)
        .arg(".")
        .output();
    assert!(packed.unwrap().status.success());
    let target = site.mount(0).join("tree");
    fs::create_dir(&target).unwrap();
    let mut extracting =
        Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&target).spawn().unwrap();
    let mut kills = 0_u64;
    // Over and over, as long as it takes: every server is killed at least once.
    while extracting.try_wait().unwrap().is_none() || kills < u64::from(SERVERS) {
        let process = Process::Server((kills % u64::from(SERVERS)) as u8);
        site.kill(process);
        site.start(process);
        kills += 1;
        // Something must be done in between, or it never ends.
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(extracting.wait().unwrap().success());
    let there = site.mount(1).join("tree");
    assert_eq!(differences(&source, &there), Vec::<String>::new());
    common::shell(
        &site.mount(1),
        "git init -q r && cp -r tree r/ && cd r && git add . && git -c user.name=x -c user.email=x@x commit -qm x && git fsck --strict",
    );
    common::shell(
        &site.mount(0),
        "cd r && git status --porcelain | wc -l | grep -qx 0 && git log --oneline | grep -q x",
    );
    end(site);
}

/// Stops everything in order; nobody complains.
fn end(mut site: Site) {
    let status = site.ask(&["status", &Site::address_of(0)]);
    assert!(status.status.success(), "{}", all(&status));
    for number in 0..MOUNTS {
        site.stop(Process::Mount(number));
    }
    for shard in 0..SERVERS {
        site.stop(Process::Server(shard));
    }
}
