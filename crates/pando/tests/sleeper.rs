//! A mount that is suspended for longer than its lease. This test has a program to itself. No
//! process may be started meanwhile, since one that inherits a file of the suspended mount would
//! wait for it.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::site::{Site, suspend, until};
use rustix::process::{Signal, kill_process};

#[test]
fn a_mount_that_slept_through_its_lease_goes_on() {
    let mut site = Site::new(&["all"], &["--lease-ms", "700"]);
    let sleeper = site.mount(&[]);
    site.mount(&[]);
    fs::write(site.at(0, "kept"), "kept").unwrap();
    fs::write(site.at(0, "lost"), "lost").unwrap();
    let before = site.inodes();
    let kept = File::options().read(true).write(true).open(site.at(0, "kept")).unwrap();
    let lost = File::open(site.at(0, "lost")).unwrap();
    fs::remove_file(site.at(1, "lost")).unwrap();
    suspend(sleeper);
    // The orphan is removed only when the suspended mount's session ends.
    until("the session ends", || site.inodes() == before - 1);
    kill_process(sleeper, Signal::CONT).unwrap();
    fs::write(site.at(0, "new"), "new").unwrap();
    assert_eq!(fs::read_to_string(site.at(1, "new")).unwrap(), "new");
    kept.write_all_at(b"KEPT", 0).unwrap();
    kept.sync_all().unwrap();
    assert_eq!(fs::read_to_string(site.at(1, "kept")).unwrap(), "KEPT");
    assert!(lost.metadata().is_err());
    // The new session holds the file open, so the other mount's removal does not end it.
    fs::remove_file(site.at(1, "kept")).unwrap();
    let mut content = [0; 4];
    kept.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"KEPT");
}
