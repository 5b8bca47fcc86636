//! Names and modes that shards change in a directory while it stays lent.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, kill_process};

use crate::common::USER;
use crate::common::site::{Site, until};
use crate::{borrow, count, names};

/// Shards of the two servers.
const SHARDS: [&str; 2] = ["0,1", "2,3"];

/// Two servers with half of the shards each, and two mounts. The first one has borrowed `dir`.
fn site() -> Site {
    let mut site = Site::new(&SHARDS, &[]);
    site.mount(&[]);
    site.mount(&[]);
    borrow(&site.at(0, "dir"), &site.mounts[0]);
    site
}

/// Whether another user may read a file.
fn may_read(file: &Path) -> bool {
    let mut cat = Command::new("cat");
    cat.uid(USER).gid(USER).arg(file).output().unwrap().status.success()
}

/// Work as of `tar`: each directory is made, filled, and gets its mode at the end.
#[test]
fn directories_that_are_made_and_set_leave_their_parent_lent() {
    let site = site();
    let (here, there) = (site.at(0, "dir"), site.at(1, "dir"));
    let before = count(&site.mounts[0], "lent_amended");
    for nth in 0..12 {
        let below = here.join(format!("d{nth}"));
        fs::create_dir(&below).unwrap();
        fs::set_permissions(&below, Permissions::from_mode(0o700)).unwrap();
        fs::write(below.join("file"), "text").unwrap();
        fs::write(here.join(format!("f{nth}")), "beside").unwrap();
        assert!(!may_read(&below.join("file")), "d{nth} is closed");
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        assert!(may_read(&below.join("file")), "d{nth} is open");
    }
    assert!(count(&site.mounts[0], "lent_amended") > before, "the directory did not stay lent");
    assert_eq!(names(&here), names(&there));
    for nth in 0..12 {
        let below = there.join(format!("d{nth}"));
        assert_eq!(fs::metadata(&below).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_to_string(below.join("file")).unwrap(), "text");
        assert!(may_read(&below.join("file")), "d{nth} is open there");
    }
}

/// Work as of `rm -r`.
#[test]
fn directories_that_are_removed_leave_their_parent_lent() {
    let site = site();
    let (here, there) = (site.at(0, "dir"), site.at(1, "dir"));
    for nth in 0..12 {
        fs::create_dir_all(here.join(format!("d{nth}/below"))).unwrap();
        fs::write(here.join(format!("d{nth}/file")), "text").unwrap();
    }
    let before = count(&site.mounts[0], "lent_amended");
    for nth in 0..12 {
        let gone = here.join(format!("d{nth}"));
        assert!(fs::remove_dir(&gone).is_err(), "it is not empty");
        fs::remove_dir(gone.join("below")).unwrap();
        fs::remove_file(gone.join("file")).unwrap();
        fs::remove_dir(&gone).unwrap();
        fs::write(here.join(format!("f{nth}")), "beside").unwrap();
    }
    assert!(count(&site.mounts[0], "lent_amended") > before, "the directory did not stay lent");
    assert_eq!(names(&there), names(&here));
    assert_eq!(names(&there).len(), 12);
}

/// Two mounts change modes and names in one directory in turn: each finds what the other has done.
#[test]
fn modes_and_names_go_from_mount_to_mount() {
    let site = site();
    for nth in 0..6 {
        let (mine, other) = (site.at(nth % 2, "dir"), site.at(1 - nth % 2, "dir"));
        fs::create_dir(mine.join(format!("d{nth}"))).unwrap();
        fs::write(mine.join(format!("d{nth}/file")), "text").unwrap();
        for mode in [0o700, 0o755, 0o711, 0o500, 0o755] {
            let set = Permissions::from_mode(mode);
            fs::set_permissions(mine.join(format!("d{nth}")), set).unwrap();
            let is_open = mode & 1 == 1;
            assert_eq!(may_read(&other.join(format!("d{nth}/file"))), is_open, "{mode:o}");
            assert_eq!(may_read(&mine.join(format!("d{nth}/file"))), is_open, "{mode:o}");
        }
        fs::rename(other.join(format!("d{nth}")), other.join(format!("r{nth}"))).unwrap();
        assert!(mine.join(format!("r{nth}/file")).exists());
        assert_eq!(names(&mine), names(&other));
    }
}

/// The server of the directory is killed while names and modes are changed there: each change was
/// made, or was not.
#[test]
fn what_was_changed_under_a_loan_outlives_its_server() {
    let mut site = site();
    let mut servers = [site.processes[0], site.processes[1]];
    for round in 0..3 {
        let here = site.at(0, &format!("dir/r{round}"));
        let work = std::thread::spawn({
            let here = here.clone();
            move || {
                fs::create_dir(&here).unwrap();
                for nth in 0..200 {
                    let below = here.join(format!("d{nth}"));
                    fs::create_dir(&below).unwrap();
                    fs::set_permissions(&below, Permissions::from_mode(0o751)).unwrap();
                    if nth % 3 == 0 {
                        fs::remove_dir(&below).unwrap();
                    }
                }
            }
        });
        until("it has begun", || here.join("d20").exists());
        let nth = round % 2;
        kill_process(servers[nth], Signal::KILL).unwrap();
        servers[nth] = site.serve(SHARDS[nth], &[]);
        work.join().unwrap();
        let there = site.at(1, &format!("dir/r{round}"));
        assert_eq!(names(&there), names(&here));
        assert_eq!(names(&there).len(), 133);
        for name in names(&there) {
            let mode = fs::metadata(there.join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o751, "{name}");
        }
    }
}
