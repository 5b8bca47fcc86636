//! Changing requests in doubt: they were given up while it was unknown whether they ran. Their
//! callers ran out of patience, or dropped them.
//!
//! [`Client::maintain`](crate::Client::maintain) keeps sending such a request, with its own
//! identity, until its owner answers. Until then:
//!
//! 1. Its slot is not used. A copy may be on its way, and a shard remembers one sequence for each
//!    slot. A shard that has not seen the slot's next request would run a late copy after it. One
//!    that has seen it would refuse this request unread.
//! 2. No further request of this client changes what it changes. Such a request waits, within its
//!    own caller's patience. Else a write that was given up could land on top of a later one that
//!    has succeeded.
//! 3. A file that it may be moving is looked for patiently ([`crate::nodes::renames`]).
//!
//! The answer settles the rest. The node table is told of a file that moved, and an open that no
//! caller has is released.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use pando_types::op::{FileAt, FileRef, Op, Target};
use pando_types::{Credentials, DirRef, Ino, Name, Trail};
use parking_lot::Mutex;

use crate::session::sessions::Session;
use crate::session::slots::Slot;

/// A request in doubt.
pub(crate) struct Doubt {
    pub(crate) session: Arc<Session>,
    pub(crate) slot: Slot,
    pub(crate) credentials: Credentials,
    pub(crate) op: Op,
    /// The trail it was sent with: a late copy must not run by another path.
    pub(crate) trail: Option<Trail>,
}

/// A thing that a request changes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Subject {
    Name(DirRef, Name),
    Inode(Ino),
    Locks(Ino),
}

/// All doubts of a client.
#[derive(Default)]
pub(crate) struct Doubts {
    /// Number of doubts, to be read without the lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    numbers: u64,
    /// What each request changes, and whether it is a rename.
    subjects: BTreeMap<u64, (Vec<Subject>, bool)>,
    /// Requests that no task sends at present.
    idle: Vec<(u64, Doubt)>,
    /// Wakes the task that sends them.
    sender: Option<Waker>,
    /// Wakes the requests that wait for a doubt to end.
    waiting: Vec<Waker>,
}

impl Doubts {
    pub(crate) fn add(&self, doubt: Doubt) {
        let mut state = self.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        let moves = matches!(doubt.op, Op::Rename { .. });
        state.subjects.insert(number, (subjects(&doubt.op), moves));
        self.count.store(state.subjects.len(), Ordering::Release);
        state.idle.push((number, doubt));
        wake(state.sender.take());
    }

