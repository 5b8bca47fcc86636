//! Two clocks. Timers use a clock that never goes back. Records are stamped with the time of day.
//!
//! The time of day may jump: an administrator corrects it, or a machine starts with a wrong one. So
//! nothing waits for it. No shard takes the time of day of another shard: that one's machine may
//! have a fast clock (docs/decisions/each-shard-has-its-own-time.md).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pando_types::CLOCK_SLACK_NANOS;
use rustix::time::{ClockId, clock_gettime};

/// The clocks of a machine.
pub trait Time: Send + Sync {
    /// Nanoseconds since any fixed moment. Never goes back.
    fn mono(&self) -> u64;
    /// Nanoseconds since 1970, as far as the machine knows.
    fn wall(&self) -> u64;
}

/// Where the monotonic clock of a process begins, nanoseconds. A time of 0 stands for long ago, so
/// it delays no timer after a start.
const ORIGIN: u64 = 3_600_000_000_000;

/// The clocks of this machine.
#[derive(Debug)]
pub struct RealTime {
    begun: u64,
}

impl Default for RealTime {
    fn default() -> Self {
        Self { begun: since_boot() }
    }
}

/// Nanoseconds since the machine's boot. They go on while the machine sleeps: a timer is due when
/// it wakes.
fn since_boot() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec * 1_000_000_000 + now.tv_nsec).cast_unsigned()
}

impl Time for RealTime {
    fn mono(&self) -> u64 {
        ORIGIN + since_boot().saturating_sub(self.begun)
    }

    fn wall(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The clocks of a process.
pub type Clock = Arc<dyn Time>;

/// One shard's time of day. It goes back only if the machine's clock is more than
/// [`CLOCK_SLACK_NANOS`] behind the last stamp.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Wall {
    last: u64,
}

impl Wall {
    /// The time of day goes on from the latest time that the log remembers.
    pub(crate) const fn from(last: u64) -> Self {
        Self { last }
    }

    /// The time of day in nanoseconds since 1970, if the machine's clock says `now`.
    pub(crate) const fn at(&mut self, now: u64) -> u64 {
        if now >= self.last || self.last - now > CLOCK_SLACK_NANOS {
            self.last = now;
        }
        self.last
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The machine's monotonic clock, with a time of day that the test sets.
    #[derive(Default)]
    pub(crate) struct Set {
        real: RealTime,
        pub(crate) wall: AtomicU64,
    }

    impl Time for Set {
        fn mono(&self) -> u64 {
            self.real.mono()
        }

        fn wall(&self) -> u64 {
            self.wall.load(Ordering::SeqCst)
        }
    }

    const HOUR: u64 = 3_600_000_000_000;
    const NOON: u64 = 500_000 * HOUR;

    #[test]
    fn a_clock_that_is_set_back_a_little_stands_still_and_one_that_is_corrected_is_followed() {
        let mut wall = Wall::from(NOON);
        assert_eq!(wall.at(NOON + 5), NOON + 5);
        assert_eq!(wall.at(NOON - CLOCK_SLACK_NANOS / 2), NOON + 5);
        assert_eq!(wall.at(NOON + 6), NOON + 6);
        assert_eq!(wall.at(NOON - HOUR), NOON - HOUR);
        assert_eq!(wall.at(NOON - HOUR + 1), NOON - HOUR + 1);
    }

    #[test]
    fn what_the_log_remembers_of_a_fast_clock_is_not_waited_for() {
        assert_eq!(Wall::from(NOON + HOUR).at(NOON), NOON);
        assert_eq!(Wall::from(NOON + 1).at(NOON), NOON + 1);
    }

    #[test]
    fn the_clock_of_timers_runs_on_and_begins_late() {
        let time = RealTime::default();
        let before = time.mono();
        assert!(before >= ORIGIN && time.mono() >= before);
    }
}
