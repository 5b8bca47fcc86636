//! Answers of shards that stay true: no other session changes a name or an attribute meanwhile.
//! That is so while this session holds (docs/design/holds.md, "What the mount remembers"), and in
//! directories of which it has a read grant (docs/design/read-grants.md).
//!
//! It is for what the kernel must not remember, and for what it forgets too soon: listings and
//! attributes of directories, and what names lead to.

mod changes;
mod facts;
mod granted;
mod reading;
mod reads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_client::Grounds;
use pando_types::DirRef;
use pando_types::hold::{HOLD_TIME, Holding};
use pando_types::op::{AccessMask, FileAt, FileRef, Op, Request, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Attr, Credentials, DirId, FileKind, Order, SessionId, TxnId};
use parking_lot::Mutex;

use crate::memory::changes::{Changes, Reach};
use crate::memory::facts::Facts;
use crate::memory::granted::ReadGrants;
use crate::memory::reads::Reads;

/// The access to a directory that lets a caller look names up there.
const SEARCH: AccessMask = 1;

/// Answers that stay true.
#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    answered: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Until when the session holds, by the clock that goes on while the machine sleeps.
    until: u64,
    /// Numbers times of holding without a gap.
    period: u64,
    changes: Changes,
    facts: Facts,
    reads: Reads,
    granted: ReadGrants,
}

/// Why what is known of a directory stays true.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// The session has held since this period began.
    Hold(u64),
    /// It has this read grant of the directory.
    Grant(TxnId),
}

/// What was asked of a shard, as far as it concerns this memory.
pub(crate) enum Asked {
    /// Whether the session may hold; when that was asked.
    Hold(u64),
    /// Whether it is recalled.
    Recall,
    /// Something that may be remembered: by the state of its directory when it was asked.
    Read(Box<Request>, Fetch),
    /// Something that changes names or attributes.
    Change,
    Other,
}

/// The state in which something was asked. What was changed since is not remembered.
#[derive(Clone, Copy)]
pub(crate) struct Fetch {
    dir: DirRef,
    basis: Basis,
    change: u64,
}

/// The directory that a read is about, if its answer may be remembered.
fn read_of(request: &Request) -> Option<DirRef> {
    if request.head.id.sequence > 0 || request.trail.is_some() {
        return None;
    }
    facts::dir_of(&request.op)
}

impl Memory {
    /// Remembers nothing yet. Its read grants are grounds for the kernel.
    pub(crate) fn new(grounds: &Arc<Grounds>) -> Self {
        let state = State { granted: ReadGrants::new(grounds), ..State::default() };
        Self { state: Mutex::new(state), answered: AtomicU64::new(0) }
    }

    /// Number of requests that were answered from here.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether answers are remembered now.
    pub(crate) fn is_on(&self, now: u64) -> bool {
        self.state.lock().holds(now)
    }

    /// The answer to a request, if it is known. `alike`: the kinds of access that shards judge by
    /// the credentials in requests alone.
    pub(crate) fn answer(
        &self,
        request: &Request,
        alike: Option<AccessMask>,
        now: u64,
    ) -> Option<Result<Body, Refusal>> {
        let dir = read_of(request)?;
        let mut state = self.state.lock();
        if state.basis(dir.id, now).is_none() || !state.changes.is_still(dir.id) {
            return None;
        }
        let result = state.answer(dir, request, alike, now)?;
        if let Op::ReadData { .. } = request.op {
            state.reads.went_on(&request.credentials, now);
        }
        drop(state);
        self.answered.fetch_add(1, Ordering::Relaxed);
        Some(result)
    }

