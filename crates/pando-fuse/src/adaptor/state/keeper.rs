//! The thread that keeps a session alone, and its end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs the thread that keeps a session alone. The thread ends when this is dropped.
pub(crate) struct Keeper {
    pub(crate) ending: Arc<Ending>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

/// Whether the thread has to end, and how it is woken.
#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<(bool, Option<Waker>)>,
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

    pub(crate) fn is_ended(&self) -> bool {
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
    pub(crate) async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
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
    pub(crate) fn sleep(&self, time: Duration) {
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
