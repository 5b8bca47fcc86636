//! The clocks of a machine: the timers' clock, which starts with each process, and the time of day.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use pando_server::clock::Time;

/// What the timers' clock reads when a process begins, nanoseconds.
const ORIGIN: u64 = 3_600_000_000_000;
/// Added to the timers' clock of a machine with one clock, so that setting the clock back cannot
/// take it below zero.
const HOURS: u64 = 1_000 * ORIGIN;

/// The clocks of a machine, in nanoseconds. Simulated ("true") time drives them.
#[derive(Debug)]
pub struct Clocks {
    /// True time.
    now: AtomicU64,
    /// True time at which the process began.
    begun: AtomicU64,
    /// The machine's time of day at true time 0. Setting the clock changes it.
    noon: AtomicU64,
    /// How fast the timers' clock is, nanoseconds per million; negative: it is slow.
    drift: i64,
    /// The first value of `noon`. If `is_one`, the timers' clock is the time of day since then.
    first_noon: u64,
    /// Whether timers go by the time of day (`SimConfig::one_clock`).
    pub(crate) is_one: bool,
}

impl Clocks {
    /// The clocks of a machine with this time of day at true time 0.
    #[must_use]
    pub const fn new(noon: u64, drift: i64) -> Self {
        Self {
            now: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            noon: AtomicU64::new(noon),
            drift,
            first_noon: noon,
            is_one: false,
        }
    }

    /// Sets true time.
    pub fn set(&self, now: u64) {
        self.now.store(now, Relaxed);
    }

    /// Sets the time of day forward or back.
    pub fn jump(&self, by: i64) {
        self.noon.store(self.noon.load(Relaxed).saturating_add_signed(by), Relaxed);
    }

    /// A process begins: its timers' clock starts at `ORIGIN`.
    pub fn begin(&self) {
        self.begun.store(self.now.load(Relaxed), Relaxed);
    }

    /// The true time at which the timers' clock reads `mono`, or a little later.
    #[must_use]
    pub fn when(&self, mono: u64) -> u64 {
        let elapsed = mono.saturating_sub(ORIGIN);
        if self.is_one {
            let jumped = self.noon.load(Relaxed) as i64 - self.first_noon as i64;
            return elapsed.saturating_sub(HOURS).saturating_add_signed(-jumped);
        }
        let true_elapsed = u128::from(elapsed) * 1_000_000 / (1_000_000 + self.drift) as u128;
        self.begun.load(Relaxed) + true_elapsed as u64 + 1
    }
}

impl Time for Clocks {
    fn mono(&self) -> u64 {
        if self.is_one {
            return ORIGIN + HOURS + self.wall() - self.first_noon;
        }
        let elapsed = self.now.load(Relaxed) - self.begun.load(Relaxed);
        let fast = i128::from(elapsed) * i128::from(self.drift) / 1_000_000;
        ORIGIN.saturating_add(elapsed).saturating_add_signed(fast as i64)
    }

    fn wall(&self) -> u64 {
        self.noon.load(Relaxed) + self.now.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_do_not_go_by_the_time_of_day_and_are_woken_when_it_is_time() {
        for drift in [-10_000, 0, 10_000] {
            let clocks = Clocks::new(1 << 60, drift);
            clocks.set(777);
            clocks.begin();
            let due = clocks.mono() + 1_000_000_007;
            clocks.jump(-5_000_000_000);
            assert_eq!((clocks.mono(), clocks.wall()), (ORIGIN, (1 << 60) - 5_000_000_000 + 777));
            clocks.set(clocks.when(due));
            assert!((due..due + 2).contains(&clocks.mono()), "{drift}");
        }
    }
}
