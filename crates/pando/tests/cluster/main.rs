//! Four servers and two mounts, each on a host of its own, work under load. They are killed,
//! stopped and cut off in turn. This test, outside of Pando, checks that what one mount
//! acknowledged is found through the other.
//!
//! The short form makes each fault of each process once. `PANDO_LONG` makes them many times, and
//! `PANDO_FAULTS` gives their number.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod people;
mod site;
mod station;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::ScopedJoinHandle;

use common::{all, differences, programs};
use faults::Faults;
use people::People;
use site::{MOUNTS, Process, SERVERS, Site, TINY};
use tree::Tree;

#[test]
fn what_one_mount_acknowledged_the_other_finds_whatever_process_fails() {
    let mut site = Site::new(TINY, "disk");
    let mut faults = Faults::new(&site, 1);
    for _ in 0..Faults::wanted(180) {
        faults.next(&mut site);
    }
    faults.end(&site, &[]);
    end(site);
}

/// The source tree is the folder or archive that `PANDO_TREE` names, or this repository's crates.
#[test]
fn programs_and_a_source_tree_on_both_mounts_survive_whatever_process_fails() {
    let source = std::env::var_os("PANDO_TREE").map(PathBuf::from);
    // Of a large tree, only large directories are to be split.
    let (sizes, less) = match source {
        Some(_) => (["--split-threshold", "100", "--checkpoint-bytes", "4000000"], 1),
        None => (TINY, 3),
    };
    // `PANDO_DURABILITY=disk` runs the servers in that mode.
    let is_disk = std::env::var("PANDO_DURABILITY").is_ok_and(|mode| mode == "disk");
    let durability = if is_disk { "disk" } else { "os" };
    let mut site = Site::new(sizes, durability);
    let local = site.scratch().join("local");
    programs::prepare(&local, less);
    let tree = Tree::open(&source.unwrap_or_else(|| copied(all_crates(), &site)), site.scratch());
    let people = [0, 1].map(|number| People::new(site.station(number), number, &local, less));
    let mut faults = Faults::new(&site, 3);
    let errors = work_under_faults(&mut site, &tree, &people, &mut faults);
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    for (number, people) in people.iter().enumerate() {
        eprintln!("mount {number}: {people}");
        people.remove_all();
    }
    faults.end(&site, &[tree::NAME]);
    let (objects, pieces) = tree.objects();
    let there = site.mount(1).join(tree::NAME);
    assert_eq!(differences(tree.root(), &there), Vec::<String>::new());
    eprintln!(
        "{objects} objects in {pieces} pieces extracted through one mount, compared through the other"
    );
    end(site);
}

/// Works until the tree is done, each program has been run, and all faults were made. Returns
/// errors that no fault excuses.
fn work_under_faults(
    site: &mut Site,
    tree: &Tree,
    people: &[People],
    faults: &mut Faults,
) -> Vec<String> {
    let stations: Vec<_> = (0..MOUNTS).map(|number| site.station(number)).collect();
    let scratch = site.scratch().to_owned();
    std::thread::scope(|scope| {
        let mut work = people::Work { people, stations: &stations, is_done: false };
        let (send, receive) = mpsc::channel();
        let trees = [
            scope.spawn(|| tree.extract(&stations[0], &scratch, send)),
            scope.spawn(|| tree.compare(&stations[1], receive)),
        ];
        let programs: Vec<_> = people.iter().map(|people| scope.spawn(|| people.work())).collect();
        let is_done = |program| people.iter().any(|people| people.have_done(program));
        while !work.is_done && !programs.iter().any(ScopedJoinHandle::is_finished) {
            faults.next(site);
            let (count, wanted) = (faults.count(), Faults::wanted(60));
            work.is_done = count >= wanted
                && trees.iter().all(ScopedJoinHandle::is_finished)
                && (0..programs::ALL.len()).all(is_done);
            if count.is_multiple_of(10) {
                let (_, pieces) = tree.objects();
                eprintln!("{count} faults; of {pieces} pieces of the tree {}", tree.compared());
            }
        }
        drop(work);
        let panics = |_| Err("a thread panics".to_owned());
        let results = trees.into_iter().chain(programs);
        results.filter_map(|job| job.join().unwrap_or_else(panics).err()).collect()
    })
}

#[test]
fn a_tree_is_extracted_here_and_compared_there_while_servers_fail() {
    let mut site = Site::new(TINY, "os");
    let source = small_tree();
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
    // Servers are killed in turn until the extraction ends, and each at least once.
    while extracting.try_wait().unwrap().is_none() || kills < u64::from(SERVERS) {
        let process = Process::Server((kills % u64::from(SERVERS)) as u8);
        site.kill(process);
        site.start(process);
        kills += 1;
        // Some work must be done in between, or the test never ends.
        std::thread::sleep(std::time::Duration::from_millis(300));
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

fn all_crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A copy of a tree, which nothing edits meanwhile.
fn copied(tree: &Path, site: &Site) -> PathBuf {
    let copy = site.scratch().join("copy");
    let copied = Command::new("cp").arg("-a").arg(tree).arg(&copy).output().unwrap();
    assert!(copied.status.success(), "{}", all(&copied));
    copy
}

fn small_tree() -> PathBuf {
    all_crates().join("pando-core")
}

/// Checks the volume, stops everything in order, and checks it again.
fn end(mut site: Site) {
    let status = site.ask(&["status", &Site::address_of(0)]);
    assert!(status.status.success(), "{}", all(&status));
    site.check_running();
    for number in 0..MOUNTS {
        site.stop(Process::Mount(number));
    }
    for shard in 0..SERVERS {
        site.stop(Process::Server(shard));
    }
    site.check_stopped();
}
