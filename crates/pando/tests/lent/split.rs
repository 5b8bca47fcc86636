//! Directories that have split: each part is lent by itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::common::site::{Site, until};
use crate::{count, names};

/// Files in the directory: several parts have some of them.
const FILES: usize = 300;

fn file(dir: &Path, nth: usize) -> std::path::PathBuf {
    dir.join(format!("file-{nth:03}"))
}

/// Two servers with half of the shards each, whose partitions split early, and two mounts. The
/// first one has several parts of `large`, which has so many files.
fn site() -> Site {
    let mut site = Site::new(&["0,1", "2,3"], &["--split-threshold", "40"]);
    site.mount(&[]);
    site.mount(&[]);
    let large = site.at(0, "large");
    fs::create_dir(&large).unwrap();
    for nth in 0..FILES {
        fs::write(file(&large, nth), format!("text {nth}")).unwrap();
    }
    until("parts of the directory are lent", || {
        for nth in 0..FILES {
            fs::set_permissions(file(&large, nth), Permissions::from_mode(0o600)).unwrap();
        }
        count(&site.mounts[0], "lent_parts") >= 3
    });
    site
}

/// What both mounts say of the directory.
fn agree(site: &Site, expected: usize) {
    let [here, there] = [0, 1].map(|mount| site.at(mount, "large"));
    let [of_here, of_there] = [&here, &there].map(|dir| fs::metadata(dir).unwrap());
    assert_eq!(of_here.size(), expected as u64, "the holder adds its parts up");
    assert_eq!(names(&here).len(), expected);
    assert_eq!(names(&here), names(&there));
    assert_eq!(of_there.size(), expected as u64);
    assert_eq!(of_here.mtime(), of_there.mtime());
    assert_eq!(of_here.mode(), of_there.mode());
}

#[test]
fn changes_in_all_parts_are_answered_by_the_holder_and_seen_by_others() {
    let site = site();
    let [here, there] = [0, 1].map(|mount| site.at(mount, "large"));
    let answered = count(&site.mounts[0], "lent_answered");
    for nth in 0..FILES / 2 {
        fs::remove_file(file(&here, nth)).unwrap();
        fs::write(here.join(format!("new-{nth}")), format!("new {nth}")).unwrap();
        let size = fs::metadata(&here).unwrap().size();
        assert_eq!(size, FILES as u64, "after {nth}");
    }
    assert!(count(&site.mounts[0], "lent_answered") > answered + FILES as u64, "it was not lent");
    agree(&site, FILES);
    for nth in 0..FILES / 2 {
        assert!(!file(&there, nth).exists());
        let text = fs::read_to_string(there.join(format!("new-{nth}"))).unwrap();
        assert_eq!(text, format!("new {nth}"));
    }
}

/// A name that goes to another part, a link, a subdirectory, a change of the directory's mode: each
/// needs more than one part, or the home.
#[test]
fn what_needs_several_parts_is_as_if_nothing_were_lent() {
    let site = site();
    let here = site.at(0, "large");
    for nth in 0..40 {
        fs::rename(file(&here, nth), here.join(format!("moved-{nth}"))).unwrap();
        fs::hard_link(file(&here, 100 + nth), here.join(format!("link-{nth}"))).unwrap();
    }
    agree(&site, FILES + 40);
    for nth in 0..10 {
        fs::create_dir(here.join(format!("below-{nth}"))).unwrap();
    }
    assert_eq!(fs::metadata(&here).unwrap().nlink(), 12);
    fs::set_permissions(&here, Permissions::from_mode(0o700)).unwrap();
    agree(&site, FILES + 50);
    let there = site.at(1, "large");
    for nth in 0..40 {
        let text = fs::read_to_string(there.join(format!("moved-{nth}"))).unwrap();
        assert_eq!(text, format!("text {nth}"));
        assert_eq!(fs::metadata(there.join(format!("link-{nth}"))).unwrap().nlink(), 2);
    }
}

/// Two mounts work in one large directory, in turn: each finds what the other has just done.
#[test]
fn parts_go_from_mount_to_mount_with_all_that_was_done_in_them() {
    let site = site();
    for round in 0..4 {
        let (mine, other) = (site.at(round % 2, "large"), site.at(1 - round % 2, "large"));
        for nth in 0..60 {
            fs::write(mine.join(format!("{round}-{nth}")), format!("{round}")).unwrap();
        }
        assert_eq!(names(&other).len(), FILES + 60 * (round + 1));
    }
    agree(&site, FILES + 240);
}

/// A kernel that remembered all of the directory by the loan of one part would not notice.
#[test]
fn a_mount_that_has_some_parts_sees_what_changes_in_the_others() {
    let site = site();
    let [here, there] = [0, 1].map(|mount| site.at(mount, "large"));
    let mode = |file: &Path| fs::metadata(file).unwrap().mode() & 0o777;
    for nth in 0..FILES {
        // Each mount keeps its parts for a while, since both change files.
        fs::set_permissions(file(&here, nth), Permissions::from_mode(0o640)).unwrap();
        let other = (nth * 7 + 1) % FILES;
        let seen = mode(&file(&here, other));
        fs::set_permissions(file(&there, other), Permissions::from_mode(seen ^ 0o001)).unwrap();
        assert_eq!(mode(&file(&here, other)), seen ^ 0o001, "file {other}, after {nth}");
        fs::rename(file(&there, other), there.join("away")).unwrap();
        assert!(!file(&here, other).exists());
        fs::rename(there.join("away"), file(&there, other)).unwrap();
        assert!(file(&here, other).exists());
    }
    agree(&site, FILES);
}

/// It grows while it is lent, so its parts split, and shrinks until it is removed.
#[test]
fn a_directory_grows_and_goes_while_its_parts_are_lent() {
    let site = site();
    let [here, there] = [0, 1].map(|mount| site.at(mount, "large"));
    for nth in FILES..3 * FILES {
        fs::write(file(&here, nth), "").unwrap();
    }
    agree(&site, 3 * FILES);
    for nth in 0..3 * FILES {
        fs::remove_file(file(&here, nth)).unwrap();
    }
    agree(&site, 0);
    fs::remove_dir(&here).unwrap();
    assert!(!there.exists());
}
