//! A future that waits for a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::host::shards::Host;
use crate::host::shared::Shared;

impl Host {
    /// A future that ends after `nanos` nanoseconds, or when the host stops.
    pub fn sleep(&self, nanos: u64) -> Sleep {
        let until = self.shared.timer.clock.mono().saturating_add(nanos);
        Sleep { shared: self.shared.clone(), until, registered: None }
    }
}

/// A future that waits for a time.
pub struct Sleep {
    shared: Arc<Shared>,
    until: u64,
    /// The waker that was given to the timer.
    registered: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.timer.clock.mono() >= self.until || self.shared.is_stopped() {
            return Poll::Ready(());
        }
        // The timer keeps a waker until its time. A sleep that is polled often must not fill the
        // timer with equal wakers.
        if !self.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.registered = Some(context.waker().clone());
            self.shared.timer.wake_at(self.until, context.waker().clone());
        }
        // The timer may have woken its wakers for the last time just before this one was added.
        if self.shared.is_stopped() { Poll::Ready(()) } else { Poll::Pending }
    }
}
