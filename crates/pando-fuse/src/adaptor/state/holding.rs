//! The thread that keeps the hold of a session, and its end.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs the thread that keeps the hold of a session. The thread ends when this is dropped.
pub(crate) struct Holding {
    pub(crate) ending: Arc<Ending>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

/// Whether the thread has to end, and how it is woken.
#[derive(Default)]
pub(crate) struct Ending {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Drop for Holding {
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

    /// Waits for `work`. Returns `None` if the thread has to end before that.
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

    /// Waits for `work`, at most for `time`. Returns `None` if that is over, or the thread has to
    /// end before.
    pub(crate) fn within_unless_ended<T>(
        &self,
        time: Duration,
        work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Option<T> {
        self.drive(time, true, work)
    }

    /// Waits for `work`, at most for `time`, also if the thread has to end.
    pub(crate) fn within<T>(
        &self,
        time: Duration,
        work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Option<T> {
        self.drive(time, false, work)
    }

    fn drive<T>(
        &self,
        time: Duration,
        ends: bool,
        mut work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Option<T> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let begun = Instant::now();
        loop {
            {
                let mut state = self.lock();
                if ends && state.0 {
                    return None;
                }
                state.1 = Some(waker.clone());
            }
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return Some(done);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Sleeps for `time`, or until the thread has to end.
    pub(crate) fn sleep(&self, time: Duration) {
        let _ = self.within_unless_ended(time, pin!(std::future::pending::<()>()));
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
