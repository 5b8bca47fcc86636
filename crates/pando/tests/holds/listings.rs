//! Listings that a kernel keeps while its mount holds, and when it drops them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use pando_types::hold::HOLD_TIME;
use rustix::fs::{Dir, RawDir};

use crate::common::site::{Site, until};
use crate::joined::{Joined, holding, holds, status};

/// The names in a directory, read from its beginning through a handle.
fn names(handle: &mut Dir) -> BTreeSet<String> {
    handle.rewind();
    let mut names = BTreeSet::new();
    while let Some(entry) = handle.read() {
        let name = entry.unwrap().file_name().to_str().unwrap().to_owned();
        if name != "." && name != ".." {
            assert!(names.insert(name.clone()), "{name} twice");
        }
    }
    names
}

fn open(dir: &Path) -> Dir {
    Dir::new(OwnedFd::from(File::open(dir).unwrap())).unwrap()
}

fn listed(dir: &Path) -> BTreeSet<String> {
    names(&mut open(dir))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn make(dir: &Path, name: &str) {
    fs::write(dir.join(name), "").unwrap();
}

/// Numbers of READDIR and GETATTR requests that a mount has got.
fn asked(mount: &Path) -> [u64; 2] {
    let status = status(mount);
    ["READDIR", "GETATTR"].map(|kind| status["requests"][kind].as_u64().unwrap_or(0))
}

#[test]
fn what_was_listed_once_is_not_asked_for_again() {
    let volume = holding(&[]);
    let dir = volume.mount.join("dir");
    fs::create_dir(&dir).unwrap();
    (0..2000).for_each(|index| make(&dir, &format!("file-{index}")));
    // The first listing drops what the kernel kept before. The second one is kept.
    assert_eq!(listed(&dir).len(), 2000);
    assert_eq!(listed(&dir).len(), 2000);
    let before = asked(&volume.mount);
    let mut held = open(&dir);
    for _ in 0..5 {
        assert_eq!((listed(&dir).len(), names(&mut held).len()), (2000, 2000));
    }
    assert_eq!(asked(&volume.mount)[0], before[0]);
}

#[test]
fn a_kept_listing_shows_changes_of_its_own_kernel() {
    let volume = holding(&[]);
    let dir = volume.mount.join("dir");
    fs::create_dir_all(dir.join("sub")).unwrap();
    let mut held = open(&dir);
    let mut is = |expected: &[&str]| {
        for _ in 0..2 {
            assert_eq!(listed(&dir), set(expected));
            assert_eq!(names(&mut held), set(expected));
        }
    };
    is(&["sub"]);
    make(&dir, "a");
    is(&["a", "sub"]);
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    is(&["b", "sub"]);
    fs::hard_link(dir.join("b"), dir.join("c")).unwrap();
    is(&["b", "c", "sub"]);
    fs::rename(dir.join("c"), dir.join("sub/c")).unwrap();
    is(&["b", "sub"]);
    fs::remove_file(dir.join("b")).unwrap();
    fs::remove_dir_all(dir.join("sub")).unwrap();
    is(&[]);
    std::os::unix::fs::symlink("to", dir.join("link")).unwrap();
    is(&["link"]);
}

#[test]
fn a_directory_that_moved_shows_its_new_parent() {
    let volume = holding(&[]);
    let path = |name: &str| volume.mount.join(name);
    for dir in ["a/dir", "b"] {
        fs::create_dir_all(path(dir)).unwrap();
    }
    let parent = |dir: &Path| {
        let mut handle = open(dir);
        let found = std::iter::from_fn(|| handle.read().map(Result::unwrap));
        found.into_iter().find(|entry| entry.file_name() == c"..").unwrap().ino()
    };
    let ino = |dir: &str| std::os::unix::fs::MetadataExt::ino(&path(dir).metadata().unwrap());
    for _ in 0..3 {
        assert_eq!(parent(&path("a/dir")), ino("a"));
    }
    fs::rename(path("a/dir"), path("b/dir")).unwrap();
    assert_eq!(parent(&path("b/dir")), ino("b"));
}

#[test]
fn handles_from_before_another_mount_joins_show_what_it_does() {
    let volume = holding(&[]);
    let here = volume.mount.join("dir");
    fs::create_dir(&here).unwrap();
    make(&here, "first");
    let mut held = open(&here);
    let mut is = |expected: &[&str]| {
        for _ in 0..2 {
            assert_eq!(names(&mut held), set(expected));
            assert_eq!(listed(&here), set(expected));
        }
    };
    is(&["first"]);
    let joined = Joined::new(&volume);
    let there = joined.mount.join("dir");
    is(&["first"]);
    make(&there, "second");
    is(&["first", "second"]);
    make(&here, "third");
    is(&["first", "second", "third"]);
    fs::remove_file(there.join("first")).unwrap();
    is(&["second", "third"]);
    joined.leave();
    until("it holds again", || holds(&volume));
    is(&["second", "third"]);
    make(&here, "fourth");
    is(&["fourth", "second", "third"]);
}

/// Reads the part of a directory that one system call returns. Empty: there is no more.
fn part(dir: &OwnedFd) -> Vec<String> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        names.push(entry.unwrap().file_name().to_str().unwrap().to_owned());
        if entries.is_buffer_empty() {
            break;
        }
    }
    names
}

