//! Tasks that wait until something has changed.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// A list of tasks that wait.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    /// Ready with what `look` finds. It looks again at each [`Waiting::wake`].
    pub(crate) async fn when<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(found) = look() {
                return Poll::Ready(found);
            }
            self.add(context);
            // The state may have changed before the waker was on the list.
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Wakes this task, too, the next time. It looks once more after this call.
    pub(crate) fn add(&self, context: &Context<'_>) {
        let mut waiting = self.0.lock();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Wakes all. Call it after the change.
    pub(crate) fn wake(&self) {
        let woken = std::mem::take(&mut *self.0.lock());
        woken.into_iter().for_each(Waker::wake);
    }
}
