//! Pending requests of a session, and the signals that came to their callers.
//!
//! Invariant: a request has one answer. The thread that takes the request out of this table sends
//! it. That is the handler when it is done, or the [watch](crate::device::watch) before that, with
//! `EINTR`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use crate::device::counting::counted::Read;
use crate::device::rings::way::Way;
use crate::protocol::abi::RESENT;

/// Number of interrupts kept that came before their request. The next request shows which of them
/// have no request.
const EARLY_MAX: usize = 256;

/// One request that was read and is not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Underway {
    /// Where the answer must go.
    pub(crate) way: Way,
    /// Thread of the caller; 0 if unknown.
    pub(crate) pid: u32,
    /// What a signal means for the request.
    pub(crate) patience: Patience,
    /// When the kernel said that a signal came.
    pub(crate) interrupted: Option<Instant>,
    /// When the watch first saw the request.
    pub(crate) seen: Option<Instant>,
    /// What counts once it is answered.
    pub(crate) read: Read,
}

/// What a signal means for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    /// How long the request goes on after a signal that does not kill.
    pub(crate) after_signal: Duration,
    /// Whether an exiting process may be the caller (`close` at exit). No signal reaches such a
    /// process any more.
    pub(crate) at_exit: bool,
}

/// An interrupt that came before its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Early {
    /// Number of the request that is interrupted.
    pub(crate) target: u64,
    /// Number of the interrupt itself.
    pub(crate) unique: u64,
    /// Where the interrupt came from.
    pub(crate) way: Way,
}

/// All pending requests of one session.
#[derive(Default)]
pub(crate) struct Pending(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    requests: HashMap<u64, Underway, RandomState>,
    early: Vec<Early>,
    /// The highest number of a request that was read, without [`RESENT`].
    newest: u64,
}

/// Interrupts that were kept when a request began.
#[derive(Default, Debug)]
pub(crate) struct Begun {
    /// Whether an interrupt of this request had come before it.
    pub(crate) is_interrupted: bool,
    /// Interrupts that belong to no request.
    pub(crate) unknown: Vec<Early>,
}