    /// The attributes of a regular file in its entry, if they are known, and `credentials` may open
    /// it so.
    pub(crate) fn may_open(
        &self,
        file: &FileRef,
        (access, credentials): (AccessMask, &Credentials),
        now: u64,
    ) -> Option<Attr> {
        let FileAt::Name(dir, name) = &file.at else { return None };
        let mut state = self.state.lock();
        if state.basis(dir.id, now).is_none() || !state.changes.is_still(dir.id) {
            return None;
        }
        let attr = state.facts.file(*dir, name, file.ino)?.clone();
        drop(state);
        let may = attr.kind == FileKind::Regular && pando_core::may(&attr, credentials, access);
        if may {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        may.then_some(attr)
    }

    /// From where on the contents of a directory's files are to be asked for, as one of them is
    /// read. `order` is that of its name. Until [`Memory::has_read`], only the first asks.
    pub(crate) fn reads_along(&self, request: &Request, order: Order, now: u64) -> Option<Order> {
        let dir = read_of(request)?;
        let mut state = self.state.lock();
        if !state.holds(now) || !state.changes.is_still(dir.id) {
            return None;
        }
        let from = state.facts.contents_from(dir, order)?;
        state.reads.begins(dir.id, &request.credentials, now).then_some(from)
    }

    /// Notes that contents of a directory's files were asked for. `of_use`: those of the file that
    /// is read are known now.
    pub(crate) fn has_read(&self, dir: DirId, of_use: bool, now: u64) {
        self.state.lock().reads.ends(dir, of_use, now);
    }

    /// By whose permission files of one directory after the other are read now.
    pub(crate) fn reader(&self, now: u64) -> Option<Credentials> {
        let mut state = self.state.lock();
        state.holds(now).then(|| state.reads.reader(now)).flatten()
    }

    /// Notes that a request is sent.
    pub(crate) fn sent(&self, request: &Request, now: u64) -> Asked {
        if let Op::Hold(session, _) = &request.op {
            self.state.lock().take_session(*session);
        }
        match &request.op {
            Op::Hold(_, Holding::Ask(_)) => Asked::Hold(now),
            Op::Hold(_, Holding::Await) => Asked::Recall,
            Op::Hold(_, Holding::End(_)) if is_planted!(RemembersAfterRecall) => Asked::Other,
            Op::Hold(_, Holding::End(_)) => {
                self.state.lock().end();
                Asked::Other
            }
            op if op.needs_wake() => {
                self.state.lock().begins(request, now);
                Asked::Change
            }
            _ => {
                let is_alone = matches!(request.op, Op::ReadData { .. });
                let Some(dir) = read_of(request).filter(|_| !is_alone) else {
                    return Asked::Other;
                };
                let mut state = self.state.lock();
                match state.basis(dir.id, now).filter(|_| state.changes.is_still(dir.id)) {
                    Some(basis) => {
                        let change = state.changes.number();
                        drop(state);
                        Asked::Read(Box::new(request.clone()), Fetch { dir, basis, change })
                    }
                    None => Asked::Other,
                }
            }
        }
    }

    /// Notes the answer to a request.
    pub(crate) fn heard(&self, asked: Asked, id: RequestId, reply: &Reply, now: u64) {
        match asked {
            Asked::Other => {}
            Asked::Change => self.state.lock().ends(id, reply),
            Asked::Hold(since) => match &reply.result {
                Ok(Body::Holds(true)) => {
                    self.state.lock().hold(since.saturating_add(HOLD_TIME), now)
                }
                _ => self.state.lock().end(),
            },
            Asked::Recall if matches!(reply.result, Ok(Body::Holds(true))) => {}
            Asked::Recall if is_planted!(RemembersAfterRecall) => {}
            Asked::Recall => self.state.lock().end(),
            Asked::Read(request, fetch) => {
                // What a shard may lose with its power is not known to stay. A read applies
                // nothing, and a reply names the position that comes next.
                if reply.seen.0 <= reply.durable.0.saturating_add(1) {
                    self.state.lock().learn(fetch, (&request, reply), now);
                }
            }
        }
    }

    /// Notes a change that was answered here, by a lent part.
    pub(crate) fn changed_here(&self, op: &Op, reply: &Reply) {
        let mut state = self.state.lock();
        if (state.until > 0 || !state.granted.is_empty()) && op.needs_wake() {
            // A part answers no change that concerns another directory.
            state.changed(&Reach::of(op).after(&reply.result).narrow());
        }
    }
}

impl State {
    /// The session holds until then.
    fn hold(&mut self, until: u64, now: u64) {
        if !self.holds(now) {
            // It rests on read grants, which may be over by now.
            self.facts.clear();
        }
        self.until = until;
    }

