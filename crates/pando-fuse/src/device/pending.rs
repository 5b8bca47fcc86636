//! Requests under way, and what is known of signals to those who wait for them.
//!
//! A request has one answer. Whoever takes its entry out of here may give it: the handler when it
//! is done, or the [watch](super::watch) with `EINTR` before that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

/// Interrupts kept that came before their request; the next request shows which of them are about
/// nothing.
const EARLY_MAX: usize = 256;

/// One request that was read and is not answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Underway {
    /// Channel its answer must go to.
    pub(super) channel: usize,
    /// Thread that waits; 0: unknown.
    pub(super) pid: u32,
    /// What a signal means for it.
    pub(super) patience: Patience,
    /// When the kernel said that a signal came.
    pub(super) interrupted: Option<Instant>,
    /// When the watch saw it first.
    pub(super) seen: Option<Instant>,
}

/// What a signal means for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Patience {
    /// A signal that does not kill is heeded after this time.
    pub(super) after_signal: Duration,
    /// It is also asked for by a process that is ending, whom no signal reaches any more (`close`
    /// at exit).
    pub(super) at_exit: bool,
}

/// An interrupt whose request was not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Early {
    /// Number of the request it is about.
    pub(super) target: u64,
    /// Its own number.
    pub(super) unique: u64,
    /// Channel it came by.
    pub(super) channel: usize,
}

/// All of them, of one session.
#[derive(Default)]
pub(super) struct Pending(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    requests: HashMap<u64, Underway, RandomState>,
    early: Vec<Early>,
}

/// What was waiting for a request to begin.
#[derive(Default, Debug)]
pub(super) struct Begun {
    /// Its interrupt had come before it.
    pub(super) is_interrupted: bool,
    /// Interrupts that are about no request there is.
    pub(super) unknown: Vec<Early>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was read.
    pub(super) fn begin(&self, unique: u64, mut request: Underway) -> Begun {
        let mut inner = self.lock();
        let mut begun = Begun::default();
        if !inner.early.is_empty() {
            begun.unknown = std::mem::take(&mut inner.early);
            begun.unknown.retain(|early| {
                early.target != unique || {
                    begun.is_interrupted = true;
                    false
                }
            });
            request.interrupted = begun.is_interrupted.then(Instant::now);
        }
        inner.requests.insert(unique, request);
        begun
    }

    /// Takes a request out, so that it can be answered. Nothing: it was answered already.
    pub(super) fn end(&self, unique: u64) -> Option<Underway> {
        self.lock().requests.remove(&unique)
    }

    /// A signal came to whoever waits for `early.target`. Returns the request, or what must be
    /// answered `EAGAIN` if too many interrupts wait for theirs.
    pub(super) fn interrupt(&self, early: Early) -> Result<Underway, Option<Early>> {
        let mut inner = self.lock();
        if let Some(request) = inner.requests.get_mut(&early.target) {
            request.interrupted.get_or_insert_with(Instant::now);
            return Ok(*request);
        }
        inner.early.push(early);
        let oldest = (inner.early.len() > EARLY_MAX).then(|| inner.early.remove(0));
        Err(oldest)
    }

    /// Whether a request is still to be answered, and no signal came to who waits for it.
    pub(super) fn is_wanted(&self, unique: u64) -> bool {
        self.lock().requests.get(&unique).is_some_and(|request| request.interrupted.is_none())
    }

    /// Whether a request is still to be answered.
    pub(super) fn contains(&self, unique: u64) -> bool {
        self.lock().requests.contains_key(&unique)
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().requests.is_empty()
    }

    /// Those of which it is to be asked whether somebody still waits, with whether their time is up
    /// anyway.
    pub(super) fn doubtful(&self, now: Instant, at_exit_after: Duration) -> Vec<(u64, u32, bool)> {
        let mut doubtful = Vec::new();
        for (&unique, request) in &mut self.lock().requests {
            let since = now.saturating_duration_since(*request.seen.get_or_insert(now));
            if let Some(at) = request.interrupted {
                let is_up = now.saturating_duration_since(at) >= request.patience.after_signal;
                doubtful.push((unique, request.pid, is_up));
            } else if request.patience.at_exit && since >= at_exit_after {
                doubtful.push((unique, request.pid, false));
            }
        }
        doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn underway(seconds: u64) -> Underway {
        let after_signal = Duration::from_secs(seconds);
        let patience = Patience { after_signal, at_exit: false };
        Underway { channel: 0, pid: 7, patience, interrupted: None, seen: None }
    }

    #[test]
    fn a_request_is_answered_once() {
        let pending = Pending::default();
        assert!(!pending.begin(2, underway(1)).is_interrupted);
        assert!(pending.is_wanted(2));
        pending.interrupt(Early { target: 2, unique: 3, channel: 0 }).unwrap();
        assert!(!pending.is_wanted(2));
        assert!(pending.end(2).is_some());
        assert!(pending.end(2).is_none());
        assert!(pending.is_empty());
    }

    #[test]
    fn an_interrupt_may_come_first_and_one_about_nothing_is_found_out() {
        let pending = Pending::default();
        let early = |target| Early { target, unique: target | 1, channel: 0 };
        assert_eq!(pending.interrupt(early(4)).unwrap_err(), None);
        assert_eq!(pending.interrupt(early(6)).unwrap_err(), None);
        let begun = pending.begin(4, underway(0));
        assert!(begun.is_interrupted);
        assert_eq!(begun.unknown, [early(6)]);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(pending.doubtful(later, Duration::MAX), [(4, 7, true)]);
        assert!(pending.begin(8, underway(9)).unknown.is_empty());
    }

    #[test]
    fn early_interrupts_do_not_pile_up() {
        let pending = Pending::default();
        let early = |target| Early { target, unique: target | 1, channel: 0 };
        let dropped = (0..300).filter_map(|n| pending.interrupt(early(2 * n)).unwrap_err());
        assert_eq!(dropped.count(), 300 - EARLY_MAX);
    }
}