    /// Takes those that no task sends; `context` is woken when there are more.
    pub(crate) fn take(&self, context: &Context<'_>) -> Vec<Taken<'_>> {
        let mut state = self.state.lock();
        state.sender = Some(context.waker().clone());
        let taken = std::mem::take(&mut state.idle).into_iter();
        taken.map(|(number, doubt)| Taken { doubts: self, number, doubt: Some(doubt) }).collect()
    }

    /// Number of requests in doubt.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Ready when no request in doubt changes anything that `op` changes.
    pub(crate) async fn clear_of(&self, op: &Op) {
        if self.count() == 0 || is_planted!(DoubtIgnored) {
            return;
        }
        let mine = subjects(op);
        if mine.is_empty() {
            return;
        }
        poll_fn(|context| {
            let mut state = self.state.lock();
            let meets =
                |(theirs, _): &(Vec<Subject>, bool)| theirs.iter().any(|s| mine.contains(s));
            if !state.subjects.values().any(meets) {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Whether a request in doubt may have moved the file that is not at `at`.
    pub(crate) fn may_move(&self, at: &FileAt) -> bool {
        let FileAt::Name(dir, name) = at else { return false };
        if self.count() == 0 {
            return false;
        }
        let it = Subject::Name(*dir, name.clone());
        let state = self.state.lock();
        state.subjects.values().any(|(subjects, moves)| *moves && subjects.contains(&it))
    }

    fn settled(&self, number: u64) {
        let mut state = self.state.lock();
        state.subjects.remove(&number);
        self.count.store(state.subjects.len(), Ordering::Release);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// A doubt that a task is sending. If it is dropped, the next call of [`Doubts::take`] gets the
/// doubt again.
pub(crate) struct Taken<'a> {
    doubts: &'a Doubts,
    number: u64,
    doubt: Option<Doubt>,
}

impl Taken<'_> {
    pub(crate) fn doubt(&self) -> &Doubt {
        self.doubt.as_ref().unwrap_or_else(|| unreachable!("it is there until it is settled"))
    }

    /// Ends the doubt: it has its answer, and all that follows from it is done.
    pub(crate) fn settled(mut self) {
        if let Some(doubt) = self.doubt.take() {
            doubt.session.slots.free(doubt.slot);
            self.doubts.settled(self.number);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(doubt) = self.doubt.take() {
            // The sender is not woken: it could not send this request a moment ago.
            self.doubts.state.lock().idle.push((self.number, doubt));
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// What `op` changes that another request may change too, so that their order matters. Opens and
/// releases only count.
fn subjects(op: &Op) -> Vec<Subject> {
    let name = |dir: &DirRef, name: &Name| Subject::Name(*dir, name.clone());
    let inode = |file: &FileRef| Subject::Inode(file.ino);
    match op {
        Op::Create { dir, name: at, .. }
        | Op::Mkdir(dir, at, _)
        | Op::Unlink(dir, at)
        | Op::Rmdir(dir, at)
        | Op::OpenName { dir, name: at, truncate: true, .. } => vec![name(dir, at)],
        Op::Link(file, dir, at) => vec![inode(file), name(dir, at)],
        Op::Rename { from, name: old, to, new_name, .. } => {
            vec![name(from, old), name(to, new_name)]
        }
        Op::SetAttr(file, _)
        | Op::WriteData { file, .. }
        | Op::Open { file, truncate: true, .. }
        | Op::SetXattr { target: Target::File(file), .. }
        | Op::RemoveXattr(Target::File(file), _) => vec![inode(file)],
        Op::Lock(ino, _) | Op::Unlock(ino, ..) => vec![Subject::Locks(*ino)],
        Op::LockOf(target, _) => vec![Subject::Locks(target.ino())],
        Op::DirSetAttr(dir, _)
        | Op::SetXattr { target: Target::Dir(dir), .. }
        | Op::RemoveXattr(Target::Dir(dir), _) => vec![Subject::Inode(dir.ino)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_on;
    use pando_types::{Epoch, SessionId, SetAttr};
    use std::pin::pin;

    const DIR: DirRef = DirRef::ROOT;

    fn called(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("valid")
    }

    fn doubt(session: &Arc<Session>, op: Op) -> Doubt {
        let slot = block_on(session.slots.acquire()).expect("free");
        Doubt { session: session.clone(), slot, credentials: Credentials::ROOT, op, trail: None }
    }

    fn is_clear(doubts: &Doubts, op: &Op) -> bool {
        let mut clear = pin!(doubts.clear_of(op));
        clear.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn what_is_in_doubt_is_not_changed_until_it_is_settled() {
        let session = Session::new(SessionId(1), 1, Epoch::default());
        let doubts = Doubts::default();
        let (a, b) = (called("a"), called("b"));
        let op = Op::Rename {
            from: DIR,
            name: a.clone(),
            to: DIR,
            new_name: b.clone(),
            flags: Default::default(),
        };
        doubts.add(doubt(&session, op));
        let file = |name| FileAt::Name(DIR, name);
        assert!(doubts.may_move(&file(a.clone())) && doubts.may_move(&file(b.clone())));
        assert!(!is_clear(&doubts, &Op::Unlink(DIR, b.clone())));
        assert!(is_clear(&doubts, &Op::Unlink(DIR, called("c"))));
        let context = &Context::from_waker(Waker::noop());
        drop(doubts.take(context));
        assert_eq!(doubts.count(), 1, "whoever sent it is gone, it is not");
        let taken = doubts.take(context).pop().expect("still there");
        assert!(doubts.take(context).is_empty());
        taken.settled();
        assert!(is_clear(&doubts, &Op::Unlink(DIR, b)) && !doubts.may_move(&file(a)));
        assert_eq!(block_on(session.slots.acquire()).map(|slot| slot.sequence), Ok(2));
    }

    #[test]
    fn opens_and_releases_of_a_file_wait_for_nothing() {
        let session = Session::new(SessionId(1), 1, Epoch::default());
        let doubts = Doubts::default();
        let file = FileRef { ino: Ino(7), at: FileAt::Link };
        doubts.add(doubt(&session, Op::SetAttr(file.clone(), SetAttr::default())));
        let open = |truncate| Op::Open { file: file.clone(), access: 0, truncate, kill: None };
        assert!(is_clear(&doubts, &open(false)) && is_clear(&doubts, &Op::Release(file.clone())));
        assert!(!is_clear(&doubts, &open(true)));
    }
}
