//! What the kernel may answer from its own memory, for how long, and what shards are told of its
//! callers (docs/design/alone.md).
//!
//! The kernel judges its callers (`default_permissions`), by attributes that it was told, and that
//! may have changed since. So shards judge them, too.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use pando_types::{Attr, FileKind, Ino, Judged, Kill};

use super::appends::Appends;
use super::session::Options;
use super::told::Told;
use crate::device::Caller;

/// How long a kernel that is alone, and can forget all names at once, may remember them. Where
/// something is mounted on one of them it must not, and a recall waits for so long: less than the
/// patience of whoever it waits for.
const NAMES_KEPT: Duration = Duration::from_secs(5);
/// The same of one that never can.
const NAMES_KEPT_BRIEFLY: Duration = Duration::from_secs(1);
/// How long a kernel that is alone may remember attributes of anything but directories.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(60);
/// The same of directories. It may take times and counts of before a change of its own for newer
/// ones.
const DIRECTORIES_KEPT: Duration = Duration::from_secs(1);
/// Less than the kernel's unit of time, which this is rounded up to.
const ONE_JIFFY: Duration = Duration::from_nanos(1);

/// See the module.
pub(super) struct Memory {
    is_alone: RwLock<bool>,
    told: Told,
    /// What the kernel knows of sizes.
    pub(super) appends: Appends,
    programs: Programs,
    entry_timeout: Duration,
    attr_timeout: Duration,
    forgets_names: AtomicBool,
}

/// Files that the kernel takes for programs of their owner or group. They are few.
#[derive(Default)]
struct Programs {
    nodes: Mutex<HashSet<u64>>,
    /// How many there are, so that who changes another file does not wait for the lock.
    count: AtomicUsize,
}

impl Programs {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<u64>) -> T) -> T {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut nodes);
        self.count.store(nodes.len(), Ordering::SeqCst);
        result
    }

    fn add(&self, node: u64) {
        self.change(|nodes| nodes.insert(node));
    }

    fn has(&self, node: u64) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.change(|nodes| nodes.contains(&node))
    }

    fn remove(&self, node: u64) {
        if self.has(node) {
            self.change(|nodes| nodes.remove(&node));
        }
    }
}

/// What is said to the kernel while this lives is said to a kernel that is alone, or to one that is
/// not.
pub(super) struct Telling<'a> {
    memory: &'a Memory,
    is_alone: RwLockReadGuard<'a, bool>,
}

impl Memory {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_alone: RwLock::new(false),
            told: Told::default(),
            appends: Appends::default(),
            programs: Programs::default(),
            entry_timeout: options.entry_timeout,
            attr_timeout: options.attr_timeout,
            forgets_names: AtomicBool::new(false),
        }
    }

    /// Whether the kernel can be made to forget all names at once.
    pub(super) fn set_forgets_names(&self, can: bool) {
        self.forgets_names.store(can, Ordering::Relaxed);
    }

    /// How long a kernel that is alone remembers names.
    pub(super) fn names_kept(&self) -> Duration {
        let can = self.forgets_names.load(Ordering::Relaxed);
        if can { NAMES_KEPT } else { NAMES_KEPT_BRIEFLY }
    }

    fn read(&self) -> RwLockReadGuard<'_, bool> {
        self.is_alone.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// This session is alone on its volume.
    pub(super) fn begin_alone(&self) {
        *self.is_alone.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// It is not alone any more. When this returns, all that was told to a kernel alone has been
    /// told.
    pub(super) fn end_alone(&self) {
        *self.is_alone.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether this session is alone.
    pub(super) fn is_alone(&self) -> bool {
        *self.read()
    }

    /// To be held from the choice of a timeout until the answer is written.
    pub(super) fn telling(&self) -> Telling<'_> {
        Telling { memory: self, is_alone: self.read() }
    }

    /// Whether another group of `caller` than its first may decide what it may do with these nodes.
    pub(super) fn may_need_groups(&self, caller: Caller, nodes: &[u64]) -> bool {
        let needs =
            |node: &u64| self.told.of(*node).is_some_and(|of| depends_on_groups(of, caller));
        caller.uid != 0 && nodes.iter().any(needs)
    }

    /// For how long the kernel may remember the name and the attributes of a file that it hears of
    /// by a listing. It takes these in after a recall, too, so they are as for one of several.
    pub(super) fn listed(&self, attr: &Attr) -> (Duration, Duration) {
        (self.entry_timeout, if is_program(attr) { Duration::ZERO } else { self.attr_timeout })
    }

    /// The kernel is about to be told these attributes.
    pub(super) fn tells(&self, node: u64, attr: &Attr) {
        self.told.put(node, attr.into());
        self.appends.told(node, attr.size);
        if is_program(attr) {
            self.programs.add(node);
        }
    }

    /// What the kernel was told last of a node.
    pub(super) fn told_of(&self, node: u64) -> Option<Judged> {
        self.told.of(node)
    }

    /// The kernel forgets a node.
    pub(super) fn forget(&self, node: u64) {
        self.told.forget(node);
        self.appends.forget(node);
        self.programs.remove(node);
    }

    /// Whether the kernel was told of setuid or setgid of this file.
    pub(super) fn is_program(&self, node: u64) -> bool {
        self.programs.has(node)
    }

    /// Shards have taken these off a file, and the kernel is about to be told to forget its
    /// attributes.
    pub(super) fn no_program(&self, node: u64) {
        self.programs.remove(node);
    }
}

