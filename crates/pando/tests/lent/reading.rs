//! Read grants: a mount remembers a directory while another mount writes elsewhere
//! (docs/design/read-grants.md).

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, kill_process};

use crate::common::site::{Site, until};
use crate::{asked, count};

/// Two servers with half of the shards each, and two mounts. The second one has made a directory.
/// It would be lent to the first one else.
fn site() -> Site {
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    site.mount(&[]);
    site.mount(&[]);
    fs::create_dir_all(site.at(1, "quiet/sub")).unwrap();
    fs::create_dir(site.at(1, "busy")).unwrap();
    for nth in 0..10 {
        fs::write(site.at(1, "quiet").join(format!("f{nth}")), "text").unwrap();
    }
    site
}

/// Runs `work` while the second mount writes in a directory of its own, all the time.
fn beside_a_writer(site: &Site, work: impl FnOnce()) {
    let (dir, is_over) = (site.at(1, "busy"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(dir.join("file"), "text").unwrap();
                fs::remove_file(dir.join("file")).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn look(dir: &Path) {
    for nth in 0..10 {
        assert_eq!(fs::metadata(dir.join(format!("f{nth}"))).unwrap().len(), 4);
    }
    assert_eq!(fs::metadata(dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Looks until the first mount answers by itself whatever its kernel asks.
fn look_until_remembered(site: &Site) {
    let (mount, dir) = (&site.mounts[0], site.at(0, "quiet"));
    until("what was read is remembered by read grants", || {
        let before = (count(mount, "remembered"), asked(mount));
        (0..10).for_each(|_| look(&dir));
        let after = (count(mount, "remembered"), asked(mount));
        count(mount, "lent_reads") > 1 && after.0 - before.0 >= after.1 - before.1
    });
}

#[test]
fn a_mount_remembers_what_nobody_changes_while_another_one_writes() {
    let site = site();
    beside_a_writer(&site, || look_until_remembered(&site));
}

/// Each change of the other mount is seen at once, in all that was remembered.
#[test]
fn what_another_mount_changes_is_seen_at_once() {
    let site = site();
    let (here, there) = (site.at(0, "quiet"), site.at(1, "quiet"));
    beside_a_writer(&site, || {
        look_until_remembered(&site);
        fs::write(there.join("f0"), "longer text").unwrap();
        assert_eq!(fs::metadata(here.join("f0")).unwrap().len(), 11);
        fs::write(there.join("f0"), "text").unwrap();
        look_until_remembered(&site);
        fs::rename(there.join("f1"), there.join("none")).unwrap();
        assert!(here.join("none").exists() && !here.join("f1").exists());
        fs::rename(there.join("none"), there.join("f1")).unwrap();
        look_until_remembered(&site);
        fs::set_permissions(&there, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(fs::metadata(&here).unwrap().permissions().mode() & 0o777, 0o700);
        look_until_remembered(&site);
        fs::create_dir(there.join("none")).unwrap();
        assert!(here.join("none").is_dir());
        fs::remove_dir(there.join("none")).unwrap();
        look_until_remembered(&site);
        fs::rename(&there, there.with_file_name("other")).unwrap();
        assert!(!here.exists());
        look(&here.with_file_name("other"));
    });
}

/// A mount that dies may have remembered anything. Others wait until it cannot any more.
#[test]
fn who_changes_what_a_dead_mount_has_read_goes_on() {
    let mut site = site();
    let reader = site.processes[2];
    beside_a_writer(&site, || {
        look_until_remembered(&site);
        kill_process(reader, Signal::KILL).unwrap();
        fs::write(site.at(1, "quiet/f0"), "longer text").unwrap();
        assert_eq!(fs::read_to_string(site.at(1, "quiet/f0")).unwrap(), "longer text");
    });
    site.mount(&[]);
    assert_eq!(fs::metadata(site.at(2, "quiet/f0")).unwrap().len(), 11);
}

/// A server that starts does not know what was read before.
#[test]
fn what_is_changed_after_a_start_of_the_server_is_seen() {
    let mut site = site();
    for round in 0..3 {
        let text = "x".repeat(10 + round);
        beside_a_writer(&site, || look_until_remembered(&site));
        for shards in ["0,1", "2,3"] {
            let server = site.processes[usize::from(shards == "2,3")];
            kill_process(server, Signal::KILL).unwrap();
            let started = site.serve(shards, &[]);
            site.processes.retain(|process| *process != server);
            site.processes.retain(|process| *process != started);
            site.processes.insert(usize::from(shards == "2,3"), started);
        }
        fs::write(site.at(1, "quiet/f0"), &text).unwrap();
        assert_eq!(fs::metadata(site.at(0, "quiet/f0")).unwrap().len(), text.len() as u64);
        fs::write(site.at(1, "quiet/f0"), "text").unwrap();
    }
}

/// What is not used any more is given back, and so is all at an unmount.
#[test]
fn what_is_not_used_is_given_back() {
    let site = site();
    beside_a_writer(&site, || {
        look_until_remembered(&site);
        until("all is given back", || count(&site.mounts[0], "lent_reads") == 0);
    });
}
