//! The time of day on a shard.

/// A shard's time of day, as its answers tell it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Clock {
    /// How far it is ahead of this machine's clock, nanoseconds.
    ahead: Option<i64>,
    /// The same of another shard. It serves until this shard has told its own: a directory may be
    /// lent before its shard was ever asked anything.
    beside: i64,
}

/// How far a time of day is ahead of a moment, nanoseconds.
const fn ahead_of(time: i64, moment: u64) -> i64 {
    time.saturating_sub(moment.cast_signed())
}

impl Clock {
    /// Notes a time that the shard told between the moments `asked` and `now` (0: it told none).
    /// They bound from both sides how far it is ahead. So an answer that was held up moves nothing,
    /// and a clock that was set back is followed.
    pub(crate) fn heard(&mut self, time: u64, (asked, now): (u64, u64)) {
        if let Ok(time @ 1..) = i64::try_from(time) {
            let (least, most) = (ahead_of(time, now), ahead_of(time, asked));
            self.ahead = Some(self.ahead.map_or(least, |ahead| ahead.max(least).min(most)));
        }
    }

    /// Notes another shard's time of day.
    pub(crate) const fn heard_beside(&mut self, time: u64, now: u64) {
        self.beside = ahead_of(time.cast_signed(), now);
    }

    /// The shard's time of day, as far as is known.
    pub(crate) fn at(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.ahead.unwrap_or(self.beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOON: u64 = 500_000 * 3600 * SECOND;

    #[test]
    fn an_answer_that_was_held_up_moves_nothing() {
        let mut clock = Clock::default();
        clock.heard_beside(NOON, 5);
        assert_eq!(clock.at(6), NOON + 1);
        clock.heard(NOON + SECOND, (10, 20));
        assert_eq!(clock.at(21), NOON + SECOND + 1);
        clock.heard_beside(NOON, 21);
        clock.heard(NOON + SECOND, (10, 20 + SECOND));
        clock.heard(0, (20, 21));
        clock.heard(u64::MAX, (20, 21));
        assert_eq!(clock.at(20 + SECOND), NOON + 2 * SECOND);
    }

    #[test]
    fn a_clock_that_was_set_is_followed() {
        let mut clock = Clock::default();
        for time in [NOON, NOON + 9 * SECOND, NOON - 9 * SECOND] {
            clock.heard(time, (10, 20));
            let told = clock.at(20);
            assert!((time..=time + 10).contains(&told), "{told} after {time}");
        }
    }
}
