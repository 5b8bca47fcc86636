//! What the kernel may answer from its own memory, for how long, and by whom its callers are judged (docs/design/alone.md).
//!
//! The kernel itself judges its callers (`default_permissions`), by attributes that it was told. Of several sessions each tells
//! the shards what its kernel decided by, and a shard that knows better refuses. A session alone need not.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use pando_types::{Attr, Credentials, FileKind, Ino, Judge, Judged, Kill, Name};

use super::appends::Appends;
use super::session::Options;
use super::told::Told;
use crate::device::Caller;

/// How long a kernel that is alone, and can forget all names at once, may remember them. Where something is mounted on one of
/// them it must not, and a recall waits for so long: less than the patience of whoever it waits for.
const NAMES_KEPT: Duration = Duration::from_secs(20);
/// The same of one that never can.
const NAMES_KEPT_BRIEFLY: Duration = Duration::from_secs(1);
/// How long a kernel that is alone may remember attributes of anything but directories.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(60);
/// The same of directories. It may take times and counts of before a change of its own for newer ones.
const DIRECTORIES_KEPT: Duration = Duration::from_secs(1);
/// Less than the kernel's unit of time, which this is rounded up to.
const ONE_JIFFY: Duration = Duration::from_nanos(1);

/// See the module.
pub(super) struct Memory {
    is_alone: RwLock<bool>,
    /// Requests under way that were judged by a kernel alone.
    under_way: AtomicUsize,
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

/// What is said to the kernel while this lives is said to a kernel that is alone, or to one that is not.
pub(super) struct Telling<'a> {
    memory: &'a Memory,
    is_alone: RwLockReadGuard<'a, bool>,
}

/// A caller whose kernel has judged a request.
pub(super) struct Judging<'a> {
    memory: &'a Memory,
    by: Credentials,
    is_alone: bool,
}

impl Memory {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_alone: RwLock::new(false),
            under_way: AtomicUsize::new(0),
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
        self.told.clear_names();
    }

    /// It is not alone any more. When this returns, all that was told to a kernel alone has been told.
    pub(super) fn end_alone(&self) {
        *self.is_alone.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether this session is alone.
    pub(super) fn is_alone(&self) -> bool {
        *self.read()
    }

    /// Whether requests are under way that were judged by a kernel alone.
    pub(super) fn is_judging_alone(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) > 0
    }

    /// To be held from the choice of a timeout until the answer is written.
    pub(super) fn telling(&self) -> Telling<'_> {
        Telling { memory: self, is_alone: self.read() }
    }

    /// A request that the kernel has judged by what it was told of `nodes` and of what `names` lead to.
    pub(super) fn judge(
        &self,
        caller: Caller,
        nodes: &[u64],
        names: &[(u64, &Name)],
    ) -> Judging<'_> {
        let (uid, gid) = (caller.uid, caller.gid);
        let is_alone = self.read();
        let judge = if *is_alone {
            self.under_way.fetch_add(1, Ordering::SeqCst);
            Judge::KernelAlone
        } else {
            let names = names.iter().map(|&(dir, name)| (dir, name.clone()));
            let of_names = names.filter_map(|place| self.told.of_name(&place));
            let of_nodes = nodes.iter().filter_map(|node| self.told.of_node(*node));
            Judge::Kernel(of_nodes.chain(of_names).collect())
        };
        Judging { memory: self, by: Credentials { uid, gid, judge }, is_alone: *is_alone }
    }

    /// A node is this now; whether the kernel was told so. If not, it must be told before it decides again.
    pub(super) fn was_told(&self, node: u64, attr: &Attr) -> bool {
        let was_told = self.told.of_node(node) == Some(attr.into());
        if !was_told {
            self.told.forget(node);
        }
        was_told
    }

    /// What the kernel was told last of a node.
    pub(super) fn told_of(&self, node: u64) -> Option<Judged> {
        self.told.of_node(node)
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

    /// Shards have taken these off a file, and the kernel is about to be told to forget its attributes.
    pub(super) fn no_program(&self, node: u64) {
        self.programs.remove(node);
    }
}

