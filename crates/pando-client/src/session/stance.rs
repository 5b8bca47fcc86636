//! Whether a session writes or is quiet (docs/design/holds.md).
//!
//! ```text
//!            first change: Wake n, until shard 0 agrees
//!   quiet ───────────────────────────────────────────────► awake
//!     ▲                                                      │
//!     └──── nothing changed for a while: Quiet n + 1 ────────┘
//! ```
//!
//! A quiet session sends nothing that changes what another kernel may remember. A change counts as
//! under way before it looks whether the session is awake. The session goes quiet only while none
//! is under way, and none has begun meanwhile. So no change slips in between.

use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::Epoch;
use pando_types::hold::Said;
use parking_lot::Mutex;

const AWAKE: u64 = 1;
/// One change under way.
const UNDER_WAY: u64 = 2;
/// One change begun. Beyond 2³² the count wraps.
const BEGUN: u64 = 1 << 32;

/// After this number of looks a quiet session says again that it is.
const SAY_AGAIN: u32 = 30;

/// The stance of a session.
#[derive(Debug)]
pub(crate) struct Stance {
    /// Whether the session is awake, changes under way, and changes begun so far.
    word: AtomicU64,
    told: Mutex<Told>,
}

/// What shard 0 was told.
#[derive(Debug)]
struct Told {
    /// Number of the last statement: odd, `Wake`; even, `Quiet`.
    number: u64,
    /// The start of shard 0 that has heard that the session is quiet.
    heard_by: Option<Epoch>,
    /// Looks since then.
    looks: u32,
}

/// What was seen of the changes of a session.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Whether no change is under way.
    pub(crate) const fn is_still(self) -> bool {
        self.0 % BEGUN < UNDER_WAY
    }
}

impl Stance {
    /// A session that has begun, which shard 0 did in `epoch`. It is quiet, and shard 0 knows.
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            word: AtomicU64::new(0),
            told: Mutex::new(Told { number: 0, heard_by: Some(epoch), looks: 0 }),
        }
    }

    /// Begins a change. Returns whether the session is awake. If it is not, the change must not be
    /// sent.
    pub(crate) fn begin(&self) -> (UnderWay<'_>, bool) {
        let word = self.word.fetch_add(BEGUN + UNDER_WAY, Ordering::AcqRel);
        (UnderWay(self), word & AWAKE != 0)
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.look().0 & AWAKE != 0
    }

    pub(crate) fn look(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    /// Number of the statement that the session wants to write.
    pub(crate) fn wake_number(&self) -> u64 {
        let mut told = self.told.lock();
        told.number |= 1;
        told.number
    }

    /// Shard 0 has agreed to this statement.
    pub(crate) fn woken(&self, number: u64) {
        if self.told.lock().number == number {
            self.word.fetch_or(AWAKE, Ordering::AcqRel);
        }
    }

    /// Goes quiet, unless a change has begun since the session was looked at.
    pub(crate) fn be_quiet(&self, seen: Seen) {
        let mut told = self.told.lock();
        let quiet = seen.0 & !AWAKE;
        let is_so = seen.is_still()
            && self
                .word
                .compare_exchange(seen.0, quiet, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        // Also after a `Wake` without an answer: shard 0 may have heard it.
        if is_so && told.number % 2 == 1 {
            told.number += 1;
            told.heard_by = None;
        }
    }

    /// What a quiet session has to say to shard 0. Called at each look.
    pub(crate) fn to_say(&self, epoch: Epoch) -> Option<Said> {
        let mut told = self.told.lock();
        told.looks = told.looks.saturating_add(1);
        let is_known = told.heard_by == Some(epoch) && told.looks < SAY_AGAIN;
        (told.number.is_multiple_of(2) && !is_known).then_some(Said { number: told.number, epoch })
    }

    /// Shard 0 has heard that the session is quiet.
    pub(crate) fn heard(&self, said: Said) {
        let mut told = self.told.lock();
        if told.number == said.number {
            (told.heard_by, told.looks) = (Some(said.epoch), 0);
        }
    }
}

/// A change under way.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Stance);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.word.fetch_sub(UNDER_WAY, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(3);

    #[test]
    fn a_session_goes_quiet_only_if_nothing_was_changed_meanwhile() {
        let stance = Stance::new(EPOCH);
        assert_eq!(stance.to_say(EPOCH), None, "shard 0 knows");
        let (under_way, is_awake) = stance.begin();
        assert!(!is_awake && !stance.is_awake());
        let number = stance.wake_number();
        assert_eq!((number, stance.wake_number()), (1, 1), "a repetition");
        stance.woken(number);
        assert!(stance.is_awake());
        stance.be_quiet(stance.look());
        assert!(stance.is_awake(), "a change is under way");
        drop(under_way);
        let seen = stance.look();
        drop(stance.begin());
        stance.be_quiet(seen);
        assert!(stance.is_awake(), "a change has begun and ended");
        stance.be_quiet(stance.look());
        assert!(!stance.is_awake());
        let said = stance.to_say(EPOCH).expect("it is not said yet");
        assert_eq!(said, Said { number: 2, epoch: EPOCH });
        assert_eq!(stance.wake_number(), 3);
        assert_eq!(stance.to_say(EPOCH), None, "it wakes");
        stance.woken(1);
        assert!(!stance.is_awake(), "an answer to an older question");
    }

    #[test]
    fn a_quiet_session_says_so_to_each_start_of_shard_0_and_from_time_to_time() {
        let stance = Stance::new(EPOCH);
        let later = Epoch(4);
        let said = stance.to_say(later).expect("that start has not heard");
        assert_eq!(said, Said { number: 0, epoch: later });
        stance.heard(said);
        for _ in 1..SAY_AGAIN {
            assert_eq!(stance.to_say(later), None);
        }
        assert!(stance.to_say(later).is_some());
        // One that wanted to write, and has given up, may have been heard.
        let number = stance.wake_number();
        assert_eq!(stance.to_say(Epoch(5)), None);
        stance.be_quiet(stance.look());
        assert_eq!(stance.to_say(later), Some(Said { number: number + 1, epoch: later }));
        stance.heard(said);
        assert!(stance.to_say(later).is_some(), "an answer to an older statement");
    }
}
