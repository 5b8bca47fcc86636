//! Threads that have the kernel drop its listings.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::device::notify::Notifier;
use crate::device::rings::cpu;

/// Most threads that wait for such drops. Beyond them nothing more is dropped, and the kernel keeps
/// no further listing.
const DROPS_MAX: usize = 16;

/// Counts threads that have the kernel drop listings. Each may have to wait for a program that
/// holds up its own listing. No other program may wait for that.
#[derive(Default)]
pub(crate) struct Dropping(Arc<AtomicUsize>);

/// Permission to start one such thread. Dropping it gives the permission back.
pub(crate) struct Turn(Arc<AtomicUsize>);

impl Dropping {
    /// Permission to start a thread; `None` if too many are waiting.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let turn = Turn(Arc::clone(&self.0));
        (turn.0.fetch_add(1, Ordering::SeqCst) < DROPS_MAX).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Turn {
    /// Starts a thread that has the kernel drop its listings of `nodes`, and then runs `work`. If
    /// no thread can be started, neither happens.
    pub(crate) fn drop_then(
        self,
        notifier: &Notifier,
        nodes: Vec<u64>,
        work: impl FnOnce() + Send + 'static,
    ) {
        let notifier = notifier.clone();
        let job = move || {
            cpu::leave();
            for node in nodes {
                // A node that the kernel does not know any more has no listing.
                let _ = notifier.drop_pages(node);
            }
            work();
            drop(self);
        };
        let _ = std::thread::Builder::new().name("pando-listings".to_owned()).spawn(job);
    }
}