impl Telling<'_> {
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

    /// The kernel is about to be told these attributes: for how long it may remember them. `is_settled`: nothing of the file
    /// is to be stored yet.
    pub(super) fn attributes(&self, node: u64, attr: &Attr, is_settled: bool) -> Duration {
        let given = self.memory.attr_timeout;
        self.memory.told.put(node, attr.into());
        self.memory.appends.told(node, attr.size);
        if Kill::concerns(attr.mode) && attr.kind == FileKind::Regular {
            self.memory.programs.add(node);
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

    /// The same, with a name that leads there: what its path was just looked up for need not be asked for again.
    pub(super) fn entry_attributes(&self, node: u64, attr: &Attr, is_settled: bool) -> Duration {
        let time = self.attributes(node, attr, is_settled);
        if attr.kind == FileKind::Directory { time.max(ONE_JIFFY) } else { time }
    }

    /// The kernel is about to be told what a name leads to.
    pub(super) fn name(&self, dir: u64, name: &Name, attr: &Attr) {
        if !*self.is_alone {
            self.memory.told.put_name((dir, name.clone()), attr.into());
        }
    }
}

impl Judging<'_> {
    /// On whose behalf the request is made, and who has judged.
    pub(super) fn by(&self) -> &Credentials {
        &self.by
    }

    /// Whether a shard compares what the kernel decided by.
    pub(super) fn is_compared(&self) -> bool {
        !self.is_alone
    }
}

impl Drop for Judging<'_> {
    fn drop(&mut self) {
        if self.is_alone {
            self.memory.under_way.fetch_sub(1, Ordering::SeqCst);
        }
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

    const CALLER: Caller = Caller { uid: 9, gid: 9, pid: 1 };

    #[test]
    fn of_several_sessions_a_shard_hears_by_what_a_kernel_decided() {
        let memory = Memory::new(&Options::default());
        let name = Name::new(b"x").expect("valid");
        let (dir, file) = (attr(FileKind::Directory, 0o755), attr(FileKind::Regular, 0o644));
        {
            let telling = memory.telling();
            assert_eq!(telling.entry_timeout(FileKind::Directory), Duration::ZERO);
            assert_eq!(telling.attributes(3, &dir, true), Duration::ZERO);
            assert_eq!(telling.entry_attributes(3, &dir, true), ONE_JIFFY);
            assert_eq!(telling.attributes(1, &dir, true), ONE_JIFFY);
            assert_eq!(telling.attributes(7, &file, true), Duration::ZERO);
            telling.name(3, &name, &file);
        }
        let judging = memory.judge(CALLER, &[3], &[(3, &name)]);
        let judged = vec![Judged::from(&dir), Judged::from(&file)];
        assert_eq!(judging.by().judge, Judge::Kernel(judged));
        assert!(judging.is_compared() && !memory.is_judging_alone());
        assert!(memory.was_told(3, &dir) && !memory.was_told(3, &attr(FileKind::Directory, 0)));
        // What it decides by is unknown now.
        assert_eq!(memory.judge(CALLER, &[3], &[]).by().judge, Judge::Kernel(vec![]));
    }

    #[test]
    fn requests_of_a_kernel_alone_are_known_until_they_end() {
        let memory = Memory::new(&Options::default());
        memory.begin_alone();
        assert_eq!(memory.telling().entry_timeout(FileKind::Regular), NAMES_KEPT_BRIEFLY);
        memory.set_forgets_names(true);
        let file = attr(FileKind::Regular, 0o644);
        {
            let telling = memory.telling();
            assert_eq!(telling.absence_timeout(), NAMES_KEPT);
            assert_eq!(telling.attributes(7, &file, true), ATTRIBUTES_KEPT);
            assert_eq!(telling.attributes(7, &file, false), Duration::ZERO);
        }
        let judging = memory.judge(CALLER, &[3], &[]);
        memory.end_alone();
        assert!(memory.is_judging_alone() && !judging.is_compared());
        assert_eq!(judging.by().judge, Judge::KernelAlone);
        drop(judging);
        assert!(!memory.is_judging_alone());
        assert_eq!(memory.judge(CALLER, &[3], &[]).by().judge, Judge::Kernel(vec![]));
        // It still decides by what it was told before.
        let by_file = Judge::Kernel(vec![Judged::from(&file)]);
        assert_eq!(memory.judge(CALLER, &[7], &[]).by().judge, by_file);
    }
}
