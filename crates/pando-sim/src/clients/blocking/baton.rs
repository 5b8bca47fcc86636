//! Runs blocking code in a simulation without threads. The code has a thread of its own, and either
//! that thread or the world runs, never both.
//!
//! ```text
//!   world:   polls Work ── hands over ─┐                       ┌─► Pending, or what came of it
//!   thread:                            └► …blocking code… wait ┘   wait: a future that is not ready
//! ```

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

use crate::base::lock::lock;

/// Which side runs.
#[derive(Default)]
enum Turn {
    #[default]
    World,
    /// The thread runs. The waker wakes its task when the thread can go on later.
    Thread(Waker),
    /// The thread has ended, and the world runs.
    Done,
    /// The result is no longer wanted, because the client is dead.
    Over,
}

/// Passes control between the world and a thread.
#[derive(Default)]
pub struct Baton {
    turn: Mutex<Turn>,
    changed: Condvar,
}

/// The panic payload that unwinds a thread when its result is not wanted.
struct Unwanted;

impl Baton {
    fn wait_while(&self, goes_on: impl Fn(&Turn) -> bool) -> MutexGuard<'_, Turn> {
        let waited = self.changed.wait_while(lock(&self.turn), |turn| goes_on(turn));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.changed.notify_all();
    }

    /// Blocks the thread until it may run. If its result is no longer wanted, the thread unwinds
    /// here.
    fn my_turn(&self) -> Waker {
        match &*self.wait_while(|turn| matches!(turn, Turn::World)) {
            Turn::Thread(waker) => waker.clone(),
            _ => std::panic::resume_unwind(Box::new(Unwanted)),
        }
    }

    /// Waits for a future on the thread, while the world runs.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            let waker = self.my_turn();
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            self.pass(Turn::World);
        }
    }

    /// Runs blocking code on a thread. The code may wait only through this baton.
    #[must_use]
    pub fn run<R: Send + 'static>(
        self: &Arc<Self>,
        code: impl FnOnce() -> R + Send + 'static,
    ) -> Work<R> {
        self.pass(Turn::World);
        let baton = Arc::clone(self);
        let thread = std::thread::spawn(move || {
            baton.my_turn();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(code));
            baton.pass(Turn::Done);
            result
        });
        Work { baton: Arc::clone(self), thread: Some(thread) }
    }
}

/// Blocking code that runs on a thread.
pub struct Work<R> {
    baton: Arc<Baton>,
    thread: Option<JoinHandle<Result<R, Box<dyn Any + Send>>>>,
}

impl<R> Future for Work<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        self.baton.pass(Turn::Thread(context.waker().clone()));
        let is_done = {
            let turn = self.baton.wait_while(|turn| matches!(turn, Turn::Thread(_)));
            matches!(*turn, Turn::Done)
        };
        let Some(thread) = self.thread.take_if(|_| is_done) else { return Poll::Pending };
        match thread.join().and_then(|result| result) {
            Ok(output) => Poll::Ready(output),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<R> Drop for Work<R> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.baton.pass(Turn::Over);
            // The thread unwinds with `Unwanted`.
            let _ = thread.join();
        }
    }
}
