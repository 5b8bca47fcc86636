//! What time it is on each shard, as its answers tell. What this client stamps itself is stamped so: one file's times come of one
//! clock, whichever machine wrote to it.
//!
//! A shard's time is that of its last answer, and what has gone by here since. So it is never ahead of the shard's clock, and behind
//! it by no more than an answer took to come. It goes back only if the shard's clock was set back by more than a second.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pando_types::{Ino, SHARDS_MAX, ShardIndex, Timestamp};

use crate::client::Client;
use crate::nodes::Spot;
use crate::route::Route;

/// A clock that is behind what it said by no more than this stands still.
const SLACK_NANOS: u64 = 1_000_000_000;

/// Nothing was heard of a clock.
const UNKNOWN: i64 = i64::MIN;

struct Clock {
    /// By how much it is ahead of the transport's clock.
    ahead: AtomicI64,
    /// The latest time that it said, or that was told of it.
    last: AtomicU64,
}

pub(crate) struct Clocks {
    shards: Box<[Clock]>,
}

impl Clocks {
    pub(crate) fn new() -> Self {
        let clock = |_| Clock { ahead: AtomicI64::new(UNKNOWN), last: AtomicU64::new(0) };
        Self { shards: (0..SHARDS_MAX).map(clock).collect() }
    }

    /// A shard said that it is `time`, which is `now` by the transport's clock. 0: it said nothing of it.
    pub(crate) fn hear(&self, shard: ShardIndex, time: u64, now: u64) {
        let Some(clock) = self.shards.get(usize::from(shard.0)).filter(|_| time != 0) else {
            return;
        };
        clock.ahead.store(time.wrapping_sub(now).cast_signed(), Ordering::Relaxed);
        clock.told(time);
    }

    /// What time it is on a shard if it is `now` by the transport's clock; `None`: it has not said.
    fn at(&self, shard: ShardIndex, now: u64) -> Option<u64> {
        let clock = self.shards.get(usize::from(shard.0))?;
        match clock.ahead.load(Ordering::Relaxed) {
            UNKNOWN => None,
            ahead => Some(clock.told(now.wrapping_add_signed(ahead))),
        }
    }
}

impl Clock {
    /// It does not go back, but where it was set back.
    fn told(&self, time: u64) -> u64 {
        let last = self.last.fetch_max(time, Ordering::Relaxed);
        if last.saturating_sub(time) > SLACK_NANOS {
            self.last.store(time, Ordering::Relaxed);
            return time;
        }
        last.max(time)
    }
}

impl Client {
    /// The shard that has a file, as far as is known without asking.
    pub fn shard_of(&self, ino: Ino) -> ShardIndex {
        let route = match self.nodes.find(ino) {
            Ok(Spot::File(at)) => Route::of_file(ino, &at, &self.secrets),
            Ok(Spot::Dir(dir)) => Route::Home(dir),
            Err(_) => Route::Link(ino),
        };
        self.routes.shard(route)
    }

    /// What time it is on a shard: what a change that it is told of later is stamped with. This machine's time, while it has answered
    /// nothing yet.
    pub fn time_at(&self, shard: ShardIndex) -> Timestamp {
        let here = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        };
        let now = self.transport.now_nanos();
        Timestamp::from_nanos(self.clocks.at(shard, now).unwrap_or_else(here))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardIndex = ShardIndex(3);
    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_shards_time_goes_on_from_its_last_answer_and_does_not_go_back() {
        let clocks = Clocks::new();
        assert_eq!(clocks.at(SHARD, 50), None);
        clocks.hear(SHARD, 0, 50);
        assert_eq!(clocks.at(SHARD, 50), None);
        clocks.hear(SHARD, 1_000, 50);
        assert_eq!(clocks.at(SHARD, 60), Some(1_010));
        // An answer that was long on its way.
        clocks.hear(SHARD, 1_005, 70);
        assert_eq!(clocks.at(SHARD, 71), Some(1_010));
        assert_eq!(clocks.at(SHARD, 90), Some(1_025));
        assert_eq!(clocks.at(ShardIndex(4), 90), None);
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        let clocks = Clocks::new();
        clocks.hear(SHARD, 10 * HOUR, 50);
        assert_eq!(clocks.at(SHARD, 60), Some(10 * HOUR + 10));
        clocks.hear(SHARD, 9 * HOUR, 70);
        assert_eq!(clocks.at(SHARD, 80), Some(9 * HOUR + 10));
    }

    #[test]
    fn a_transport_whose_clock_is_ahead_of_all_time_says_the_same() {
        let clocks = Clocks::new();
        clocks.hear(SHARD, 5, u64::MAX - 10);
        assert_eq!(clocks.at(SHARD, u64::MAX), Some(15));
    }
}
