//! Directories that are lent to the mount that makes them.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::{Signal, kill_process};

use crate::common::site::{Site, until};
use crate::{count, names};

const DIRS: usize = 24;
const FILES: usize = 6;

/// Makes directories with files, some of them below each other.
fn make_tree(top: &Path) {
    fs::create_dir(top).unwrap();
    for n in 0..DIRS {
        let dir = top.join(format!("d{n}"));
        fs::create_dir(&dir).unwrap();
        for m in 0..FILES {
            fs::write(dir.join(format!("f{m}")), format!("{n} {m}")).unwrap();
        }
        fs::create_dir(dir.join("below")).unwrap();
        fs::write(dir.join("below/file"), "below").unwrap();
        fs::write(dir.join("last"), "last").unwrap();
    }
}

/// What is wrong with such a tree; empty: nothing.
fn faults(top: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let recent = SystemTime::now() - Duration::from_secs(3600);
    let mut expect = |path: &str, text: &str| {
        match fs::read_to_string(top.join(path)) {
            Ok(found) if found == text => {}
            other => faults.push(format!("{path}: {other:?}")),
        }
        match fs::metadata(top.join(path)).and_then(|found| found.modified()) {
            Ok(time) if time > recent => {}
            other => faults.push(format!("{path}: changed at {other:?}")),
        }
    };
    for n in 0..DIRS {
        for m in 0..FILES {
            expect(&format!("d{n}/f{m}"), &format!("{n} {m}"));
        }
        expect(&format!("d{n}/below/file"), "below");
        expect(&format!("d{n}/last"), "last");
    }
    for n in 0..DIRS {
        let found = fs::read_dir(top.join(format!("d{n}"))).map_or(0, Iterator::count);
        if found != FILES + 2 {
            faults.push(format!("d{n} has {found} names"));
        }
    }
    faults
}

/// Two servers with half of the shards each, and so many mounts.
fn site(mounts: usize) -> Site {
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    for _ in 0..mounts {
        site.mount(&[]);
    }
    site
}

#[test]
fn a_tree_is_lent_as_it_is_made_and_others_see_it_at_once() {
    let site = site(2);
    let before = count(&site.mounts[0], "lent_so_far");
    make_tree(&site.at(0, "tree"));
    let lent = count(&site.mounts[0], "lent_so_far") - before;
    assert!(lent >= DIRS as u64, "{lent} directories were lent");
    assert_eq!(faults(&site.at(1, "tree")), Vec::<String>::new());
    assert_eq!(faults(&site.at(0, "tree")), Vec::<String>::new());
    // The other mount changes it, and so does the first one again.
    for n in 0..DIRS {
        let (mine, theirs) = (site.at(0, &format!("tree/d{n}")), site.at(1, &format!("tree/d{n}")));
        fs::rename(theirs.join("last"), theirs.join("moved")).unwrap();
        fs::remove_file(mine.join("moved")).unwrap();
        assert!(!names(&theirs).contains(&"moved".to_owned()));
    }
}

#[test]
fn what_is_new_is_removed_at_once_and_may_be_made_again() {
    let site = site(2);
    for round in 0..3 {
        for n in 0..DIRS {
            let dir = site.at(0, &format!("d{n}"));
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("file"), format!("{round}")).unwrap();
            assert!(fs::remove_dir(&dir).is_err(), "it is not empty");
            fs::remove_file(dir.join("file")).unwrap();
            fs::remove_dir(&dir).unwrap();
            assert!(!site.at(1, &format!("d{n}")).exists());
        }
    }
    assert_eq!(names(&site.at(1, "")), Vec::<String>::new());
}

#[test]
fn a_new_directory_may_be_renamed_changed_and_moved_into() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let site = site(2);
    for n in 0..DIRS {
        let (dir, moved) = (site.at(0, &format!("new{n}")), site.at(0, &format!("moved{n}")));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), "a").unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(&dir, &moved).unwrap();
        fs::write(moved.join("b"), "b").unwrap();
        fs::create_dir(&dir).unwrap();
        fs::rename(moved.join("a"), dir.join("a")).unwrap();
        let there = site.at(1, &format!("moved{n}"));
        assert_eq!(names(&there), ["b"]);
        assert_eq!(fs::metadata(&there).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(names(&site.at(1, &format!("new{n}"))), ["a"]);
    }
}

#[test]
fn a_mount_that_is_killed_as_it_makes_a_tree_loses_nothing_of_it() {
    let mut site = site(1);
    let holder = *site.processes.last().unwrap();
    make_tree(&site.at(0, "tree"));
    kill_process(holder, Signal::KILL).unwrap();
    site.mount(&[]);
    until("all of it is there", || faults(&site.at(1, "tree")).is_empty());
    assert!(!site.log().contains("are lost"), "{}", site.log());
}

#[test]
fn servers_that_are_killed_while_a_tree_is_made_lose_nothing_of_it() {
    let mut site = site(2);
    let servers = [site.processes[0], site.processes[1]];
    let top = site.at(0, "tree");
    let making = std::thread::spawn(move || make_tree(&top));
    for (nth, server) in servers.into_iter().enumerate() {
        let dir = site.at(1, &format!("tree/d{}", 4 + nth * 8));
        until("some of it is made", || dir.exists());
        kill_process(server, Signal::KILL).unwrap();
        site.serve(["0,1", "2,3"][nth], &[]);
    }
    making.join().unwrap();
    assert_eq!(faults(&site.at(1, "tree")), Vec::<String>::new());
    assert_eq!(count(&site.mounts[0], "lent_set_aside"), 0);
}
