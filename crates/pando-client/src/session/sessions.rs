//! The client's sessions, one after the other: the current one, and the way to the next when a
//! shard says that it is over.
//!
//! ```text
//!            NoSession, to the current one            the first that needs one
//!   Live ─────────────────────────────────► Over ─────────────────────────────► Reopening
//!    ▲ │                                     ▲             given up                 │
//!    │ └──close──► Closed                    └──────────────────────────────────────┤
//!    └──────────────────── next session, and what is open was opened in it ─────────┘
//! ```
//!
//! 1. One caller at a time opens the next session; all others wait for it.
//! 2. A session that was over is never current again. Answers to requests that were sent in it
//!    still count.
//! 3. Open files are opened in the next session *before* any other request is made in it. Else this
//!    client itself could remove a file that it has open.
//! 4. Whether an open counts in the current session is decided under this lock. So the caller that
//!    opens files anew misses none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pando_types::{Epoch, SessionId};
use parking_lot::{RwLock, RwLockReadGuard};

use crate::session::slots::Slots;
use crate::session::stance::Stance;
use crate::transport::waiting::Waiting;

/// A session, its slots, and whether it writes.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) slots: Slots,
    pub(crate) stance: Stance,
}

impl Session {
    /// A session that shard 0 has begun in `epoch`.
    pub(crate) fn new(id: SessionId, slots: u16, epoch: Epoch) -> Arc<Self> {
        Arc::new(Self { id, slots: Slots::new(slots), stance: Stance::new(epoch) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Live,
    Over,
    Reopening,
    Closed,
}

/// What needs a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The task that drives `maintain`.
    Maintain,
    /// A call.
    Call,
}

/// The client's sessions.
pub(crate) struct Sessions {
    state: RwLock<State>,
    /// Id of the newest session, to be read without the lock.
    id: AtomicU64,
    is_closed: AtomicBool,
    /// Number of tasks that drive `maintain`. Such a task opens the next session, without a
    /// deadline.
    maintainers: AtomicUsize,
    waiting: Waiting,
}

/// The phase, and the sessions it concerns.
pub(crate) struct State {
    phase: Phase,
    current: Arc<Session>,
    /// The session that is being prepared.
    next: Option<Arc<Session>>,
}

/// What a caller gets that needs a session.
pub(crate) enum Need<'a> {
    /// The current session.
    Has(Arc<Session>),
    /// The task to open a session, as there is none.
    Leads(Lead<'a>),
    /// The client is closed.
    Closed,
}

impl Sessions {
    /// Begins without a session.
    pub(crate) fn new() -> Self {
        Self {
            state: RwLock::new(State {
                phase: Phase::Over,
                current: Session::new(SessionId(0), 0, Epoch::default()),
                next: None,
            }),
            id: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            maintainers: AtomicUsize::new(0),
            waiting: Waiting::default(),
        }
    }

    /// The newest session's id, whether the session is over or not.
    pub(crate) fn id(&self) -> SessionId {
        SessionId(self.id.load(Ordering::Relaxed))
    }

    /// The session `id`; `None` if it is over, and with it all its opens.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.state().find(id)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The present state, which cannot change while the guard is held.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Notes that `session` is over. True if it was the current one until now.
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
            self.waiting.wake();
        }
        is_news
    }

    /// The current session, if there is one. Every changing request takes it from here.
    pub(crate) fn live(&self) -> Option<Arc<Session>> {
        self.state.read().live().cloned()
    }

    /// Waits for a session, or for the task to open one. If `maintain` is driven, only that gets
    /// the task.
    pub(crate) async fn need(&self, asker: Asker) -> Need<'_> {
        self.waiting
            .when(|| {
                if let Some(session) = self.live() {
                    return Some(Need::Has(session));
                }
                let mut state = self.state.write();
                match state.phase {
                    Phase::Closed => Some(Need::Closed),
                    Phase::Over
                        if asker == Asker::Maintain
                            || self.maintainers.load(Ordering::Acquire) == 0 =>
                    {
                        state.phase = Phase::Reopening;
                        Some(Need::Leads(Lead { sessions: self, is_done: false }))
                    }
                    _ => None,
                }
            })
            .await
    }

    /// Ready when `session` is over, or no longer the current one.
    pub(crate) async fn gone(&self, session: SessionId) {
        self.waiting.when(|| (!self.state.read().is_live(session)).then_some(())).await;
    }

    /// Ready when the client is closed.
    pub(crate) async fn closed(&self) {
        self.waiting.when(|| self.is_closed().then_some(())).await;
    }

    /// Ready when no session is being opened. Returns the session to end, if there is one.
    pub(crate) async fn to_end(&self) -> Option<Arc<Session>> {
        self.waiting
            .when(|| {
                let state = self.state.read();
                (state.phase != Phase::Reopening).then(|| state.live().cloned())
            })
            .await
    }

    /// Closes the client: no request is made any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let mut state = self.state.write();
        state.phase = Phase::Closed;
        state.current.slots.close();
        drop(state);
        self.waiting.wake();
    }

    /// Says that a task drives `maintain`, until the result is dropped.
    pub(crate) fn maintained(&self) -> Maintained<'_> {
        self.maintainers.fetch_add(1, Ordering::AcqRel);
        Maintained(self)
    }
}

impl State {
    fn live(&self) -> Option<&Arc<Session>> {
        (self.phase == Phase::Live).then_some(&self.current)
    }

    /// Whether `session` is the current one, and not over as far as is known.
    pub(crate) fn is_live(&self, session: SessionId) -> bool {
        self.phase == Phase::Live && self.current.id == session
    }

    /// The session, if opens in it may still count: the current one, or the one being prepared.
    pub(crate) fn find(&self, session: SessionId) -> Option<Arc<Session>> {
        let known = self.live().into_iter().chain(&self.next);
        known.into_iter().find(|known| known.id == session).cloned()
    }
}

/// The task to open the next session. If it is dropped undone, another caller gets it.
pub(crate) struct Lead<'a> {
    sessions: &'a Sessions,
    is_done: bool,
}

impl Lead<'_> {
    /// Notes the session that is being prepared, instead of an earlier one.
    pub(crate) fn prepare(&self, next: &Arc<Session>) {
        self.sessions.state.write().next = Some(next.clone());
    }

    /// Makes the prepared session the current one; false if it is over by now.
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
        self.sessions.waiting.wake();
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
        self.sessions.waiting.wake();
    }
}

/// Says that a task drives `maintain` ([`Sessions::maintained`]).
pub(crate) struct Maintained<'a>(&'a Sessions);

impl Drop for Maintained<'_> {
    fn drop(&mut self) {
        self.0.maintainers.fetch_sub(1, Ordering::AcqRel);
        self.0.waiting.wake();
    }
}
