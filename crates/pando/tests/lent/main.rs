//! Directories that shards lend to a mount: the mount answers by itself, others see all of it, and
//! what a killed mount had answered is sent by the next one.

#[path = "../common/mod.rs"]
mod common;

mod born;
mod fenced;
mod kernels;
mod killed;
mod reading;
mod split;
mod under;

use std::fs::{self, File};
use std::path::Path;

use common::site::{Site, until};
use common::{all, pando};
use rustix::fs::{Mode, OFlags, openat};
use serde_json::Value;

/// What `pando status` says of a mount.
fn status(mount: &Path) -> Value {
    let output = pando().arg("status").arg(mount).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A number that the status of a mount has, by name.
fn count(mount: &Path, name: &str) -> u64 {
    status(mount)["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name}"))
}

/// How often the kernel has asked a mount for a name or for attributes.
fn asked(mount: &Path) -> u64 {
    let requests = &status(mount)["requests"];
    ["LOOKUP", "GETATTR"].iter().filter_map(|kind| requests[kind].as_u64()).sum()
}

/// Changes a directory of a mount until it is lent to it.
fn borrow(dir: &Path, mount: &Path) {
    let before = count(mount, "lent_so_far");
    fs::create_dir_all(dir).unwrap();
    until("the directory is lent", || {
        for _ in 0..10 {
            fs::write(dir.join("again"), "").unwrap();
            fs::remove_file(dir.join("again")).unwrap();
        }
        count(mount, "lent_so_far") > before
    });
}

/// One server of all shards, and so many mounts. The first one has borrowed `dir`.
fn site(mounts: usize) -> Site {
    let mut site = Site::new(&["all"], &[]);
    for _ in 0..mounts {
        site.mount(&[]);
    }
    borrow(&site.at(0, "dir"), &site.mounts[0]);
    site
}

/// Makes a file with a text through a handle of its directory. Nothing else is looked up, so no
/// server need run.
fn make(dir: &File, name: &str) {
    make_of(dir, name, b"text");
}

fn make_of(dir: &File, name: &str, content: &[u8]) {
    use std::io::Write;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let made = openat(dir, name, flags, Mode::from_raw_mode(0o644)).unwrap();
    File::from(made).write_all(content).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_mount_answers_by_itself_others_see_at_once() {
    let site = site(2);
    let [here, there] = [0, 1].map(|mount| site.at(mount, "dir"));
    let answered = count(&site.mounts[0], "lent_answered");
    for nth in 0..50 {
        fs::write(here.join(format!("file-{nth}")), format!("text {nth}")).unwrap();
    }
    fs::rename(here.join("file-0"), here.join("first")).unwrap();
    fs::remove_file(here.join("file-1")).unwrap();
    assert!(count(&site.mounts[0], "lent_answered") > answered + 50, "it was not lent");
    assert_eq!(names(&here), names(&there));
    assert_eq!(names(&there).len(), 49);
    assert_eq!(fs::read_to_string(there.join("first")).unwrap(), "text 0");
    for nth in 2..50 {
        let text = fs::read_to_string(there.join(format!("file-{nth}"))).unwrap();
        assert_eq!(text, format!("text {nth}"));
    }
}

/// Two mounts work in one directory in turn: each finds what the other has just done.
#[test]
fn a_part_goes_from_mount_to_mount_with_all_that_was_done_in_it() {
    let site = site(2);
    for round in 0..6 {
        let (mine, other) = (site.at(round % 2, "dir"), site.at(1 - round % 2, "dir"));
        for nth in 0..20 {
            fs::write(mine.join(format!("{round}-{nth}")), format!("{round}")).unwrap();
        }
        assert_eq!(names(&other).len(), 20 * (round + 1));
        for nth in 0..20 {
            let text = fs::read_to_string(other.join(format!("{round}-{nth}"))).unwrap();
            assert_eq!(text, format!("{round}"));
        }
    }
}

/// A file that the holder has open stays for it when another mount removes it.
#[test]
fn a_file_that_is_open_at_the_holder_outlives_its_removal_elsewhere() {
    use std::io::{Read, Seek, Write};
    let site = site(2);
    let mut open = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(site.at(0, "dir/open"))
        .unwrap();
    open.write_all(b"before").unwrap();
    fs::remove_file(site.at(1, "dir/open")).unwrap();
    assert!(!site.at(0, "dir/open").exists());
    open.write_all(b" and after").unwrap();
    open.sync_all().unwrap();
    open.rewind().unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before and after");
}

#[test]
fn with_sync_metadata_nothing_is_lent() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&["--sync-metadata"]);
    for nth in 0..50 {
        fs::write(site.at(0, &format!("file-{nth}")), "text").unwrap();
    }
    assert!(status(&site.mounts[0])["counters"]["lent_parts"].is_null());
}

/// In the mode in which an answer means that all is on disk, nothing is lent.
#[test]
fn a_volume_of_mode_disk_lends_nothing() {
    let mut site = Site::new(&["all"], &["--durability", "disk"]);
    site.mount(&[]);
    for nth in 0..30 {
        fs::write(site.at(0, &format!("file-{nth}")), "text").unwrap();
    }
    assert_eq!(count(&site.mounts[0], "lent_so_far"), 0);
}

#[test]
fn an_unmount_gives_all_back_and_leaves_no_journal() {
    let site = site(1);
    fs::write(site.at(0, "dir/last"), "text").unwrap();
    let output = pando().arg("umount").arg(&site.mounts[0]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let mut site = site;
    site.mount(&[]);
    assert_eq!(fs::read_to_string(site.at(1, "dir/last")).unwrap(), "text");
    assert_eq!(killed::journals(&site), Vec::<std::path::PathBuf>::new());
}