    /// Whether the session holds. A hold that has lapsed ends here.
    fn holds(&mut self, now: u64) -> bool {
        if self.until > 0 && now >= self.until {
            self.end();
        }
        self.until > 0
    }

    /// Why what is known of a directory stays true at `now`. `None`: it does not. What is known by
    /// a read grant that may not be used any more is forgotten.
    fn basis(&mut self, dir: DirId, now: u64) -> Option<Basis> {
        let holds = self.holds(now);
        if self.granted.has_lapsed(dir, now) {
            self.granted.give_back(dir);
            self.facts.drop_dir(dir);
        }
        if let Some(grant) = self.granted.of(dir, now) {
            return Some(Basis::Grant(grant));
        }
        if holds {
            return Some(Basis::Hold(self.period));
        }
        self.facts.drop_dir(dir);
        None
    }

    /// Forgets directories of which the read grants are given back.
    fn forget(&mut self, dirs: &[DirId]) {
        dirs.iter().for_each(|dir| self.facts.drop_dir(*dir));
    }

    fn take_session(&mut self, session: SessionId) {
        let dirs = self.granted.take_session(session);
        self.forget(&dirs);
    }

    fn answer(
        &mut self,
        dir: DirRef,
        request: &Request,
        alike: Option<AccessMask>,
        now: u64,
    ) -> Option<Result<Body, Refusal>> {
        if let Some(result) = self.facts.answer(dir, request) {
            return Some(result);
        }
        match &request.op {
            Op::DirAccess(_, access) if alike.is_some_and(|alike| access & !alike == 0) => {
                let may = self.facts.may_use(dir, &request.credentials, *access)?;
                may.then_some(Ok(Body::Done))
            }
            Op::Lookup(_, name) if alike.is_some_and(|alike| alike & SEARCH > 0) => {
                let may = self.facts.may_use(dir, &request.credentials, SEARCH)?;
                may.then(|| self.facts.leads(dir, name)).flatten()
            }
            Op::Parent(_) => {
                let (parent, name) = self.facts.place(dir)?;
                let is_still = self.changes.is_still(parent.id);
                let is_true = is_still && self.basis(parent.id, now).is_some();
                is_true.then_some(Ok(Body::Parent(parent, Some(name))))
            }
            _ => None,
        }
    }

    fn end(&mut self) {
        self.period += 1;
        self.until = 0;
        self.facts.clear();
    }

    fn begins(&mut self, request: &Request, now: u64) {
        let reach = self.reach_of(&request.op, now);
        let before = self.changes.begin(request.head.id, reach);
        if let Some(reach) = before {
            self.changed(&reach);
        }
    }

    /// What a change concerns, as far as that is known before it runs.
    fn reach_of(&mut self, op: &Op, now: u64) -> Reach {
        let reach = Reach::of(op);
        let further = match op {
            _ if !reach.is_wide => None,
            Op::Rmdir(dir, name) if self.changes.is_still(dir.id) => {
                self.basis(dir.id, now).and_then(|_| self.facts.child(*dir, name))
            }
            Op::DirSetAttr(dir, _) => {
                let parent = self.facts.place(*dir).map(|(parent, _)| parent.id);
                parent
                    .filter(|parent| self.changes.is_still(*parent))
                    .filter(|parent| self.basis(*parent, now).is_some())
            }
            _ => None,
        };
        match further {
            Some(dir) => reach.with(dir),
            None => reach,
        }
    }

    fn ends(&mut self, id: RequestId, reply: &Reply) {
        if let Some(reach) = self.changes.end(id) {
            self.changed(&reach.after(&reply.result));
        }
    }

    /// Forgets what a change concerns.
    fn changed(&mut self, reach: &Reach) {
        self.changes.note(reach);
        if is_planted!(RemembersChanged) {
            return;
        }
        match reach.is_wide {
            true => self.facts.clear(),
            false => reach.dirs.iter().for_each(|dir| self.facts.drop_dir(*dir)),
        }
    }

