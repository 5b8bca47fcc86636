//! The trees that are compared, and the results of a history of calls in each.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

use crate::callers::{Caller, PEOPLE, ROOT};
use crate::common::site::Site;
use crate::common::{Scratch, Volume};
use crate::listed;

/// A call of one person, through the first or the second mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub who: usize,
    pub side: usize,
    pub line: String,
}

impl Call {
    pub fn new(who: usize, side: usize, line: impl Into<String>) -> Self {
        Self { who, side, line: line.into() }
    }

    /// Parses the displayed form, `NAME/SIDE LINE`.
    pub fn parse(text: &str) -> Self {
        let (who, line) = text.trim().split_once(' ').unwrap();
        let (name, side) = who.split_once('/').unwrap();
        let who = PEOPLE.iter().position(|person| person.name == name).unwrap();
        Self::new(who, side.parse().unwrap(), line)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", PEOPLE[self.who].name, self.side, self.line)
    }
}

/// Where a tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Local,
    /// On a volume of `pando up`.
    Alone,
    /// On a volume of a server, with two mounts.
    Two,
}

/// Two answers that should be equal.
pub struct Difference {
    pub call: Call,
    pub kind: Kind,
    pub expected: String,
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (expected, found) = (self.expected.split('\t'), self.found.split('\t'));
        let (expected, found): (Vec<_>, Vec<_>) = (expected.collect(), found.collect());
        let only = |one: &[&str], other: &[&str]| {
            let lines = one.iter().filter(|line| !other.contains(line));
            lines.copied().collect::<Vec<_>>().join("\n        ")
        };
        writeln!(f, "  {}: {:?}", self.call, self.kind)?;
        writeln!(f, "  instead {}", only(&expected, &found))?;
        write!(f, "  found   {}", only(&found, &expected))
    }
}

struct Place {
    kind: Kind,
    /// Two callers for each person, one through each mount.
    callers: Vec<[Caller; 2]>,
    /// Dropped after the callers: this removes the tree.
    _tree: Tree,
}

#[allow(dead_code, reason = "kept for what their ends remove")]
enum Tree {
    Local(Bound),
    Alone(Volume),
    Two(Site),
}

