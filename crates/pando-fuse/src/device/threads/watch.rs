//! The pauses of the watch, and how it is woken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks. A thread that works on one request from one look to the next is
/// relieved.
const TICK: Duration = Duration::from_millis(10);

/// Wakes and stops the watch.
#[derive(Default)]
pub(crate) struct Watch {
    is_asleep: AtomicBool,
    state: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// Wakes the watch if it sleeps. Otherwise it costs next to nothing.
    pub(crate) fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_asleep.store(false, Ordering::SeqCst);
            self.changed.notify_all();
        }
    }

    /// Ends the watch.
    pub(crate) fn stop(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for one tick. If all is `quiet` and stays so, waits until something happens. Returns
    /// false if the watch should end.
    pub(crate) fn wait(&self, quiet: bool, is_still_quiet: impl FnOnce() -> bool) -> bool {
        let mut is_over = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return false;
        }
        if quiet {
            self.is_asleep.store(true, Ordering::SeqCst);
            if !is_still_quiet() {
                self.is_asleep.store(false, Ordering::SeqCst);
            }
            while self.is_asleep.load(Ordering::SeqCst) && !*is_over {
                is_over = self.changed.wait(is_over).unwrap_or_else(PoisonError::into_inner);
            }
            self.is_asleep.store(false, Ordering::SeqCst);
        } else {
            let wait = self.changed.wait_timeout(is_over, TICK);
            is_over = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        !*is_over
    }
}
