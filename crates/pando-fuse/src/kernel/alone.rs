//! The state of being alone on the volume: the session asks for it, uses it, and gives it up before
//! another session begins (docs/design/alone.md).
//!
//! ```text
//!   several ──shard 0 says yes──► alone ──another session wants to begin──► nothing more is told with a timeout,
//!      ▲                                                                     the kernel forgets names and attributes
//!      └───────────────────── shard 0 hears of it ◄─────────────────────────────────┘
//! ```

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use super::adaptor::Inner;
use crate::device::{Notifier, has_submounts};

/// How often a session that is not alone asks to be.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Pauses between further rounds in which the kernel forgets all attributes. A thread may take in a
/// node after the first round, from an answer that was sent before the recall.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// Runs the thread that keeps a session alone. The thread ends when this is dropped.
pub(crate) struct Keeper {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Ending {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Keeper {
    pub(super) fn start(inner: &Arc<Inner>) -> std::io::Result<Self> {
        let ending = Arc::new(Ending::default());
        let (inner, told) = (Arc::clone(inner), Arc::clone(&ending));
        let keep = move || {
            while !told.is_ended() {
                inner.be_alone(&told);
                told.sleep(ASK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("pando-alone".to_owned()).spawn(keep)?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.ending.end();
        if let Some(thread) = self.thread.take() {
            // There is nothing to do about a panic here.
            let _ = thread.join();
        }
    }
}

impl Ending {
    fn lock(&self) -> std::sync::MutexGuard<'_, (bool, Option<Waker>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ended(&self) -> bool {
        self.lock().0
    }

    fn end(&self) {
        let waker = {
            let mut state = self.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for `work`. Returns `None` if the keeper has to end before that.
    async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| {
            {
                let mut state = self.lock();
                if state.0 {
                    return Poll::Ready(None);
                }
                state.1 = Some(context.waker().clone());
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Sleeps for `time`, or until the keeper has to end.
    fn sleep(&self, time: Duration) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let until = std::time::Instant::now() + time;
        loop {
            {
                let mut state = self.lock();
                if state.0 {
                    return;
                }
                state.1 = Some(waker.clone());
            }
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Inner {
    /// Asks to be alone. If shard 0 agrees, stays alone until another session wants to begin.
    fn be_alone(&self, ending: &Ending) {
        let namespace = self.fs.namespace();
        let asked = pando_client::block_on(ending.unless_ended(namespace.ask_alone()));
        if !matches!(asked, Some(Ok(true))) {
            return;
        }
        self.memory.begin_alone();
        let recalled = pando_client::block_on(ending.unless_ended(namespace.recalled()));
        self.memory.end_alone();
        if recalled.is_none() {
            // The mount is gone, and the session ends.
            return;
        }
        self.forget_listings();
        self.forget_names(ending);
        self.forget_attributes();
        // If the message does not arrive, the session is over, and with it the state of being
        // alone.
        let _ = pando_client::block_on(ending.unless_ended(namespace.end_alone()));
        for pause in AGAIN_AFTER {
            ending.sleep(pause);
            self.forget_attributes();
        }
    }

    /// Makes the kernel look up each name anew. Waits until that is so: at once, or when all
    /// timeouts have passed.
    fn forget_names(&self, ending: &Ending) {
        // The kernel would detach mounts below along with their names. An overlay would lose its
        // layers.
        let has_submounts =
            self.device().is_none_or(|device| has_submounts(device).unwrap_or(true));
        let forgets = |notifier: &Notifier| !has_submounts && notifier.forget_names().is_ok();
        if !self.notifier().is_some_and(forgets) {
            // The kernel rounds up to its own unit of time, hence the extra time.
            ending.sleep(self.memory.names_kept() + Duration::from_millis(50));
        }
    }

    fn forget_attributes(&self) {
        let Some(notifier) = self.notifier() else { return };
        for ino in self.fs.namespace().known() {
            // A node that the kernel does not know any more has nothing to forget.
            let _ = notifier.forget_attributes(ino.0);
        }
    }
}