    fn learn(&mut self, fetch: Fetch, (request, reply): (&Request, &Reply), now: u64) {
        if self.basis(fetch.dir.id, now) == Some(fetch.basis)
            && self.changes.is_still_since(fetch.dir.id, fetch.change)
        {
            self.facts.learn(fetch.dir, request, &reply.result);
        }
    }
}

#[cfg(test)]
mod tests {
    use pando_types::hold::Said;
    use pando_types::op::{Head, RenameFlags};
    use pando_types::reply::{Access, Delta, DirAttr, Found, Layout, Listed, Refusal};
    use pando_types::{
        DirId, DirRef, Epoch, Errno, Ino, Lsn, Name, Order, PartitionIndex, Radix, SessionId,
        SetAttr, ShardIndex, Timestamp,
    };

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ME: SessionId = SessionId(5);
    const TOP: DirRef = DirRef { id: DirId([7; 16]), ino: Ino(70) };
    const OTHER: DirRef = DirRef { id: DirId([8; 16]), ino: Ino(80) };

    fn name(name: &str) -> Name {
        Name::new(name.as_bytes()).unwrap()
    }

    fn asks(sequence: u64, op: Op) -> Request {
        let id = RequestId { session: ME, slot: 0, sequence };
        let head = Head { id, ..Head::default() };
        Request { head, credentials: Credentials::ROOT, op, trail: None }
    }

    fn reply(result: Result<Body, Refusal>) -> Reply {
        Reply {
            id: RequestId::default(),
            trace: 0,
            shard: ShardIndex(0),
            epoch: Epoch(1),
            durable: Lsn(9),
            seen: Lsn(10),
            version: 0,
            clock: 0,
            result,
            news: None,
            amendment: None,
        }
    }

    fn file(ino: u64) -> Found {
        let time = Timestamp::default();
        Found::File(Attr {
            ino: Ino(ino),
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            data_version: 1,
            change: 1,
            project: 0,
        })
    }

    impl Memory {
        /// Asks a shard, which answers so.
        fn exchange(&self, request: &Request, now: u64, result: Result<Body, Refusal>) {
            let asked = self.sent(request, now);
            self.heard(asked, request.head.id, &reply(result), now);
        }

        fn holds(&self, now: u64) {
            let ask = asks(0, Op::Hold(ME, Holding::Ask(1)));
            self.exchange(&ask, now, Ok(Body::Holds(true)));
        }

        fn look(&self, now: u64) {
            self.exchange(&look(), now, Ok(Body::Found(file(71))));
        }

        fn knows(&self, request: &Request, now: u64) -> bool {
            self.answer(request, None, now).is_some()
        }
    }

    fn look() -> Request {
        asks(0, Op::Lookup(TOP, name("file")))
    }

    fn access() -> Request {
        asks(0, Op::DirAccess(TOP, 4))
    }

    fn create(dir: DirRef) -> Request {
        asks(1, Op::Unlink(dir, name("other")))
    }

    #[test]
    fn an_answer_is_given_again_while_the_session_holds() {
        let memory = Memory::default();
        memory.look(0);
        assert!(!memory.knows(&look(), 0), "nothing is remembered without a hold");
        memory.holds(SECOND);
        memory.look(SECOND);
        assert_eq!(memory.answer(&look(), None, SECOND), Some(Ok(Body::Found(file(71)))));
        // What was asked before the time was prolonged is as good.
        memory.holds(3 * SECOND);
        assert!(memory.knows(&look(), 6 * SECOND));
        assert!(!memory.knows(&look(), 7 * SECOND));
        memory.holds(8 * SECOND);
        assert!(!memory.knows(&look(), 8 * SECOND), "another one may have written");
    }