/// A request that may have lost its caller.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Doubtful {
    pub(crate) unique: u64,
    /// The caller's thread.
    pub(crate) pid: u32,
    /// Whether the time after a signal is up.
    pub(crate) is_up: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request that was read. If `interrupts_overtake`, an interrupt may be read before
    /// requests that the kernel has sent before it. Then each waits for its own request, and those
    /// that have none make room for later ones.
    pub(crate) fn begin(
        &self,
        unique: u64,
        mut request: Underway,
        interrupts_overtake: bool,
    ) -> Begun {
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
            if interrupts_overtake {
                inner.early = std::mem::take(&mut begun.unknown);
            }
            request.interrupted = begun.is_interrupted.then(Instant::now);
        }
        inner.newest = inner.newest.max(unique & !RESENT);
        inner.requests.insert(unique, request);
        begun
    }

    /// The highest number of a request that was added so far.
    pub(crate) fn newest(&self) -> u64 {
        self.lock().newest
    }

    /// Takes a request out, so that it can be answered. Returns `None` if it was answered already.
    pub(crate) fn end(&self, unique: u64) -> Option<Underway> {
        self.lock().requests.remove(&unique)
    }

    /// Notes that a signal came to the caller of request `early.target`. Returns that request. If
    /// it is not here yet, the interrupt is kept. The error is the oldest interrupt if there are
    /// too many, to be answered with `EAGAIN`.
    pub(crate) fn interrupt(&self, early: Early) -> Result<Underway, Option<Early>> {
        let mut inner = self.lock();
        if let Some(request) = inner.requests.get_mut(&early.target) {
            request.interrupted.get_or_insert_with(Instant::now);
            return Ok(*request);
        }
        inner.early.push(early);
        let oldest = (inner.early.len() > EARLY_MAX).then(|| inner.early.remove(0));
        Err(oldest)
    }

    /// Whether a request is unanswered, and no signal came to its caller.
    pub(crate) fn is_wanted(&self, unique: u64) -> bool {
        self.lock().requests.get(&unique).is_some_and(|request| request.interrupted.is_none())
    }

    /// Whether a request is unanswered.
    pub(crate) fn contains(&self, unique: u64) -> bool {
        self.lock().requests.contains_key(&unique)
    }

    /// Number of pending requests.
    pub(crate) fn len(&self) -> usize {
        self.lock().requests.len()
    }

    /// Whether no request is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().requests.is_empty()
    }

    /// Requests that may have lost their callers. An exiting process counts after `at_exit_after`.
    pub(crate) fn doubtful(&self, now: Instant, at_exit_after: Duration) -> Vec<Doubtful> {
        let mut doubtful = Vec::new();
        for (&unique, request) in &mut self.lock().requests {
            let since = now.saturating_duration_since(*request.seen.get_or_insert(now));
            if let Some(at) = request.interrupted {
                let is_up = now.saturating_duration_since(at) >= request.patience.after_signal;
                doubtful.push(Doubtful { unique, pid: request.pid, is_up });
            } else if request.patience.at_exit && since >= at_exit_after {
                doubtful.push(Doubtful { unique, pid: request.pid, is_up: false });
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
        let read = Read { opcode: 1, uid: 0, bytes: 0, at: Instant::now() };
        Underway { way: Way::Channel(0), pid: 7, patience, interrupted: None, seen: None, read }
    }

    #[test]
    fn a_request_is_answered_once() {
        let pending = Pending::default();
        assert!(!pending.begin(2, underway(1), false).is_interrupted);
        assert!(pending.is_wanted(2));
        pending.interrupt(Early { target: 2, unique: 3, way: Way::Channel(0) }).unwrap();
        assert!(!pending.is_wanted(2));
        assert!(pending.end(2).is_some());
        assert!(pending.end(2).is_none());
        assert!(pending.is_empty());
    }

    #[test]
    fn a_request_that_is_sent_again_is_not_the_newest_one() {
        let pending = Pending::default();
        pending.begin(8 | RESENT, underway(1), false);
        assert_eq!(pending.newest(), 8);
        pending.begin(10, underway(1), false);
        assert_eq!(pending.newest(), 10);
        let early = Early { target: 8 | RESENT, unique: 9 | RESENT, way: Way::Channel(0) };
        assert!(pending.interrupt(early).is_ok());
        // It is answered by the number that was read.
        assert!(pending.end(8).is_none());
        assert!(pending.end(8 | RESENT).is_some());
    }

    #[test]
    fn an_interrupt_may_come_first_and_one_about_nothing_is_found_out() {
        let pending = Pending::default();
        let early = |target| Early { target, unique: target | 1, way: Way::Channel(0) };
        assert_eq!(pending.interrupt(early(4)).unwrap_err(), None);
        assert_eq!(pending.interrupt(early(6)).unwrap_err(), None);
        let begun = pending.begin(4, underway(0), false);
        assert!(begun.is_interrupted);
        assert_eq!(begun.unknown, [early(6)]);
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(
            pending.doubtful(later, Duration::MAX),
            [Doubtful { unique: 4, pid: 7, is_up: true }]
        );
        assert!(pending.begin(8, underway(9), false).unknown.is_empty());
    }

    #[test]
    fn an_interrupt_that_overtakes_its_request_outlasts_other_requests() {
        let pending = Pending::default();
        let early = Early { target: 6, unique: 7, way: Way::Channel(0) };
        assert_eq!(pending.interrupt(early).unwrap_err(), None);
        let begun = pending.begin(4, underway(1), true);
        assert!(!begun.is_interrupted && begun.unknown.is_empty());
        assert!(pending.begin(6, underway(1), true).is_interrupted);
    }

    #[test]
    fn early_interrupts_do_not_pile_up() {
        let pending = Pending::default();
        let early = |target| Early { target, unique: target | 1, way: Way::Channel(0) };
        let dropped = (0..300).filter_map(|n| pending.interrupt(early(2 * n)).unwrap_err());
        assert_eq!(dropped.count(), 300 - EARLY_MAX);
    }
}
