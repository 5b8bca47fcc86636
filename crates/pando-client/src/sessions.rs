//! The client's sessions, one after the other: the one it has, and the way to the next when a shard
//! says that it is over.
//!
//! ```text
//!            NoSession, to the current one            the first that needs it
//!   Live ─────────────────────────────────► Over ─────────────────────────────► Reopening
//!    ▲ │                                     ▲             given up                 │
//!    │ └──close──► Closed                    └──────────────────────────────────────┤
//!    └──────────────────── next session, and what is open was opened in it ─────────┘
//! ```
//!
//! 1. One at a time opens the next session; all others wait for it.
//! 2. A session that was over is never current again. What was sent in it is still waited for: an
//!    answer is an answer.
//! 3. Files that are open are opened anew in the next session *before* any other request is made in
//!    it: else this client itself could remove what it holds open.
//! 4. Whether an open counts in the current session is decided under this lock, so that none is
//!    missed by who opens anew.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use pando_types::SessionId;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::slots::Slots;

/// A session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) slots: Slots,
}

impl Session {
    pub(crate) fn new(id: SessionId, slots: u16) -> Arc<Self> {
        Arc::new(Self { id, slots: Slots::new(slots) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Live,
    Over,
    Reopening,
    Closed,
}

/// See the module.
pub(crate) struct Sessions {
    state: RwLock<State>,
    /// Id of the current session, to be read without the lock.
    id: AtomicU64,
    is_closed: AtomicBool,
    /// Who drives `maintain`, and so opens the next session with all the time it takes.
    maintainers: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

/// What is the case now.
pub(crate) struct State {
    phase: Phase,
    current: Arc<Session>,
    /// The one that is being prepared.
    next: Option<Arc<Session>>,
}

/// What there is for who needs a session.
pub(crate) enum Need<'a> {
    /// This one.
    Has(Arc<Session>),
    /// None: it is up to the caller to open one.
    Leads(Lead<'a>),
    /// The client is closed.
    Closed,
}

impl Sessions {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            state: RwLock::new(State {
                phase: Phase::Over,
                current: Session::new(SessionId(0), 0),
                next: None,
            }),
            id: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            maintainers: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }

    /// The newest session's id, over or not.
    pub(crate) fn id(&self) -> SessionId {
        SessionId(self.id.load(Ordering::Relaxed))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// What is the case, and stays so while the guard is held.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// A shard said that `session` is over; whether that is news of the current one.
    pub(crate) fn over(&self, session: SessionId) -> bool {
        let mut state = self.state.write();
        for known in state.next.iter().chain([&state.current]) {
            if known.id == session {
                known.slots.close();
            }
        }
        let is_news = state.is_live(session);
        if is_news {
            state.phase = Phase::Over;
            drop(state);
            self.notify();
        }
        is_news
    }

    /// The current session, if there is one: the road of every request.
    pub(crate) fn live(&self) -> Option<Arc<Session>> {
        self.state.read().live().cloned()
    }

    /// Waits for a session, or for the task to open one: `maintains` says who asks, as others leave
    /// it to that one.
    pub(crate) async fn need(&self, maintains: bool) -> Need<'_> {
        self.when(|| {
            if let Some(session) = self.live() {
                return Some(Need::Has(session));
            }
            let mut state = self.state.write();
            match state.phase {
                Phase::Closed => Some(Need::Closed),
                Phase::Over if maintains || self.maintainers.load(Ordering::Acquire) == 0 => {
                    state.phase = Phase::Reopening;
                    Some(Need::Leads(Lead { sessions: self, is_done: false }))
                }
                _ => None,
            }
        })
        .await
    }

    /// Ready when `session` is no longer the current one, or over.
    pub(crate) async fn gone(&self, session: SessionId) {
        self.when(|| (!self.state.read().is_live(session)).then_some(())).await;
    }

    /// Ready when the client is closed.
    pub(crate) async fn closed(&self) {
        self.when(|| self.is_closed().then_some(())).await;
    }

    /// Ready when nobody opens a session: the one to end, if there is one.
    pub(crate) async fn to_end(&self) -> Option<Arc<Session>> {
        self.when(|| {
            let state = self.state.read();
            (state.phase != Phase::Reopening).then(|| state.live().cloned())
        })
        .await
    }

    /// No request is made any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let mut state = self.state.write();
        state.phase = Phase::Closed;
        state.current.slots.close();
        drop(state);
        self.notify();
    }

    /// Somebody drives `maintain`, until this is dropped.
    pub(crate) fn maintained(&self) -> Maintained<'_> {
        self.maintainers.fetch_add(1, Ordering::AcqRel);
        Maintained(self)
    }

    async fn when<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(found) = look() {
                return Poll::Ready(found);
            }
            {
                let mut waiting = self.waiting.lock();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
            }
            // It may have come about before the waker was on the list.
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn notify(&self) {
        let woken = std::mem::take(&mut *self.waiting.lock());
        woken.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn live(&self) -> Option<&Arc<Session>> {
        (self.phase == Phase::Live).then_some(&self.current)
    }

    /// Whether this is the current session, and not over as far as is known.
    pub(crate) fn is_live(&self, session: SessionId) -> bool {
        self.phase == Phase::Live && self.current.id == session
    }

    /// The session, if opens in it may still count: the current one, or the one being prepared.
    pub(crate) fn find(&self, session: SessionId) -> Option<Arc<Session>> {
        let known = self.live().into_iter().chain(&self.next);
        known.into_iter().find(|known| known.id == session).cloned()
    }
}

/// The task to open the next session. Dropped undone, it is somebody else's.
pub(crate) struct Lead<'a> {
    sessions: &'a Sessions,
    is_done: bool,
}

impl Lead<'_> {
    /// This one is being prepared; an earlier one is not.
    pub(crate) fn prepare(&self, next: &Arc<Session>) {
        self.sessions.state.write().next = Some(next.clone());
    }

    /// What was prepared is the current session from now on; false if it is over by now.
    pub(crate) fn install(&mut self) -> bool {
        let mut state = self.sessions.state.write();
        let Some(next) = state.next.take() else { return false };
        if state.phase != Phase::Reopening || next.slots.is_closed() {
            return false;
        }
        self.sessions.id.store(next.id.0, Ordering::Relaxed);
        state.current = next;
        state.phase = Phase::Live;
        self.is_done = true;
        drop(state);
        self.sessions.notify();
        true
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.sessions.state.write();
        state.next = None;
        if state.phase == Phase::Reopening {
            state.phase = Phase::Over;
        }
        drop(state);
        self.sessions.notify();
    }
}

/// See [`Sessions::maintained`].
pub(crate) struct Maintained<'a>(&'a Sessions);

impl Drop for Maintained<'_> {
    fn drop(&mut self) {
        self.0.maintainers.fetch_sub(1, Ordering::AcqRel);
        self.0.notify();
    }
}