    #[test]
    fn whoever_ends_the_hold_ends_the_memory() {
        let end = || asks(0, Op::Hold(ME, Holding::End(Said::default())));
        let recall = || asks(0, Op::Hold(ME, Holding::Await));
        let ask = || asks(0, Op::Hold(ME, Holding::Ask(2)));
        for (ends, result) in [
            (end(), Ok(Body::Done)),
            (recall(), Ok(Body::Holds(false))),
            (recall(), Ok(Body::Done)),
            (ask(), Ok(Body::Holds(false))),
            (ask(), Err(Refusal::Errno(Errno::EIO))),
        ] {
            let memory = Memory::default();
            memory.holds(0);
            memory.look(0);
            memory.exchange(&recall(), 0, Ok(Body::Holds(true)));
            let under_way = memory.sent(&look(), 0);
            assert!(memory.knows(&look(), 0));
            memory.exchange(&ends, 0, result);
            assert!(!memory.knows(&look(), 0), "{ends:?}");
            memory.holds(0);
            // It was asked before.
            memory.heard(under_way, look().head.id, &reply(Ok(Body::Found(file(71)))), 0);
            assert!(!memory.knows(&look(), 0), "{ends:?}");
        }
    }

    #[test]
    fn a_change_ends_what_it_concerns_from_its_beginning() {
        let memory = Memory::default();
        memory.holds(0);
        memory.look(0);
        memory.exchange(&create(OTHER), 0, Ok(Body::Done));
        assert!(memory.knows(&look(), 0));
        let change = memory.sent(&create(TOP), 0);
        assert!(!memory.knows(&look(), 0));
        // Answered before the change, or after it: nobody knows.
        memory.look(0);
        let early = memory.sent(&look(), 0);
        memory.heard(change, create(TOP).head.id, &reply(Ok(Body::Done)), 0);
        memory.heard(early, look().head.id, &reply(Ok(Body::Found(file(71)))), 0);
        assert!(!memory.knows(&look(), 0));
        memory.look(0);
        assert!(memory.knows(&look(), 0));
        memory.changed_here(&create(TOP).op, &reply(Ok(Body::Done)));
        assert!(!memory.knows(&look(), 0));
    }

    #[test]
    fn contents_that_came_along_are_told_again_until_the_directory_changes() {
        let memory = Memory::default();
        let Found::File(attr) = file(71) else { panic!("a file") };
        let layout = |ino: u64| Layout {
            attr: Attr { ino: Ino(ino), ..attr.clone() },
            is_inline: true,
            inline: b"text".to_vec(),
            slices: Vec::new(),
            until: u64::MAX,
        };
        let read = |ino: u64| {
            let file = FileRef { ino: Ino(ino), at: FileAt::Name(TOP, name("file")) };
            asks(0, Op::ReadData { file, offset: 0, len: 9 })
        };
        let along = || memory.reads_along(&read(71), Order(5), 0);
        memory.holds(0);
        assert_eq!((along(), along()), (None, None), "nobody has listed the directory");
        let list = asks(0, Op::ReadDir { dir: TOP, from: Order(0), limit: 64 });
        let listed = Listed { order: Order(5), name: name("file"), found: file(71) };
        memory.exchange(&list, 0, Ok(Body::Page(vec![listed], None)));
        assert_eq!((along(), along()), (None, Some(Order(5))), "the second one that is read");
        assert_eq!(along(), None, "it is under way");
        let files = asks(0, Op::ReadFiles { dir: TOP, from: Order(0), bytes: 99 });
        let told = Body::Files(vec![(name("file"), layout(71))], Order(9));
        memory.exchange(&files, 0, Ok(told));
        memory.has_read(TOP.id, true, 0);
        assert_eq!(memory.answer(&read(71), None, 0), Some(Ok(Body::Layout(layout(71)))));
        assert!(!memory.knows(&read(72), 0), "another file of that name");
        let by_another = Request { credentials: Credentials::new(5, 5, vec![]), ..read(71) };
        assert!(!memory.knows(&by_another, 0));
        assert_eq!(along(), None, "it was asked for");
        assert_eq!(memory.reads_along(&read(71), Order(9), 0), Some(Order(9)), "it goes on there");
        let write = Op::WriteData {
            file: FileRef { ino: Ino(71), at: FileAt::Name(TOP, name("file")) },
            base: None,
            pieces: Vec::new(),
            mtime: None,
            kill: None,
        };
        memory.exchange(&asks(1, write), 0, Ok(Body::Done));
        assert!(!memory.knows(&read(71), 0));
    }

