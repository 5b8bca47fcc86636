//! A mount through servers holds for a time, and prolongs it while it is used and no other one
//! writes. What its kernel remembers ends with that time, whatever becomes of its process.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::process::{Signal, kill_process};

use super::joined::status;
use crate::common::site::{Site, suspend, until};
use crate::common::{all, pando};

/// One server of all shards, and so many mounts. The first one has made what the others look for.
fn site(mounts: usize) -> Site {
    let mut site = Site::new(&["all"], &[]);
    for _ in 0..mounts {
        site.mount(&[]);
    }
    fill(&site.mounts[0]);
    site
}

/// Waits until the kernel of a mount answers from its memory: that there is `file`, and no `none`.
fn look_until_remembered(mount: &Path) {
    let look = || {
        assert!(mount.join("dir/file").exists());
        assert!(!mount.join("dir/none").exists());
    };
    let lookups = || status(mount)["requests"]["LOOKUP"].as_u64().unwrap();
    until("the kernel asks for nothing twice", || {
        look();
        let before = lookups();
        look();
        lookups() == before
    });
}

fn fill(mount: &Path) {
    fs::create_dir(mount.join("dir")).unwrap();
    fs::write(mount.join("dir/file"), "text").unwrap();
}

/// Changes all that [`look_until_remembered`] looks for.
fn change(mount: &Path) {
    fs::rename(mount.join("dir/file"), mount.join("dir/none")).unwrap();
}

fn change_back(mount: &Path) {
    fs::rename(mount.join("dir/none"), mount.join("dir/file")).unwrap();
}

fn assert_as_before(mount: &Path) {
    assert_eq!(mount.join("dir/none").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(mount.join("dir/file")).unwrap(), "text");
}

fn assert_changed(mount: &Path) {
    assert_eq!(mount.join("dir/file").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(mount.join("dir/none")).unwrap(), "text");
}

#[test]
fn a_mount_that_joins_sees_the_first_one_and_is_seen() {
    let mut site = site(1);
    for _ in 0..3 {
        look_until_remembered(&site.mounts[0]);
        site.mount(&[]);
        let joined = site.mounts.last().unwrap();
        change(joined);
        assert_changed(&site.mounts[0]);
        change_back(&site.mounts[0]);
        assert_as_before(joined);
        let output = pando().arg("umount").arg(joined).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

/// Mounts that only read keep nobody from remembering, and one that writes is seen at once.
#[test]
fn of_two_mounts_that_read_both_remember_until_one_writes() {
    let site = site(2);
    for writer in [0, 1] {
        let [here, there] = [writer, 1 - writer].map(|nth| &site.mounts[nth]);
        // One is idle.
        look_until_remembered(there);
        look_until_remembered(here);
        look_until_remembered(there);
        change(here);
        assert_changed(there);
        change_back(there);
        assert_as_before(here);
    }
}

/// While both write, neither remembers.
#[test]
fn two_mounts_that_write_in_turn_see_each_other_at_once() {
    let site = site(2);
    for round in 0..100 {
        let [here, there] = [round % 2, 1 - round % 2].map(|nth| &site.mounts[nth]);
        assert_as_before(there);
        change(here);
        assert_changed(there);
        change_back(there);
        assert_as_before(here);
    }
}

/// A mount that writes remembers while the others do nothing.
#[test]
fn a_mount_that_writes_remembers_beside_one_that_reads() {
    let site = site(2);
    let [here, there] = [0, 1].map(|nth| &site.mounts[nth]);
    look_until_remembered(there);
    // Its own changes keep it awake, and its kernel sees them.
    fs::write(here.join("dir/more"), "text").unwrap();
    look_until_remembered(here);
    fs::write(here.join("dir/more"), "longer text").unwrap();
    assert_eq!(fs::read_to_string(there.join("dir/more")).unwrap(), "longer text");
    assert_eq!(there.join("dir/more").metadata().unwrap().len(), 11);
}

/// Nobody can ask a mount that is suspended to have its kernel forget.
#[test]
fn what_the_kernel_of_a_suspended_mount_remembers_ends_before_another_mount_writes() {
    let mut site = site(1);
    let first = *site.processes.last().unwrap();
    site.mount(&[]);
    look_until_remembered(&site.mounts[0]);
    suspend(first);
    change(&site.mounts[1]);
    // A kernel that remembered would answer at once, and wrongly.
    let suspended = site.mounts[0].clone();
    let looks = std::thread::spawn(move || assert_changed(&suspended));
    kill_process(first, Signal::CONT).unwrap();
    looks.join().unwrap();
    assert_changed(&site.mounts[1]);
}

#[test]
fn a_mount_writes_although_one_that_held_was_killed() {
    let mut site = site(1);
    let first = *site.processes.last().unwrap();
    site.mount(&[]);
    look_until_remembered(&site.mounts[0]);
    kill_process(first, Signal::KILL).unwrap();
    change(&site.mounts[1]);
    assert_changed(&site.mounts[1]);
}

#[test]
fn after_a_restart_of_the_server_each_mount_sees_what_the_other_one_writes() {
    let mut site = site(2);
    for writer in [1, 0] {
        let reader = 1 - writer;
        look_until_remembered(&site.mounts[reader]);
        let server = site.processes.remove(if writer == 1 { 0 } else { site.processes.len() - 1 });
        kill_process(server, Signal::KILL).unwrap();
        site.serve("all", &[]);
        change(&site.mounts[writer]);
        assert_changed(&site.mounts[reader]);
        change_back(&site.mounts[writer]);
        assert_as_before(&site.mounts[reader]);
    }
}

/// Opens of which no shard hears, until another mount wants to write, or this one removes the name.
#[test]
fn what_is_open_outlives_its_name_though_no_shard_was_told() {
    let site = site(2);
    let [here, there] = [0, 1].map(|nth| &site.mounts[nth]);
    let long = vec![7; 300_000];
    for nth in 0..32 {
        fs::write(there.join(format!("dir/{nth}")), &long).unwrap();
    }
    fs::write(there.join("dir/probe"), "").unwrap();
    let opens = || status(here)["messages"]["Open"].as_u64().unwrap_or(0);
    let is_untold = |path: &Path| {
        let before = opens();
        let file = File::open(path).unwrap();
        (opens() == before).then_some((file, before))
    };
    // A file that a shard was told of may stay so for a while after its close. So each is tried
    // once, and only when another one shows that the mount holds.
    let mut names = (0..32).map(|nth| format!("dir/{nth}"));
    let mut open_untold = || {
        let mut opened = None;
        until("a file is opened without a message", || {
            for listed in fs::read_dir(here.join("dir")).unwrap() {
                listed.unwrap().metadata().unwrap();
            }
            if is_untold(&here.join("dir/probe")).is_some() {
                let name = names.next().unwrap();
                opened = is_untold(&here.join(&name)).map(|it| (name, it));
            }
            opened.is_some()
        });
        opened.unwrap()
    };
    let reads = |file: &File| {
        let mut found = vec![0; long.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        found == long
    };
    let (name, (one, _)) = open_untold();
    fs::remove_file(there.join(name)).unwrap();
    assert!(reads(&one) && one.metadata().unwrap().nlink() == 0);
    let (name, (two, _)) = open_untold();
    fs::remove_file(here.join(name)).unwrap();
    assert!(reads(&two) && two.metadata().unwrap().nlink() == 0);
    // One that lasts is told to its shard, though nobody asks.
    let (name, (three, before)) = open_untold();
    until("its shard is told", || opens() > before);
    fs::remove_file(there.join(name)).unwrap();
    assert!(reads(&three));
}
