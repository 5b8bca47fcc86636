//! The process' clock: nanoseconds since 1970 that never go back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that stands still rather than going back when the system's is set back.
#[derive(Debug, Default)]
pub struct Clock {
    last_nanos: AtomicU64,
}

impl Clock {
    /// The moment. Never less than any moment told before, nor than [`Clock::at_least`].
    pub fn now_nanos(&self) -> u64 {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(system.as_nanos()).unwrap_or(u64::MAX);
        self.last_nanos.fetch_max(nanos, Ordering::Relaxed).max(nanos)
    }

    /// From now on the clock is not below `nanos`, which a log remembers.
    pub fn at_least(&self, nanos: u64) {
        self.last_nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::default();
        let before = clock.now_nanos();
        assert!(clock.now_nanos() >= before);
        let ahead = before + 3_600_000_000_000;
        clock.at_least(ahead);
        assert_eq!(clock.now_nanos(), ahead);
    }
}