    #[test]
    fn a_change_that_is_not_answered_never_ends() {
        let memory = Memory::default();
        memory.holds(0);
        drop(memory.sent(&create(TOP), 0));
        memory.look(0);
        assert!(!memory.knows(&look(), 0));
        // It was resolved, since its slot is used again.
        memory.exchange(&asks(2, create(OTHER).op), 0, Ok(Body::Done));
        memory.look(0);
        assert!(memory.knows(&look(), 0));
    }

    #[test]
    fn a_directory_that_moves_or_goes_ends_everything_and_a_file_does_not() {
        let rename = || {
            let (from, to, flags) = (OTHER, OTHER, Default::default());
            let (name, new_name) = (name("a"), name("b"));
            asks(1, Op::Rename { from, name, to, new_name, flags })
        };
        let moved = |kind| Ok(Body::Moved(Ino(9), kind, false));
        let chmod = pando_types::SetAttr { mode: Some(0o700), ..Default::default() };
        for (change, result, stays) in [
            (rename(), moved(FileKind::Regular), true),
            (rename(), moved(FileKind::Directory), false),
            (asks(1, Op::Rmdir(OTHER, name("a"))), Ok(Body::Done), false),
            (asks(1, Op::Rmdir(OTHER, name("a"))), Err(Refusal::Errno(Errno::ENOTEMPTY)), true),
            (asks(1, Op::DirSetAttr(OTHER, chmod)), Ok(Body::Done), false),
            (asks(1, Op::DirSetAttr(OTHER, Default::default())), Ok(Body::Done), true),
        ] {
            let memory = Memory::default();
            memory.holds(0);
            memory.look(0);
            let asked = memory.sent(&change, 0);
            assert!(memory.knows(&look(), 0) != asks_for_all(&change), "{change:?}");
            memory.heard(asked, change.head.id, &reply(result), 0);
            assert_eq!(memory.knows(&look(), 0), stays, "{change:?}");
        }
    }

    fn asks_for_all(request: &Request) -> bool {
        Reach::of(&request.op).is_wide
    }

    #[test]
    fn a_listing_tells_what_its_names_lead_to_once_the_caller_was_let_in() {
        let memory = Memory::default();
        memory.holds(0);
        let listed = |at, of: &str, found| Listed { order: Order(at), name: name(of), found };
        let linked = Found::Linked(Ino(73), FileKind::Regular);
        let entries = vec![
            listed(1, "one", file(71)),
            listed(2, "two", file(72)),
            listed(3, "three", linked),
        ];
        let list = asks(0, Op::ReadDir { dir: TOP, from: Order(0), limit: 100 });
        memory.exchange(&list, 0, Ok(Body::Page(entries.clone(), None)));
        assert_eq!(memory.answer(&list, None, 0), Some(Ok(Body::Page(entries, None))));
        let look = |of| asks(0, Op::Lookup(TOP, name(of)));
        assert!(!memory.knows(&look("two"), 0), "whoever may list may not search");
        memory.exchange(&look("one"), 0, Ok(Body::Found(file(71))));
        assert_eq!(memory.answer(&look("two"), None, 0), Some(Ok(Body::Found(file(72)))));
        assert!(!memory.knows(&look("three"), 0), "its inode may come back");
        let other = Request { credentials: Credentials::new(9, 9, vec![]), ..look("two") };
        assert!(!memory.knows(&other, 0), "another caller was not let in");
        let other = Request { credentials: Credentials::new(9, 9, vec![]), ..list };
        assert!(!memory.knows(&other, 0));
        // What does not exist, and what may be lost.
        memory.exchange(&look("none"), 0, Err(Refusal::Errno(Errno::ENOENT)));
        assert_eq!(memory.answer(&look("none"), None, 0), Some(Err(Refusal::Errno(Errno::ENOENT))));
        let asked = memory.sent(&access(), 0);
        let lost = Reply { seen: Lsn(11), ..reply(Ok(Body::Done)) };
        memory.heard(asked, access().head.id, &lost, 0);
        assert!(!memory.knows(&access(), 0));
    }

