//! What the kernel may answer from its own memory, and for how long. Also what the mount tells
//! shards of callers (docs/design/holds.md).
//!
//! The kernel judges its callers (`default_permissions`) by attributes that it was told. These may
//! have changed since. So shards judge the callers, too.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pando_client::Grounds;
use pando_client::grounds::KEPT_MAX;
use pando_types::{Attr, FileKind, Ino, Judged, Kill};
use rustix::time::{ClockId, clock_gettime};

use crate::mounting::options::Options;
use crate::protocol::request::Caller;
use crate::remembered::appends::Appends;
use crate::remembered::programs::Programs;
use crate::remembered::told::Told;

/// How long the kernel of a mount that holds may remember names, if it can forget all at once. It
/// must not do that if something is mounted on one of them; then a recall waits for this time. It
/// is less than the time for which the other client retries.
const NAMES_KEPT: Duration = Duration::from_secs(5);
/// The same, if it cannot forget all at once.
const NAMES_KEPT_BRIEFLY: Duration = Duration::from_secs(1);
/// How long the kernel may remember something by a ground ([`Grounds`]).
const KEPT_BY_GROUND: Duration = Duration::from_nanos(KEPT_MAX);
/// An answer that is written so long after its time was chosen is late.
const LATE: Duration = Duration::from_millis(100);
/// How long the kernel of a mount that holds may remember attributes of anything but directories.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(60);
/// How long the kernel of a mount that holds may remember attributes of directories. After a change
/// of its own it may take older times and counts for newer ones.
const DIRECTORIES_KEPT: Duration = Duration::from_secs(1);
/// [`Memory::hold_until`]: until the session says otherwise.
pub(crate) const FOR_GOOD: u64 = u64::MAX;
/// Less than the kernel's unit of time, to which this is rounded up.
const ONE_JIFFY: Duration = Duration::from_nanos(1);

/// What the kernel was told, and how long it may remember it.
pub(crate) struct Memory {
    holds: RwLock<bool>,
    /// Until when the session holds, by the clock of [`since_boot`]. [`FOR_GOOD`]: until it says
    /// that it does not.
    held_until: AtomicU64,
    /// The highest number of a request that was read when this session began to hold. What such a
    /// request has found may be of before: another session may have changed it, and ended.
    older: AtomicU64,
    /// Whether the kernel was told anything since this was [looked at](Memory::take_used).
    is_used: AtomicBool,
    /// The thread that waits for the first use.
    waits: OnceLock<Thread>,
    told: Told,
    /// Sizes that the kernel knows.
    pub(crate) appends: Appends,
    programs: Programs,
    entry_timeout: Duration,
    attr_timeout: Duration,
    forgets_names: AtomicBool,
    /// Whether something was mounted upon this mount when that was looked at last.
    is_mounted_upon: AtomicBool,
    /// On what else than a hold the kernel may remember something; set once the file system is
    /// mounted.
    grounds: OnceLock<Arc<Grounds>>,
}

/// Keeps it fixed whether this session holds. Answers are chosen and written while it lives.
pub(crate) struct Telling<'a> {
    memory: &'a Memory,
    _holds: RwLockReadGuard<'a, bool>,
    /// How long this session holds from now on; zero: it does not.
    left: Duration,
    /// Number of the request.
    request: u64,
    /// When the first time by a ground was chosen.
    chosen_at: Cell<Option<Instant>>,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if self.chosen_at.get().is_some_and(|at| at.elapsed() >= LATE) {
            self.memory.grounds().inspect(|grounds| grounds.written_late());
        }
    }
}

/// Nanoseconds since the machine was started, with those that it slept.
pub(crate) fn since_boot() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