/// A folder that is bound onto itself.
struct Bound(PathBuf, #[allow(dead_code, reason = "removed in the end")] Scratch);

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

impl Place {
    fn new(kind: Kind, options: &[&str]) -> Self {
        let (tree, roots) = match kind {
            Kind::Local => {
                let bound = local(options);
                let root = bound.0.clone();
                (Tree::Local(bound), [root.clone(), root])
            }
            Kind::Alone => {
                let volume = Volume::up(options);
                let root = volume.mount.clone();
                open_to_all(volume.scratch());
                (Tree::Alone(volume), [root.clone(), root])
            }
            Kind::Two => {
                let mut site = Site::new(&["all"], &[]);
                site.mount(options);
                site.mount(options);
                open_to_all(site.scratch());
                let roots = [site.at(0, ""), site.at(1, "")];
                (Tree::Two(site), roots)
            }
        };
        let stores = kind == Kind::Two;
        let pair = |person| [0, 1].map(|side: usize| Caller::new(person, &roots[side], stores));
        Self { kind, callers: PEOPLE.iter().map(pair).collect(), _tree: tree }
    }
}

/// Opens the folder, since callers reach their tree by a path through it.
fn open_to_all(scratch: &std::path::Path) {
    fs::set_permissions(scratch, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A folder of the local disk, mounted with these options.
fn local(options: &[&str]) -> Bound {
    let scratch = Scratch::new();
    open_to_all(scratch.path());
    let path = scratch.path().join("local");
    fs::create_dir(&path).unwrap();
    mount_bind(&path, &path).expect("mounting needs root");
    let mut flags = MountFlags::BIND | MountFlags::NOATIME;
    flags.set(MountFlags::NOSUID, !options.contains(&"--suid"));
    flags.set(MountFlags::NODEV, !options.contains(&"--dev"));
    mount_remount(&path, flags, "").unwrap();
    Bound(path, scratch)
}

/// With two mounts, a kernel trusts a directory's attributes for at most this long after it got
/// them (docs/design/holds.md).
const A_JIFFY: Duration = Duration::from_millis(20);

/// The local disk and another tree, with callers in both.
pub struct Arena {
    places: Vec<Place>,
    /// The mount of the last call.
    side: usize,
    /// Whether an expected difference has made the trees differ, so that nothing more can be
    /// compared.
    pub parted: bool,
    /// Number of calls so far.
    pub calls: u64,
    /// The reasons of the expected differences that occurred.
    pub listed: BTreeSet<&'static str>,
}

impl Arena {
    /// The local disk and another tree, with these mount options.
    pub fn new(other: Kind, options: &[&str]) -> Self {
        let places = [Kind::Local, other].map(|kind| Place::new(kind, options));
        Self { places: places.into(), side: 0, parted: false, calls: 0, listed: BTreeSet::new() }
    }

    /// Empties all trees and gives them to root. No caller holds anything after that.
    pub fn reset(&mut self) {
        self.parted = false;
        for place in &mut self.places {
            assert_eq!(place.callers[ROOT][0].ask("wipe"), "ok", "{:?}", place.kind);
        }
        self.to(1 - self.side);
        for place in &mut self.places {
            for caller in place.callers.iter_mut().flatten() {
                caller.tell("reset");
            }
            for caller in place.callers.iter_mut().flatten() {
                assert_eq!(caller.hear(), "ok");
            }
        }
    }

    /// Prepares for a call through this mount.
    fn to(&mut self, side: usize) {
        let is_two = self.places.iter().any(|place| place.kind == Kind::Two);
        if is_two && self.side != side {
            std::thread::sleep(A_JIFFY);
        }
        self.side = side;
    }

    /// Makes the call in both trees. Returns the local disk's answer, unless the other tree's
    /// differs.
    pub fn ask(&mut self, call: &Call) -> Result<String, Difference> {
        self.to(call.side);
        self.ask_at_once(call)
    }

    /// Makes the call in both trees without a pause. The second mount must not have asked before
    /// for what the call uses.
    pub fn ask_at_once(&mut self, call: &Call) -> Result<String, Difference> {
        self.calls += 1;
        for place in &mut self.places {
            place.callers[call.who][call.side].tell(&call.line);
        }
        let hear = |place: &mut Place| (place.kind, place.callers[call.who][call.side].hear());
        let mut answers: Vec<_> = self.places.iter_mut().map(hear).collect();
        let (_, expected) = answers.remove(0);
        for (kind, found) in answers.into_iter().filter(|(_, found)| *found != expected) {
            let holds_removed = || self.places[0].callers[call.who][call.side].holds_removed();
            match listed::find(call, kind, (&expected, &found), holds_removed) {
                Some(listed) => {
                    self.listed.insert(listed.why);
                    self.parted |= listed.parts;
                }
                None => return Err(Difference { call: call.clone(), kind, expected, found }),
            }
        }
        Ok(expected)
    }

    /// Runs a history in empty trees, and compares the trees at the end. Returns the first
    /// difference, and the number of calls up to it.
    pub fn run(&mut self, history: &[Call]) -> Option<(usize, Difference)> {
        self.reset();
        for (number, call) in history.iter().enumerate() {
            if let Err(difference) = self.ask(call) {
                return Some((number + 1, difference));
            }
            if self.parted {
                return None;
            }
        }
        let difference = looks().iter().find_map(|look| self.ask(look).err())?;
        Some((history.len(), difference))
    }

    /// Shortens a history that differs by leaving out calls.
    pub fn shortest(&mut self, mut history: Vec<Call>) -> Vec<Call> {
        let mut size = history.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < history.len() {
                let end = (start + size).min(history.len());
                let rest = [&history[..start], &history[end..]].concat();
                if let Some((end, _)) = self.run(&rest) {
                    history = rest;
                    history.truncate(end);
                } else {
                    start = end;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        history
    }
}

/// A random number below `below`.
pub fn at_random(below: usize) -> usize {
    RandomState::new().hash_one(()) as usize % below
}

/// Calls that show the whole tree, one through each mount.
pub fn looks() -> [Call; 2] {
    [0, 1].map(|side| Call::new(ROOT, side, "tree"))
}
