//! A mount through servers is alone for a time, and prolongs it while it is used. What its kernel
//! remembers ends with that time, whatever becomes of its process.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::process::{Signal, kill_process};

use super::joined::status;
use crate::common::site::{Site, suspend, until};
use crate::common::{all, pando};

/// One server of all shards, and a mount.
fn site() -> Site {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
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

fn assert_changed(mount: &Path) {
    assert_eq!(mount.join("dir/file").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(mount.join("dir/none")).unwrap(), "text");
}

#[test]
fn a_mount_that_joins_sees_the_first_one_and_is_seen() {
    let mut site = site();
    fill(&site.mounts[0]);
    for _ in 0..3 {
        look_until_remembered(&site.mounts[0]);
        site.mount(&[]);
        let joined = site.mounts.last().unwrap();
        change(joined);
        assert_changed(&site.mounts[0]);
        fs::rename(site.at(0, "dir/none"), site.at(0, "dir/file")).unwrap();
        assert!(joined.join("dir/file").exists() && !joined.join("dir/none").exists());
        let output = pando().arg("umount").arg(joined).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

/// Nobody can ask a mount that is suspended to have its kernel forget.
#[test]
fn what_the_kernel_of_a_suspended_mount_remembers_ends_before_another_mount_begins() {
    let mut site = site();
    fill(&site.mounts[0]);
    look_until_remembered(&site.mounts[0]);
    let first = *site.processes.last().unwrap();
    suspend(first);
    site.mount(&[]);
    change(&site.mounts[1]);
    // A kernel that remembered would answer at once, and wrongly.
    let suspended = site.mounts[0].clone();
    let looks = std::thread::spawn(move || assert_changed(&suspended));
    kill_process(first, Signal::CONT).unwrap();
    looks.join().unwrap();
    assert_changed(&site.mounts[1]);
}

#[test]
fn a_mount_begins_although_one_that_was_alone_was_killed() {
    let mut site = site();
    fill(&site.mounts[0]);
    look_until_remembered(&site.mounts[0]);
    kill_process(*site.processes.last().unwrap(), Signal::KILL).unwrap();
    site.mount(&[]);
    change(&site.mounts[1]);
    assert_changed(&site.mounts[1]);
}

#[test]
fn a_mount_that_joins_after_a_restart_of_the_server_sees_the_first_one_and_is_seen() {
    let mut site = site();
    fill(&site.mounts[0]);
    look_until_remembered(&site.mounts[0]);
    kill_process(site.processes[0], Signal::KILL).unwrap();
    site.serve("all", &[]);
    site.mount(&[]);
    change(&site.mounts[1]);
    assert_changed(&site.mounts[0]);
}