    fn directory(dir: DirRef, mode: u16) -> Body {
        let Found::File(attr) = file(dir.ino.0) else { unreachable!("it is one") };
        let base = Attr { kind: FileKind::Directory, mode, ..attr };
        let delta = Delta {
            partition: PartitionIndex(0),
            radix: Radix(0),
            shard: ShardIndex(0),
            entries: 1,
            subdirs: 1,
            change: 1,
            mtime: Timestamp::default(),
            generation: 0,
        };
        Body::Dir(DirAttr { base, generation: 0, deltas: vec![delta], history: Default::default() })
    }

    /// A listing of the top, of which `below` leads to the other directory.
    fn lists(memory: &Memory) {
        let list = asks(0, Op::ReadDir { dir: TOP, from: Order(0), limit: 64 });
        let found = Found::Dir(Access { dir: OTHER, mode: 0o755, uid: 0, gid: 0 });
        let listed = Listed { order: Order(1), name: name("below"), found };
        memory.exchange(&list, 0, Ok(Body::Page(vec![listed], None)));
    }

    #[test]
    fn attributes_of_a_directory_tell_who_may_use_it() {
        let by =
            |uid, op| Request { credentials: Credentials::new(uid, uid, vec![]), ..asks(0, op) };
        let open = |uid| by(uid, Op::DirAccess(TOP, 4));
        let look = |uid| by(uid, Op::Lookup(TOP, name("below")));
        for (mode, alike, user_lists, user_searches) in [
            (0o755, Some(7), true, true),
            (0o711, Some(7), false, true),
            (0o744, Some(7), true, false),
            (0o700, Some(7), false, false),
            // Only reads are judged alike, or nothing is.
            (0o755, Some(4), true, false),
            (0o755, None, false, false),
        ] {
            let memory = Memory::default();
            memory.holds(0);
            lists(&memory);
            assert_eq!(memory.answer(&open(0), alike, 0), None, "no attributes are known");
            memory.exchange(&asks(0, Op::DirGetAttr(TOP)), 0, Ok(directory(TOP, mode)));
            let may = |request: &Request| memory.answer(request, alike, 0).is_some();
            assert_eq!((may(&open(5)), may(&look(5))), (user_lists, user_searches), "{mode:o}");
            assert_eq!(may(&open(0)), alike.is_some());
            // A change of it is under way.
            let chmod = SetAttr { mode: Some(0o700), ..Default::default() };
            let chmod = asks(1, Op::DirSetAttr(TOP, chmod));
            let asked = memory.sent(&chmod, 0);
            assert!(!may(&open(0)) && !may(&look(0)));
            memory.heard(asked, chmod.head.id, &reply(Ok(Body::Done)), 0);
            assert!(!may(&open(0)) && !may(&look(0)), "its attributes are others now");
        }
    }

    #[test]
    fn a_listing_tells_where_its_directories_are() {
        let parent = asks(0, Op::Parent(OTHER));
        let told = Some(Ok(Body::Parent(TOP, Some(name("below")))));
        let memory = Memory::default();
        memory.holds(0);
        assert_eq!(memory.answer(&parent, None, 0), None);
        lists(&memory);
        assert_eq!(memory.answer(&parent, None, 0), told);
        let anew = asks(0, Op::Parent(DirRef { ino: Ino(99), ..OTHER }));
        assert_eq!(memory.answer(&anew, None, 0), None, "it is another directory");
        // A change of names in the parent: it is under way, and then done.
        let asked = memory.sent(&create(TOP), 0);
        assert_eq!(memory.answer(&parent, None, 0), None);
        memory.heard(asked, create(TOP).head.id, &reply(Ok(Body::Done)), 0);
        assert_eq!(memory.answer(&parent, None, 0), None);
        lists(&memory);
        assert_eq!(memory.answer(&parent, None, 0), told);
        assert_eq!(memory.answer(&parent, None, 5 * SECOND), None, "it does not hold any more");
    }