/// A mount fetches more of a listing than the kernel asks for. Entries that one handle fetched
/// before a change must not end the listing that the kernel keeps after it.
#[test]
fn what_a_handle_has_from_before_a_change_is_in_no_kept_listing() {
    let volume = holding(&[]);
    let dir = volume.mount.join("dir");
    fs::create_dir(&dir).unwrap();
    (0..400).for_each(|index| make(&dir, &format!("file-{index}")));
    let open = || OwnedFd::from(File::open(&dir).unwrap());
    let (slow, whole) = (open(), open());
    assert!(!part(&slow).is_empty());
    while !part(&whole).is_empty() {}
    (0..40).for_each(|index| make(&dir, &format!("new-{index}")));
    (0..40).for_each(|index| fs::remove_file(dir.join(format!("file-{index}"))).unwrap());
    dir.metadata().unwrap();
    assert!(!part(&open()).is_empty());
    while !part(&slow).is_empty() {}
    for _ in 0..2 {
        let found = listed(&dir);
        let new = found.iter().filter(|name| name.starts_with("new-")).count();
        assert_eq!((found.len(), new), (400, 40));
    }
}

/// Random changes through two mounts, one of which comes and goes. Listings by old and new handles
/// are compared with a set.
#[test]
fn no_listing_of_random_histories_is_stale() {
    let volume = holding(&[]);
    let here = volume.mount.join("dir");
    fs::create_dir(&here).unwrap();
    let mut choices = fastrand::Rng::with_seed(23);
    let (mut model, mut joined) = (BTreeSet::new(), None::<Joined>);
    let mut held: Vec<Dir> = Vec::new();
    for step in 0..1500 {
        let there = joined.as_ref().map(|joined| joined.mount.join("dir"));
        let is_there = choices.u64(..4) != 0;
        let dir = there.filter(|_| is_there).unwrap_or_else(|| here.clone());
        let name = format!("name-{}", choices.u64(..40));
        match choices.u64(..100) {
            0 => match joined.take() {
                Some(joined) => {
                    joined.leave();
                    until("it holds again", || holds(&volume));
                }
                None => joined = Some(Joined::new(&volume)),
            },
            1..15 => {
                make(&dir, &name);
                model.insert(name);
            }
            15..25 => {
                let removed = fs::remove_file(dir.join(&name));
                assert_eq!(removed.is_ok(), model.remove(&name), "step {step}: {removed:?}");
            }
            25..32 => {
                let to = format!("name-{}", choices.u64(..40));
                let renamed = fs::rename(dir.join(&name), dir.join(&to));
                assert_eq!(renamed.is_ok(), model.remove(&name), "step {step}: {renamed:?}");
                if renamed.is_ok() {
                    model.insert(to);
                }
            }
            32..38 if held.len() < 4 => held.push(open(&here)),
            32..41 if !held.is_empty() => {
                let index = choices.usize(..held.len());
                held.swap_remove(index);
            }
            41..85 if !held.is_empty() => {
                let index = choices.usize(..held.len());
                assert_eq!(names(&mut held[index]), model, "step {step}: by handle {index}");
            }
            // A handle that stops half-way leaves a part of a listing in the kernel.
            85..90 if !held.is_empty() => {
                let index = choices.usize(..held.len());
                held[index].rewind();
                let _ = held[index].read();
            }
            _ => assert_eq!(listed(&dir), model, "step {step}: of {}", dir.display()),
        }
    }
}

/// A server, two mounts, a directory, and a handle of it at the first mount, whose kernel keeps the
/// listing.
fn served() -> (Site, Dir) {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    site.mount(&[]);
    let mount = site.mounts[0].clone();
    let dir = mount.join("dir");
    fs::create_dir(&dir).unwrap();
    make(&dir, "first");
    let mut held = None;
    until("the kernel keeps the listing", || {
        let handle = held.insert(open(&dir));
        listed(&dir);
        let before = asked(&mount)[0];
        names(handle);
        listed(&dir);
        asked(&mount)[0] == before
    });
    (site, held.expect("a handle"))
}

/// Listings of the directory at each mount, also by the handle.
fn assert_listed(site: &Site, held: &mut Dir, expected: &[&str]) {
    for _ in 0..2 {
        assert_eq!(names(held), set(expected));
        for mount in &site.mounts {
            assert_eq!(listed(&mount.join("dir")), set(expected));
        }
    }
}

#[test]
fn a_kernel_of_a_mount_through_servers_drops_a_listing_before_another_mount_changes_it() {
    let (site, mut held) = served();
    let [here, there] = [0, 1].map(|nth| site.mounts[nth].join("dir"));
    make(&here, "own");
    assert_listed(&site, &mut held, &["first", "own"]);
    make(&there, "second");
    assert_listed(&site, &mut held, &["first", "own", "second"]);
    fs::remove_file(there.join("first")).unwrap();
    make(&here, "third");
    assert_listed(&site, &mut held, &["own", "second", "third"]);
}

/// A mount that does nothing is not asked to give way: its time is over by itself.
#[test]
fn a_kernel_keeps_no_listing_beyond_the_time_of_its_mount() {
    let (site, mut held) = served();
    std::thread::sleep(Duration::from_nanos(HOLD_TIME) + Duration::from_secs(1));
    make(&site.mounts[1].join("dir"), "second");
    assert_listed(&site, &mut held, &["first", "second"]);
}