impl Memory {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            holds: RwLock::new(false),
            held_until: AtomicU64::new(0),
            older: AtomicU64::new(0),
            is_used: AtomicBool::new(false),
            waits: OnceLock::new(),
            told: Told::default(),
            appends: Appends::default(),
            programs: Programs::default(),
            entry_timeout: options.entry_timeout,
            attr_timeout: options.attr_timeout,
            forgets_names: AtomicBool::new(false),
            is_mounted_upon: AtomicBool::new(false),
            grounds: OnceLock::new(),
        }
    }

    /// Lets the kernel remember something on these grounds from now on.
    pub(crate) fn set_grounds(&self, grounds: Arc<Grounds>) {
        let _ = self.grounds.set(grounds);
    }

    /// On what else than a hold the kernel may remember something.
    pub(crate) fn grounds(&self) -> Option<&Grounds> {
        self.grounds.get().map(Arc::as_ref)
    }

    /// Sets whether names cannot be forgotten, since something is mounted upon this mount.
    pub(crate) fn set_mounted_upon(&self, is_so: bool) {
        self.is_mounted_upon.store(is_so, Ordering::Relaxed);
    }

    /// Whether names cannot be forgotten.
    pub(crate) fn is_mounted_upon(&self) -> bool {
        self.is_mounted_upon.load(Ordering::Relaxed)
    }

    /// How long the kernel may remember names by a ground: not at all if it cannot forget them.
    fn names_kept_by_ground(&self) -> Duration {
        let forgets = self.forgets_names.load(Ordering::Relaxed) && !self.is_mounted_upon();
        if forgets { KEPT_BY_GROUND } else { Duration::ZERO }
    }

    /// Waits until every answer that was chosen before has been written.
    pub(crate) fn await_answers(&self) {
        drop(self.holds.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets whether the kernel can forget all names at once.
    pub(crate) fn set_forgets_names(&self, can: bool) {
        self.forgets_names.store(can, Ordering::Relaxed);
    }

    /// How long the kernel of a mount that holds remembers names.
    pub(crate) fn names_kept(&self) -> Duration {
        let can = self.forgets_names.load(Ordering::Relaxed);
        if can { NAMES_KEPT } else { NAMES_KEPT_BRIEFLY }
    }

    fn read(&self) -> RwLockReadGuard<'_, bool> {
        self.holds.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this session holds until then, by the clock of [`since_boot`].
    /// While it is, this may be called again, with a later end. `newest` is the highest number of a
    /// request read so far.
    pub(crate) fn hold_until(&self, until: u64, newest: u64) {
        let mut holds = self.holds.write().unwrap_or_else(PoisonError::into_inner);
        if !*holds || self.held_until.load(Ordering::Relaxed) <= since_boot() {
            self.older.store(newest, Ordering::Relaxed);
        }
        self.held_until.store(until, Ordering::Relaxed);
        *holds = true;
    }

    /// Notes that this session does not hold any more. When this returns, every answer that was
    /// chosen while it held has been written.
    pub(crate) fn end_hold(&self) {
        *self.holds.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Whether this session holds.
    pub(crate) fn holds(&self) -> bool {
        !self.left(*self.read()).is_zero()
    }

    /// Whether the kernel was told anything since the last call of this.
    pub(crate) fn take_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Whether the kernel was told anything since [`Memory::take_used`]. From now on this thread is
    /// unparked when that begins.
    pub(crate) fn watch_use(&self) -> bool {
        self.waits.get_or_init(std::thread::current);
        fence(Ordering::SeqCst);
        self.is_used.load(Ordering::SeqCst)
    }

    fn note_use(&self) {
        if !self.is_used.load(Ordering::Relaxed) && !self.is_used.swap(true, Ordering::SeqCst) {
            // Either this thread finds the one that waits, or that one finds this use.
            fence(Ordering::SeqCst);
            if let Some(thread) = self.waits.get() {
                thread.unpark();
            }
        }
    }

    /// How long this session holds from now on, if it does.
    fn left(&self, holds: bool) -> Duration {
        match (holds, self.held_until.load(Ordering::Relaxed)) {
            (false, _) => Duration::ZERO,
            (true, FOR_GOOD) => Duration::MAX,
            (true, until) => Duration::from_nanos(until.saturating_sub(since_boot())),
        }
    }

    /// Fixes the state for the answer to the request of this number. Hold the result from the
    /// choice of a timeout until the answer is written.
    pub(crate) fn telling(&self, request: u64) -> Telling<'_> {
        let holds = self.read();
        let left = self.left(*holds && request > self.older.load(Ordering::Relaxed));
        self.note_use();
        Telling { memory: self, _holds: holds, left, request, chosen_at: Cell::new(None) }
    }

    /// Whether a supplementary group of `caller` may decide what it may do with these nodes.
    pub(crate) fn may_need_groups(&self, caller: Caller, nodes: &[u64]) -> bool {
        let needs =
            |node: &u64| self.told.of(*node).is_some_and(|of| depends_on_groups(of, caller));
        caller.uid != 0 && nodes.iter().any(needs)
    }

    /// How long the kernel may remember the name and the attributes of a file that is in a listing.
    /// It may take a listing in after a recall. So the times are those without a hold.
    pub(crate) fn listed(&self, attr: &Attr) -> (Duration, Duration) {
        (self.entry_timeout, if is_program(attr) { Duration::ZERO } else { self.attr_timeout })
    }

    /// Notes that the kernel is about to be told these attributes.
    pub(crate) fn tells(&self, node: u64, attr: &Attr) {
        self.told.put(node, attr.into());
        self.appends.told(node, attr.size);
        if is_program(attr) {
            self.programs.add(node);
        }
    }

    /// Mode and owners of a node as the kernel was told last.
    pub(crate) fn told_of(&self, node: u64) -> Option<Judged> {
        self.told.of(node)
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        self.told.forget(node);
        self.appends.forget(node);
        self.programs.remove(node);
    }

    /// Whether the kernel was told that this file has setuid or setgid.
    pub(crate) fn is_program(&self, node: u64) -> bool {
        self.programs.has(node)
    }

    /// Notes that shards have taken setuid and setgid off a file. The kernel is about to be told to
    /// forget its attributes.
    pub(crate) fn no_program(&self, node: u64) {
        self.programs.remove(node);
    }
}

/// Whether programs started from this file may run with the rights of its owner or group.
fn is_program(attr: &Attr) -> bool {
    Kill::concerns(attr.mode) && attr.kind == FileKind::Regular
}

/// Whether another group than the first of `caller` may decide what it may do with this node.
const fn depends_on_groups(of: Judged, caller: Caller) -> bool {
    let (group, others) = (of.mode >> 3 & 7, of.mode & 7);
    group != others && caller.uid != of.uid && caller.gid != of.gid
}

impl Telling<'_> {
    /// Whether the kernel may keep listings. No timeout ends a kept listing: this mount does.
    pub(crate) fn keeps_listings(&self) -> bool {
        !self.left.is_zero()
    }

    /// A time for which the kernel remembers something; `None`: this session does not hold.
    fn held_for(&self, time: Duration) -> Option<Duration> {
        (!self.left.is_zero()).then(|| time.min(self.left))
    }

    /// A time for which the kernel remembers something by a ground, of `most`.
    fn by_ground(
        &self,
        most: Duration,
        tell: impl FnOnce(&Grounds, (u64, u64), u64) -> u64,
    ) -> Option<Duration> {
        let grounds = self.memory.grounds().filter(|_| !most.is_zero())?;
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.chosen_at.set(self.chosen_at.get().or_else(|| Some(Instant::now())));
        let time = tell(grounds, (self.request, since_boot()), most);
        (time > 0).then(|| Duration::from_nanos(time))
    }

    /// A time for which the kernel remembers a name in `dir`.
    fn name_for(&self, dir: u64) -> Option<Duration> {
        self.held_for(self.memory.names_kept()).or_else(|| {
            let most = self.memory.names_kept_by_ground();
            self.by_ground(most, |on, moments, most| on.tell_name(Ino(dir), moments, most))
        })
    }

    /// Whether attributes of a file may rest on a ground: where it lies is to be looked for.
    pub(crate) fn asks_for_entry(&self) -> bool {
        self.left.is_zero() && self.memory.grounds.get().is_some()
    }

    /// How long the kernel may remember which node a name in `dir` leads to.
    pub(crate) fn entry_timeout(&self, dir: u64, kind: FileKind) -> Duration {
        match (self.name_for(dir), kind) {
            (time, FileKind::Directory) => time.unwrap_or_default(),
            (time, _) => time.unwrap_or_default().max(self.memory.entry_timeout),
        }
    }

    /// How long the kernel may remember that a name does not exist in `dir`.
    pub(crate) fn absence_timeout(&self, dir: u64) -> Duration {
        self.name_for(dir).unwrap_or_default()
    }

    /// How long the kernel may remember these attributes, which it is about to be told.
    /// `is_settled` means that the mount has no unstored writes to the file. `entry`: where the
    /// file lies, if that is known.
    pub(crate) fn attributes(
        &self,
        attr: &Attr,
        entry: Option<(Ino, u64)>,
        is_settled: bool,
    ) -> Duration {
        let node = attr.ino.0;
        let given = self.memory.attr_timeout;
        self.memory.tells(node, attr);
        if is_program(attr) {
            // A write takes these bits off without notice to the kernel, which would remember them.
            return Duration::ZERO;
        }
        let kept = match attr.kind {
            FileKind::Directory => DIRECTORIES_KEPT,
            _ if is_settled => ATTRIBUTES_KEPT,
            _ => Duration::ZERO,
        };
        if let Some(time) =
            self.held_for(kept).or_else(|| self.attributes_by_ground(attr, entry, kept))
        {
            return if kept.is_zero() { kept } else { time.max(given) };
        }
        // Every path begins at the root.
        if node == Ino::ROOT.0 { given.max(ONE_JIFFY) } else { given }
    }

    fn attributes_by_ground(
        &self,
        attr: &Attr,
        entry: Option<(Ino, u64)>,
        kept: Duration,
    ) -> Option<Duration> {
        let most = kept.min(KEPT_BY_GROUND);
        let ino = attr.ino;
        match (attr.kind, entry) {
            (FileKind::Directory, _) => {
                self.by_ground(most, |on, at, most| on.tell_dir(ino, at, most))
            }
            // What has other names is changed in other directories, too.
            (_, Some(entry)) if attr.nlink == 1 => {
                self.by_ground(most, |on, at, most| on.tell_file(entry, ino, at, most))
            }
            _ => None,
        }
    }

    /// How long the kernel may remember attributes that come with a name. At least one jiffy for a
    /// directory: the kernel has just looked it up for a path, and need not ask again.
    pub(crate) fn entry_attributes(
        &self,
        attr: &Attr,
        entry: Option<(Ino, u64)>,
        is_settled: bool,
    ) -> Duration {
        let time = self.attributes(attr, entry, is_settled);
        if attr.kind == FileKind::Directory { time.max(ONE_JIFFY) } else { time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::Timestamp;

    /// The mount has no unstored writes to the file.
    const SETTLED: bool = true;
    /// A request that was read after all others.
    const NEW: u64 = 1 << 40;

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

    /// The same of another node.
    fn at(node: u64, attr: &Attr) -> Attr {
        Attr { ino: Ino(node), ..attr.clone() }
    }

    #[test]
    fn without_a_hold_little_is_remembered() {
        let memory = Memory::new(&Options::default());
        let (dir, file) = (attr(FileKind::Directory, 0o755), attr(FileKind::Regular, 0o644));
        let telling = memory.telling(NEW);
        assert_eq!(telling.entry_timeout(1, FileKind::Directory), Duration::ZERO);
        assert_eq!(telling.attributes(&at(3, &dir), None, SETTLED), Duration::ZERO);
        assert_eq!(telling.entry_attributes(&at(3, &dir), None, SETTLED), ONE_JIFFY);
        assert_eq!(telling.attributes(&at(1, &dir), None, SETTLED), ONE_JIFFY);
        assert_eq!(telling.attributes(&at(7, &file), None, SETTLED), Duration::ZERO);
        assert_eq!(telling.absence_timeout(1), Duration::ZERO);
    }

    #[test]
    fn files_that_the_kernel_takes_for_programs_are_known_until_they_are_none() {
        let memory = Memory::new(&Options::default());
        let tell = |node, kind, mode| {
            memory.telling(NEW).attributes(&at(node, &attr(kind, mode)), None, SETTLED);
            memory.is_program(node)
        };
        assert!(!tell(2, FileKind::Regular, 0o755) && !tell(3, FileKind::Directory, 0o2755));
        assert!(tell(4, FileKind::Regular, 0o4755) && tell(5, FileKind::Regular, 0o2644));
        memory.hold_until(FOR_GOOD, 0);
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
            assert_eq!(
                memory.telling(NEW).attributes(&at(7, &program), None, SETTLED),
                Duration::ZERO,
                "{mode:o}"
            );
        }
        let (file, dir) = (attr(FileKind::Regular, 0o755), attr(FileKind::Directory, 0o2755));
        assert_eq!(memory.listed(&file), (given, given));
        assert_eq!(memory.telling(NEW).attributes(&at(8, &file), None, SETTLED), given);
        assert_eq!(memory.telling(NEW).attributes(&at(9, &dir), None, SETTLED), given);
        memory.forget(7);
        memory.tells(7, &attr(FileKind::Regular, 0o4755));
        assert!(memory.is_program(7) && memory.told_of(7).is_some() && !memory.is_program(8));
    }

    #[test]
    fn a_kernel_with_a_hold_remembers_what_only_it_changes() {
        let memory = Memory::new(&Options::default());
        memory.hold_until(FOR_GOOD, 0);
        assert_eq!(memory.telling(NEW).entry_timeout(1, FileKind::Regular), NAMES_KEPT_BRIEFLY);
        memory.set_forgets_names(true);
        let (file, program) = (attr(FileKind::Regular, 0o644), attr(FileKind::Regular, 0o4755));
        {
            let telling = memory.telling(NEW);
            assert_eq!(telling.absence_timeout(1), NAMES_KEPT);
            assert_eq!(telling.attributes(&at(7, &file), None, SETTLED), ATTRIBUTES_KEPT);
            assert_eq!(telling.attributes(&at(7, &file), None, !SETTLED), Duration::ZERO);
            // A write takes setuid off, and this kernel would not hear of it.
            assert_eq!(telling.attributes(&at(7, &program), None, SETTLED), Duration::ZERO);
        }
        memory.end_hold();
        assert_eq!(memory.telling(NEW).attributes(&at(7, &file), None, SETTLED), Duration::ZERO);
    }

    #[test]
    fn a_kernel_held_for_a_time_remembers_nothing_beyond_it() {
        let memory = Memory::new(&Options::default());
        memory.set_forgets_names(true);
        let (dir, file) = (attr(FileKind::Directory, 0o755), attr(FileKind::Regular, 0o644));
        let hold = Duration::from_millis(700);
        memory.hold_until(since_boot() + 700_000_000, 0);
        {
            let telling = memory.telling(NEW);
            let times = [
                telling.entry_timeout(1, FileKind::Directory),
                telling.absence_timeout(1),
                telling.attributes(&at(3, &dir), None, SETTLED),
                telling.attributes(&at(7, &file), None, SETTLED),
            ];
            for time in times {
                assert!(time > ONE_JIFFY && time <= hold, "{time:?}");
            }
            assert_eq!(telling.attributes(&at(7, &file), None, !SETTLED), Duration::ZERO);
            assert!(telling.keeps_listings());
        }
        // The time is over, whether or not a thread has noticed.
        memory.hold_until(since_boot(), 0);
        assert!(!memory.holds());
        assert!(!memory.telling(NEW).keeps_listings());
        assert_eq!(memory.telling(NEW).entry_timeout(1, FileKind::Regular), Duration::ZERO);
        assert_eq!(memory.telling(NEW).attributes(&at(7, &file), None, SETTLED), Duration::ZERO);
        assert!(memory.take_used() && !memory.take_used());
    }

    #[test]
    fn an_answer_found_before_the_session_held_is_not_remembered() {
        let memory = Memory::new(&Options::default());
        let remembers = |request| !memory.telling(request).absence_timeout(1).is_zero();
        memory.hold_until(FOR_GOOD, 6);
        assert!(!remembers(4) && !remembers(6) && remembers(8));
        // It goes on holding, and what was read since goes on being remembered.
        memory.hold_until(FOR_GOOD, 10);
        assert!(remembers(8));
        // It did not hold for a while, though nobody has said so.
        memory.hold_until(since_boot(), 12);
        memory.hold_until(FOR_GOOD, 14);
        assert!(!remembers(14) && remembers(16));
    }

    #[test]
    fn of_a_caller_more_is_looked_up_where_another_group_may_decide() {
        let memory = Memory::new(&Options::default());
        // The directories are of user 5 and group 6.
        for (node, mode) in [(1, 0o755), (2, 0o770), (3, 0o640)] {
            memory.telling(NEW).attributes(
                &at(node, &attr(FileKind::Directory, mode)),
                None,
                SETTLED,
            );
        }
        let needs = |uid, gid, nodes: &[u64]| {
            memory.may_need_groups(Caller { uid, gid, pid: 1, request: 1 }, nodes)
        };
        assert!(needs(9, 9, &[1, 2]) && needs(9, 9, &[3]) && !needs(9, 9, &[1, 4]));
        assert!(!needs(0, 0, &[2]) && !needs(5, 9, &[2]) && !needs(9, 6, &[2, 3]));
    }
}