    /// What a known directory's removal or change of mode concerns is known, too.
    #[test]
    fn a_change_of_a_known_directory_leaves_the_others_known() {
        let far = DirRef { id: DirId([9; 16]), ino: Ino(90) };
        let far_look = || asks(0, Op::Lookup(far, name("file")));
        let chmod = SetAttr { mode: Some(0o700), ..Default::default() };
        for change in [Op::Rmdir(TOP, name("below")), Op::DirSetAttr(OTHER, chmod)] {
            for is_known in [true, false] {
                let memory = Memory::default();
                memory.holds(0);
                if is_known {
                    lists(&memory);
                }
                memory.exchange(&asks(0, Op::DirGetAttr(OTHER)), 0, Ok(directory(OTHER, 0o755)));
                memory.exchange(&far_look(), 0, Ok(Body::Found(file(71))));
                memory.exchange(&asks(1, change.clone()), 0, Ok(Body::Done));
                assert_eq!(memory.knows(&far_look(), 0), is_known, "{change:?}");
                assert!(!memory.knows(&asks(0, Op::DirGetAttr(OTHER)), 0), "{change:?}");
                assert!(!memory.knows(&asks(0, Op::Lookup(TOP, name("below"))), 0));
            }
        }
    }

    #[test]
    fn a_directory_that_was_made_anew_is_another_one() {
        let memory = Memory::default();
        memory.holds(0);
        memory.look(0);
        let anew = DirRef { ino: Ino(99), ..TOP };
        let look_anew = asks(0, Op::Lookup(anew, name("file")));
        assert!(!memory.knows(&look_anew, 0));
        memory.exchange(&look_anew, 0, Err(Refusal::Errno(Errno::ESTALE)));
        assert!(memory.knows(&look(), 0), "nothing was learned");
        memory.exchange(&look_anew, 0, Ok(Body::Found(file(72))));
        assert_eq!(memory.answer(&look_anew, None, 0), Some(Ok(Body::Found(file(72)))));
        assert!(!memory.knows(&look(), 0));
    }

    #[test]
    fn names_that_change_places_end_what_is_known_of_directories() {
        let memory = Memory::default();
        memory.holds(0);
        let exchange = || {
            let (from, to, flags) =
                (OTHER, OTHER, RenameFlags { exchange: true, ..Default::default() });
            let (name, new_name) = (name("a-file"), name("a-directory"));
            asks(1, Op::Rename { from, name, to, new_name, flags })
        };
        memory.look(0);
        memory.exchange(&exchange(), 0, Ok(Body::Moved(Ino(9), FileKind::Regular, false)));
        assert!(!memory.knows(&look(), 0));
    }

    #[test]
    fn what_is_remembered_has_bounds() {
        let memory = Memory::default();
        memory.holds(0);
        for dir in 0..facts::MOST as u64 + 2 {
            let dir = DirRef { id: DirId(u128::from(dir).to_be_bytes()), ino: Ino(dir) };
            let caller = |uid| Credentials::new(uid, 9, vec![7; 1024]);
            for uid in 1..3 {
                let access = Op::DirAccess(dir, 4);
                let asked = Request { credentials: caller(uid), ..asks(0, access) };
                memory.exchange(&asked, 0, Err(Refusal::Errno(Errno::EACCES)));
                assert_eq!(memory.state.lock().facts.size(), 0, "a refusal teaches nothing");
            }
        }
        for dir in 0..facts::MOST as u64 {
            let dir = DirRef { id: DirId(u128::from(dir).to_be_bytes()), ino: Ino(dir) };
            let caller = Credentials::new(9, 9, vec![7; 1024]);
            let asked = Request { credentials: caller, ..asks(0, Op::DirAccess(dir, 4)) };
            memory.exchange(&asked, 0, Ok(Body::Done));
            memory.exchange(&asked, 0, Ok(Body::Done));
            assert!(memory.state.lock().facts.size() <= facts::MOST + 32);
        }
        memory.answer(&look(), None, 5 * SECOND);
        assert_eq!(memory.state.lock().facts.size(), 0, "the hold has lapsed");
    }
}
