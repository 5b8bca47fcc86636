//! The time on each shard, as its answers tell it. The client stamps its own changes with it. So
//! all times of a file come from one clock, whichever machine writes.
//!
//! A reply holds the shard's time at some moment between the request and now. That bounds from both
//! sides how far the shard's clock is ahead of this machine's. The estimate moves only if it is
//! outside the bounds, so a reply that a sync or the network held up does not move it. The time
//! that this client tells of a shard never goes back, unless the shard's clock was set back by more
//! than a second.

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering};

use pando_types::{CLOCK_SLACK_NANOS, SHARDS_MAX, ShardIndex};

/// No estimate yet.
const UNKNOWN: i64 = i64::MIN;

struct Clock {
    /// Nanoseconds by which the shard's clock is ahead of this machine's; [`UNKNOWN`] if none is
    /// known.
    ahead: AtomicI64,
    /// The latest time that was told of it, nanoseconds.
    last: AtomicU64,
}

pub(crate) struct Clocks {
    shards: Box<[Clock]>,
    /// The shard with the latest change of an estimate.
    heard: AtomicU16,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        let clock = |_| Clock { ahead: AtomicI64::new(UNKNOWN), last: AtomicU64::new(0) };
        Self { shards: (0..SHARDS_MAX).map(clock).collect(), heard: AtomicU16::new(0) }
    }

    /// Takes in a shard's time from a reply (0: the reply has none). The shard read its clock
    /// between `asked` and `now`, which are by this machine's clock. All are nanoseconds.
    pub(crate) fn hear(&self, shard: ShardIndex, time: u64, (asked, now): (u64, u64)) {
        // A time of day in nanoseconds fits for three hundred years.
        let (Some(clock), Ok(time @ 1..)) =
            (self.shards.get(usize::from(shard.0)), i64::try_from(time))
        else {
            return;
        };
        let ahead_of = |moment: u64| time.saturating_sub(moment.cast_signed());
        let known = clock.ahead.load(Ordering::Relaxed);
        let ahead = match known {
            UNKNOWN => ahead_of(now),
            known => known.max(ahead_of(now)).min(ahead_of(asked)),
        };
        if ahead != known {
            clock.ahead.store(ahead, Ordering::Relaxed);
            self.heard.store(shard.0, Ordering::Relaxed);
        }
    }

    /// The time on a shard, or on the shard heard last if that one has not said. `None` if no shard
    /// has.
    pub(crate) fn at(&self, shard: ShardIndex, now: u64) -> Option<u64> {
        let heard = self.heard.load(Ordering::Relaxed);
        [shard.0, heard].into_iter().find_map(|shard| {
            let clock = self.shards.get(usize::from(shard))?;
            let ahead = clock.ahead.load(Ordering::Relaxed);
            (ahead != UNKNOWN).then(|| clock.told(now.saturating_add_signed(ahead)))
        })
    }
}

impl Clock {
    /// Returns `time`, or the latest time told before if that is not much later.
    fn told(&self, time: u64) -> u64 {
        let last = self.last.fetch_max(time, Ordering::Relaxed);
        if last.saturating_sub(time) > CLOCK_SLACK_NANOS {
            self.last.store(time, Ordering::Relaxed);
            return time;
        }
        last.max(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardIndex = ShardIndex(3);
    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_shards_time_goes_on_from_its_answers() {
        let clocks = Clocks::new();
        assert_eq!(clocks.at(SHARD, 50), None);
        clocks.hear(SHARD, 0, (40, 50));
        clocks.hear(SHARD, u64::MAX, (40, 50));
        assert_eq!(clocks.at(SHARD, 50), None);
        clocks.hear(SHARD, 1_000, (40, 50));
        assert_eq!(clocks.at(SHARD, 60), Some(1_010));
        // The shard's time was later than estimated, then earlier than possible.
        clocks.hear(SHARD, 1_015, (60, 62));
        assert_eq!(clocks.at(SHARD, 62), Some(1_015));
        clocks.hear(SHARD, 1_017, (70, 72));
        assert_eq!(clocks.at(SHARD, 80), Some(1_027));
        assert_eq!(
            clocks.at(ShardIndex(4), 90),
            Some(1_037),
            "rather another shard's time than none"
        );
    }

    #[test]
    fn an_answer_that_was_held_up_moves_nothing() {
        let clocks = Clocks::new();
        let (noon, second) = (12 * HOUR, 1_000_000_000);
        clocks.hear(SHARD, noon, (HOUR, HOUR));
        let late = HOUR + 5 * second;
        assert_eq!(clocks.at(SHARD, late), Some(noon + 5 * second));
        clocks.hear(SHARD, noon + second, (HOUR + second, late));
        assert_eq!(clocks.at(SHARD, late), Some(noon + 5 * second));
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        let clocks = Clocks::new();
        clocks.hear(SHARD, 10 * HOUR, (40, 50));
        assert_eq!(clocks.at(SHARD, 60), Some(10 * HOUR + 10));
        clocks.hear(SHARD, 9 * HOUR, (70, 70));
        assert_eq!(clocks.at(SHARD, 80), Some(9 * HOUR + 10));
        // Set back by little: the time stands still.
        clocks.hear(SHARD, 9 * HOUR, (90, 90));
        assert_eq!(clocks.at(SHARD, 95), Some(9 * HOUR + 10));
        assert_eq!(clocks.at(SHARD, 105), Some(9 * HOUR + 15));
    }
}
