//! Runs each act by each actor on each kind of file with each mode, and compares Pando with a local
//! file system.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FileType, Mode, XattrFlags, mknodat};
use rustix::io::Errno;

use crate::actors::{ACTORS, Actor, GROUP, OWNER};
use crate::acts::{ACTS, Act, LEN, Node, To};
use crate::common::site::{Site, until};
use crate::common::{Scratch, Volume};
use crate::imposed::imposed;

/// The type that `statfs` gives for ext4.
const EXT4: u64 = 0xef53;

const KINDS: [FileType; 7] = [
    FileType::RegularFile,
    FileType::Directory,
    FileType::Fifo,
    FileType::Socket,
    FileType::CharacterDevice,
    FileType::BlockDevice,
    FileType::Symlink,
];

/// Setuid, setgid, both and none, with and without execution for the group. Every user may write.
const MODES: [u32; 6] = [0o4777, 0o2777, 0o6777, 0o2767, 0o6766, 0o777];

/// An act, on one kind of file with one mode.
#[derive(Clone, Copy)]
pub struct Cell {
    pub kind: FileType,
    pub mode: u32,
    pub act: Act,
}

/// The result of an act: the mode at once, while the file is still open, and mode, owner and group
/// afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub result: Result<(), Errno>,
    pub at_once: u32,
    pub then: (u32, u32, u32),
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for kind in KINDS {
        let is_fit = |to| match kind {
            FileType::RegularFile => true,
            FileType::Symlink => to == To::All,
            _ => to != To::Regular,
        };
        for act in ACTS.into_iter().filter(|act| is_fit(act.1)) {
            let modes = match kind {
                FileType::RegularFile => &MODES[..],
                FileType::Symlink => &MODES[5..],
                _ => &MODES[2..5],
            };
            cells.extend(modes.iter().map(|&mode| Cell { kind, mode, act }));
        }
    }
    cells
}

fn make(dir: &Path, name: &str, cell: &Cell) {
    let path = dir.join(name);
    match cell.kind {
        FileType::RegularFile => fs::write(&path, vec![b'x'; LEN as usize]).unwrap(),
        FileType::Directory => fs::create_dir(&path).unwrap(),
        FileType::Symlink => std::os::unix::fs::symlink("source", &path).unwrap(),
        kind => {
            let device = rustix::fs::makedev(1, 3);
            mknodat(rustix::fs::CWD, &path, kind, Mode::empty(), device).unwrap();
        }
    }
    std::os::unix::fs::lchown(&path, Some(OWNER), Some(GROUP)).unwrap();
    if cell.kind != FileType::Symlink {
        rustix::fs::chmod(&path, Mode::from_raw_mode(cell.mode)).unwrap();
    }
}

fn name(number: usize) -> String {
    number.to_string()
}

/// Runs all cells as `actor` in a new folder at `at`, then looks at that folder through
/// `looked_at`.
fn run(actor: &Actor, cells: &[Cell], at: &Path, looked_at: &Path) -> Vec<Seen> {
    let folder = actor.name.replace(' ', "-");
    let dir = at.join(&folder);
    fs::create_dir(&dir).unwrap();
    rustix::fs::chmod(&dir, Mode::from_raw_mode(0o777)).unwrap();
    fs::write(dir.join("source"), [b's'; 200]).unwrap();
    for (number, cell) in cells.iter().enumerate() {
        make(&dir, &name(number), cell);
    }
    let held = File::open(&dir).unwrap();
    let look = |name: &str| Node { dir: held.as_fd(), name }.mode();
    // The kernel now remembers all that it may.
    for number in 0..cells.len() {
        look(&name(number));
    }
    let done: Vec<_> = actor.act(|| {
        let act = |(number, cell): (usize, &Cell)| {
            let name = name(number);
            let kept = (cell.act.2)(Node { dir: held.as_fd(), name: &name });
            (kept.as_ref().map(drop).map_err(|errno| *errno), look(&name))
        };
        cells.iter().enumerate().map(act).collect()
    });
    let seen = done.into_iter().enumerate().map(|(number, (result, at_once))| {
        let found = fs::symlink_metadata(looked_at.join(&folder).join(name(number))).unwrap();
        let then = (found.mode() & 0o7777, found.uid(), found.gid());
        Seen { result, at_once, then }
    });
    seen.collect()
}

/// What each actor sees for each cell on a local file system.
fn local() -> &'static [Vec<Seen>] {
    static LOCAL: OnceLock<Vec<Vec<Seen>>> = OnceLock::new();
    LOCAL.get_or_init(|| {
        let scratch = Scratch::new();
        let path = scratch.path();
        let kind = rustix::fs::statfs(path).unwrap().f_type as u64;
        assert_eq!(kind, EXT4, "{} must be on ext4, which this compares with", path.display());
        let cells = cells();
        ACTORS.iter().map(|actor| run(actor, &cells, path, path)).collect()
    })
}

/// Runs all cells at `at`, and reports each difference from what is expected.
fn check(what: &str, at: &Path, looked_at: &Path) {
    let cells = cells();
    let mut differences = Vec::new();
    for (actor, local) in ACTORS.iter().zip(local()) {
        let found = run(actor, &cells, at, looked_at);
        for ((cell, ext4), found) in cells.iter().zip(local).zip(found) {
            let expected = imposed(actor, cell, *ext4);
            if expected != found {
                let Cell { kind, mode, act } = cell;
                differences.push(format!(
                    "{kind:?} {mode:04o}, {}: {}\n    ext4  {}\n    to be {}\n    here  {}",
                    actor.name,
                    act.0,
                    shown(ext4),
                    shown(&expected),
                    shown(&found),
                ));
            }
        }
    }
    let count = differences.len();
    assert_eq!(count, 0, "{what}: {count} cells are wrong\n{}", differences.join("\n"));
}

fn shown(seen: &Seen) -> String {
    let (mode, uid, gid) = seen.then;
    format!("{:?}, {:04o} at once, then {mode:04o} of {uid}:{gid}", seen.result, seen.at_once)
}

#[test]
fn a_session_with_a_hold_takes_off_what_ext4_does() {
    let volume = Volume::up(&[]);
    until("it holds", || volume.mount_status()["counters"]["holds"] == 1);
    check("holding", &volume.mount, &volume.mount);
}

#[test]
fn what_one_mount_takes_off_is_off_on_another() {
    let site = Site::pair();
    check("two mounts", &site.mounts[0], &site.mounts[1]);
}

/// A file capability would have to be cleared as setuid is. So none can be set.
#[test]
fn no_file_has_a_capability() {
    let volume = Volume::up(&[]);
    let path = volume.mount.join("file");
    fs::write(&path, "text").unwrap();
    // CAP_NET_RAW, effective, in version 2 of the structure.
    let value = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set = rustix::fs::setxattr(&path, "security.capability", &value, XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    let found = rustix::fs::getxattr(&path, "security.capability", &mut [0_u8; 64]);
    assert_eq!(found, Err(Errno::NODATA));
}