/// Whether somebody who runs it may get the rights of its owner or group.
fn is_program(attr: &Attr) -> bool {
    Kill::concerns(attr.mode) && attr.kind == FileKind::Regular
}

/// Whether another group than the first of `caller` may decide what it may do with this.
const fn depends_on_groups(of: Judged, caller: Caller) -> bool {
    let (group, others) = (of.mode >> 3 & 7, of.mode & 7);
    group != others && caller.uid != of.uid && caller.gid != of.gid
}

impl Telling<'_> {
    /// Whether it is said to a kernel alone.
    pub(super) fn is_alone(&self) -> bool {
        *self.is_alone
    }

    /// For how long the kernel may remember what a name leads to.
    pub(super) fn entry_timeout(&self, kind: FileKind) -> Duration {
        match (*self.is_alone, kind) {
            (true, _) => self.memory.names_kept(),
            (false, FileKind::Directory) => Duration::ZERO,
            (false, _) => self.memory.entry_timeout,
        }
    }

    /// For how long the kernel may remember that a name leads nowhere.
    pub(super) fn absence_timeout(&self) -> Duration {
        if *self.is_alone { self.memory.names_kept() } else { Duration::ZERO }
    }

    /// The kernel is about to be told these attributes: for how long it may remember them.
    /// `is_settled`: nothing of the file is to be stored yet.
    pub(super) fn attributes(&self, node: u64, attr: &Attr, is_settled: bool) -> Duration {
        let given = self.memory.attr_timeout;
        self.memory.tells(node, attr);
        if is_program(attr) {
            // A write takes these bits off, and the kernel's own memory of them stays.
            return Duration::ZERO;
        }
        if *self.is_alone {
            return match attr.kind {
                FileKind::Directory => DIRECTORIES_KEPT.max(given),
                _ if is_settled => ATTRIBUTES_KEPT.max(given),
                _ => Duration::ZERO,
            };
        }
        // Every path begins there.
        if node == Ino::ROOT.0 { given.max(ONE_JIFFY) } else { given }
    }

    /// The same, with a name that leads there: what its path was just looked up for need not be
    /// asked for again.
    pub(super) fn entry_attributes(&self, node: u64, attr: &Attr, is_settled: bool) -> Duration {
        let time = self.attributes(node, attr, is_settled);
        if attr.kind == FileKind::Directory { time.max(ONE_JIFFY) } else { time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::Timestamp;

    fn attr(kind: FileKind, mode: u16) -> Attr {
        let zero = Timestamp::default();
        Attr {
            ino: Ino(7),
            kind,
            mode,
            nlink: 1,
            uid: 5,
            gid: 6,
            rdev: 0,
            size: 0,
            atime: zero,
            mtime: zero,
            ctime: zero,
            btime: zero,
            data_version: 1,
            change: 1,
            project: 0,
        }
    }

    #[test]
    fn of_several_sessions_little_is_remembered() {
        let memory = Memory::new(&Options::default());
        let (dir, file) = (attr(FileKind::Directory, 0o755), attr(FileKind::Regular, 0o644));
        let telling = memory.telling();
        assert_eq!(telling.entry_timeout(FileKind::Directory), Duration::ZERO);
        assert_eq!(telling.attributes(3, &dir, true), Duration::ZERO);
        assert_eq!(telling.entry_attributes(3, &dir, true), ONE_JIFFY);
        assert_eq!(telling.attributes(1, &dir, true), ONE_JIFFY);
        assert_eq!(telling.attributes(7, &file, true), Duration::ZERO);
        assert_eq!(telling.absence_timeout(), Duration::ZERO);
    }

    #[test]
    fn files_that_the_kernel_takes_for_programs_are_known_until_they_are_none() {
        let memory = Memory::new(&Options::default());
        let tell = |node, kind, mode| {
            memory.telling().attributes(node, &attr(kind, mode), true);
            memory.is_program(node)
        };
        assert!(!tell(2, FileKind::Regular, 0o755) && !tell(3, FileKind::Directory, 0o2755));
        assert!(tell(4, FileKind::Regular, 0o4755) && tell(5, FileKind::Regular, 0o2644));
        memory.begin_alone();
        assert!(memory.is_program(4) && tell(6, FileKind::Regular, 0o6755));
        memory.no_program(4);
        memory.forget(6);
        assert_eq!([4, 5, 6].map(|node| memory.is_program(node)), [false, true, false]);
        assert!(tell(4, FileKind::Regular, 0o4755));
    }

    #[test]
    fn attributes_of_programs_are_not_remembered_however_the_kernel_hears_of_them() {
        let given = Duration::from_secs(10);
        let options = Options { entry_timeout: given, attr_timeout: given, ..Options::default() };
        let memory = Memory::new(&options);
        for mode in [0o4755, 0o2755, 0o2644, 0o6711] {
            let program = attr(FileKind::Regular, mode);
            assert_eq!(memory.listed(&program), (given, Duration::ZERO), "{mode:o}");
            assert_eq!(memory.telling().attributes(7, &program, true), Duration::ZERO, "{mode:o}");
        }
        let (file, dir) = (attr(FileKind::Regular, 0o755), attr(FileKind::Directory, 0o2755));
        assert_eq!(memory.listed(&file), (given, given));
        assert_eq!(memory.telling().attributes(8, &file, true), given);
        assert_eq!(memory.telling().attributes(9, &dir, true), given);
        memory.forget(7);
        memory.tells(7, &attr(FileKind::Regular, 0o4755));
        assert!(memory.is_program(7) && memory.told_of(7).is_some() && !memory.is_program(8));
    }

    #[test]
    fn a_kernel_alone_remembers_what_only_it_changes() {
        let memory = Memory::new(&Options::default());
        memory.begin_alone();
        assert_eq!(memory.telling().entry_timeout(FileKind::Regular), NAMES_KEPT_BRIEFLY);
        memory.set_forgets_names(true);
        let (file, program) = (attr(FileKind::Regular, 0o644), attr(FileKind::Regular, 0o4755));
        {
            let telling = memory.telling();
            assert_eq!(telling.absence_timeout(), NAMES_KEPT);
            assert_eq!(telling.attributes(7, &file, true), ATTRIBUTES_KEPT);
            assert_eq!(telling.attributes(7, &file, false), Duration::ZERO);
            // A write takes setuid off, of which this kernel would not hear.
            assert_eq!(telling.attributes(7, &program, true), Duration::ZERO);
        }
        memory.end_alone();
        assert_eq!(memory.telling().attributes(7, &file, true), Duration::ZERO);
    }

    #[test]
    fn of_a_caller_more_is_looked_up_where_another_group_may_decide() {
        let memory = Memory::new(&Options::default());
        // Of user 5 and group 6.
        for (node, mode) in [(1, 0o755), (2, 0o770), (3, 0o640)] {
            memory.telling().attributes(node, &attr(FileKind::Directory, mode), true);
        }
        let needs = |uid, gid, nodes: &[u64]| {
            memory.may_need_groups(Caller { uid, gid, pid: 1, request: 1 }, nodes)
        };
        assert!(needs(9, 9, &[1, 2]) && needs(9, 9, &[3]) && !needs(9, 9, &[1, 4]));
        assert!(!needs(0, 0, &[2]) && !needs(5, 9, &[2]) && !needs(9, 6, &[2, 3]));
    }
}
