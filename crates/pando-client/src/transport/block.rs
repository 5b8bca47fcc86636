//! Running a future on the calling thread, for callers that have no runtime.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Wakes one parked thread. The flag tells its wake-ups apart from those for another `block_on` of
/// that thread.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

thread_local! {
    /// Kept between calls, so that a future that is ready at once costs no allocation.
    static SPARE: Cell<Option<(Arc<Parked>, Waker)>> = const { Cell::new(None) };
    static BEFORE_PARK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Sets a hook that [`block_on`] calls on this thread before it parks the thread. With it a thread
/// that other threads depend on can hand its work on first.
pub fn before_park(hook: fn()) {
    BEFORE_PARK.set(Some(hook));
}

/// Calls this thread's hook ([`before_park`]). For a thread that is about to wait for something
/// other than a future: a disk, another thread.
pub fn about_to_wait() {
    if let Some(hook) = BEFORE_PARK.get() {
        hook();
    }
}

/// Runs `future` to its end. The thread is parked while the future is pending, after its hook
/// ([`before_park`]). A future that is ready at once costs no allocation. `block_on` of
/// `pando-server`, for status and tests, has neither.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (parked, waker) = SPARE.take().unwrap_or_else(|| {
        let parked =
            Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
        (Arc::clone(&parked), Waker::from(parked))
    });
    let mut context = Context::from_waker(&waker);
    let mut hook = BEFORE_PARK.get();
    let output = loop {
        parked.woken.store(false, Ordering::Relaxed);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            break output;
        }
        if !parked.woken.load(Ordering::Acquire)
            && let Some(hook) = hook.take()
        {
            hook();
        }
        while !parked.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    };
    SPARE.set(Some((parked, waker)));
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[test]
    fn a_wake_from_another_thread_arrives() {
        let mut asked = false;
        let output = block_on(poll_fn(move |context| {
            if asked {
                return Poll::Ready(7);
            }
            asked = true;
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake());
            Poll::Pending
        }));
        assert_eq!(output, 7);
    }

    #[test]
    fn the_hook_is_called_once_before_a_wait_and_only_then() {
        thread_local! {
            static CALLS: Cell<u32> = const { Cell::new(0) };
            static WAKER: Cell<Option<Waker>> = const { Cell::new(None) };
        }
        // Only this hook wakes the future below.
        before_park(|| {
            CALLS.set(CALLS.get() + 1);
            WAKER.take().expect("it waits").wake();
        });
        let mut polls = 0;
        block_on(poll_fn(move |context| {
            polls += 1;
            match polls {
                // A wake-up before the thread could park.
                1 => context.waker().wake_by_ref(),
                2 => WAKER.set(Some(context.waker().clone())),
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        }));
        assert_eq!(CALLS.get(), 1);
        BEFORE_PARK.set(None);
    }

    #[test]
    fn an_inner_block_on_does_not_swallow_the_outer_wake() {
        let mut asked = false;
        block_on(poll_fn(move |context| {
            if asked {
                return Poll::Ready(());
            }
            asked = true;
            context.waker().wake_by_ref();
            let mut inner = false;
            block_on(poll_fn(move |context| {
                if inner {
                    return Poll::Ready(());
                }
                inner = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }));
            Poll::Pending
        }));
    }
}
