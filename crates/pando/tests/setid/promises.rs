//! Promises that the table does not show: two mounts at once, and files that were open before.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::actors::{FORMER_OWNER, GROUP, OWNER, ROOT, STRANGER};
use crate::acts::Node;
use crate::common::Volume;
use crate::common::site::{Site, until};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a file of the owner that every user may write.
fn make(path: &Path) {
    fs::write(path, "text").unwrap();
    lchown(path, Some(OWNER), Some(GROUP)).unwrap();
    chmod(path, 0o777);
}

fn open(dir: &File, name: &str) -> OwnedFd {
    openat(dir, name, OFlags::RDWR, Mode::empty()).unwrap()
}

fn write(fd: &OwnedFd) {
    rustix::io::pwrite(fd, b"written", 0).unwrap();
}

type Change = (&'static str, fn(&OwnedFd));

/// The kinds of changes that clear setuid.
const CHANGES: [Change; 3] = [
    ("write", write),
    ("truncate", |fd| rustix::fs::ftruncate(fd, 2).unwrap()),
    ("fallocate", |fd| {
        rustix::fs::fallocate(fd, rustix::fs::FallocateFlags::empty(), 0, 100).unwrap();
    }),
];

/// A mount may not have heard that a file has become a setuid program since the file was opened
/// there.
#[test]
fn what_another_mount_made_a_program_is_none_after_a_strangers_change() {
    let site = Site::pair();
    let dir = File::open(&site.mounts[0]).unwrap();
    for (what, change) in CHANGES {
        let there = site.at(1, what);
        make(&there);
        let fd = STRANGER.act(|| open(&dir, what));
        chmod(&there, 0o6777);
        STRANGER.act(|| change(&fd));
        assert_eq!(Node { dir: dir.as_fd(), name: what }.mode(), 0o777, "{what}: at once");
        drop(fd);
        assert_eq!(mode(&there), 0o777, "{what}");
    }
}

/// Once the owner makes the file a program, earlier writes do not clear the bits.
#[test]
fn what_the_owner_makes_a_program_after_a_strangers_write_stays_one() {
    let site = Site::pair();
    let dir = File::open(&site.mounts[0]).unwrap();
    for (before, is_fresh) in [(0o777, false), (0o4777, false), (0o777, true)] {
        let name = format!("{before:o}-{is_fresh}");
        let (here, there) = (site.at(0, &name), site.at(1, &name));
        make(&there);
        chmod(&there, before);
        let fd = STRANGER.act(|| open(&dir, &name));
        STRANGER.act(|| write(&fd));
        if is_fresh {
            // The look makes the mount store the bytes that it holds.
            assert_eq!(mode(&here), 0o777);
        }
        FORMER_OWNER.act(|| {
            let mode = Mode::from_raw_mode(0o4755);
            rustix::fs::chmodat(&dir, &name, mode, rustix::fs::AtFlags::empty()).unwrap();
        });
        assert_eq!(mode(&here), 0o4755);
        drop(fd);
        rustix::fs::fsync(open(&dir, &name)).unwrap();
        assert_eq!((mode(&here), mode(&there)), (0o4755, 0o4755), "{name}");
        assert_eq!(fs::read(&there).unwrap(), b"written");
    }
}

/// The owner who makes a program on another mount has not seen bytes that this mount has not
/// stored. So those bytes clear the bit when they are stored.
#[test]
fn what_is_stored_after_the_owner_made_a_program_elsewhere_ends_that() {
    let site = Site::pair();
    let dir = File::open(&site.mounts[0]).unwrap();
    for attempt in 0.. {
        let name = format!("file-{attempt}");
        let (here, there) = (site.at(0, &name), site.at(1, &name));
        make(&there);
        let fd = STRANGER.act(|| open(&dir, &name));
        STRANGER.act(|| write(&fd));
        chmod(&there, 0o4755);
        if fs::read(&there).unwrap() == b"written" {
            // The mount stored it by itself, maybe before the `chmod`.
            continue;
        }
        drop(fd);
        until("it is stored", || fs::read(&there).unwrap() == b"written");
        assert_eq!((mode(&there), mode(&here)), (0o755, 0o755));
        return;
    }
}

/// No write undoes a mode that the owner sets, on any mount.
#[test]
fn no_write_brings_back_a_mode() {
    let site = Site::pair();
    let dir = File::open(&site.mounts[0]).unwrap();
    for (what, change) in CHANGES {
        let there = site.at(1, what);
        make(&there);
        chmod(&there, 0o6777);
        let fd = STRANGER.act(|| open(&dir, what));
        chmod(&there, 0o600);
        STRANGER.act(|| change(&fd));
        drop(fd);
        rustix::fs::fsync(open(&dir, what)).unwrap();
        assert_eq!(mode(&there), 0o600, "{what}");
    }
}

#[test]
fn a_stranger_takes_nothing_off_roots_programs_by_a_mode() {
    let volume = Volume::up(&[]);
    let path = volume.mount.join("program");
    fs::write(&path, "text").unwrap();
    let dir = File::open(&volume.mount).unwrap();
    for (program, mode) in [(0o4755, 0o755), (0o4755, 0o4755), (0o6755, 0o700), (0o2755, 0)] {
        chmod(&path, program);
        let done = STRANGER.act(|| {
            let (mode, flags) = (Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty());
            rustix::fs::chmodat(&dir, "program", mode, flags)
        });
        assert_eq!(done, Err(Errno::PERM));
        assert_eq!(self::mode(&path), program);
    }
}

/// The kernel of a session that holds must not remember setuid that is cleared. It decides with
/// that mode which rights a program gets.
#[test]
fn a_kernel_with_a_hold_forgets_what_was_taken_off() {
    let volume = Volume::up(&[]);
    until("it holds", || volume.mount_status()["counters"]["holds"] == 1);
    let dir = File::open(&volume.mount).unwrap();
    let path = volume.mount.join("file");
    make(&path);
    let known = || Node { dir: dir.as_fd(), name: "file" }.mode();
    let truncate = |_: &OwnedFd| {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        drop(openat(&dir, "file", flags, Mode::empty()).unwrap());
    };
    let changes = CHANGES.map(|(_, change)| change);
    let changes = changes.iter().map(|change| change as &(dyn Fn(&OwnedFd) + Sync));
    for change in changes.chain([&truncate as &(dyn Fn(&OwnedFd) + Sync)]) {
        let fd = open(&dir, "file");
        chmod(&path, 0o6777);
        assert_eq!(known(), 0o6777);
        ROOT.act(|| change(&fd));
        assert_eq!(known(), 0o6777);
        STRANGER.act(|| change(&fd));
        assert_eq!(known(), 0o777);
    }
}
