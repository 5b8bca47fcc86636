//! The pace of a scrub: when the next stretch of a store's index files is read.
//!
//! A store earns as many bytes as it has, each period, and spends them by reading. So everything is
//! read once a period, whatever its size. What was earned while writers were slowed is read later,
//! at no more than twice the pace.

/// Time between two looks at a store, nanoseconds.
pub(crate) const TICK: u64 = 1_000_000_000;
/// Bytes that are read at once, unless the pace needs more or the store has less.
const STEP_BYTES: u64 = 1 << 20;
/// Time after which the size of the store is looked at again, nanoseconds.
const SIZE_NANOS: u64 = 60 * TICK;
/// Time after which it is noted how far the scrub is, nanoseconds.
const NOTE_NANOS: u64 = 600 * TICK;

/// The pace of a store's scrub. All times are of one clock that never goes back, in nanoseconds.
#[derive(Default)]
pub(crate) struct Pace {
    /// When bytes were earned last. 0: never.
    looked_at: u64,
    sized_at: u64,
    noted_at: u64,
    /// Bytes of all index files.
    total: u64,
    /// Bytes that may be read now. What was read too much is owed.
    credit: i128,
}

impl Pace {
    /// Earns what is due since the last call. `total` tells the bytes of all files. Returns how
    /// many bytes are to be read now. `None`: none.
    pub(crate) fn due(
        &mut self,
        now: u64,
        period: u64,
        total: impl FnOnce() -> u64,
    ) -> Option<u64> {
        if self.looked_at == 0 {
            *self =
                Self { looked_at: now, sized_at: now, noted_at: now, total: total(), credit: 0 };
            return None;
        }
        if now.saturating_sub(self.sized_at) >= SIZE_NANOS {
            (self.sized_at, self.total) = (now, total());
        }
        let per = |nanos: u64| u128::from(self.total) * u128::from(nanos) / u128::from(period);
        let earned = per(now.saturating_sub(self.looked_at));
        if earned == 0 {
            // What is less than a byte is earned together with the next.
            return None;
        }
        // What is left of the time earns the next byte.
        let spent = earned * u128::from(period) / u128::from(self.total);
        self.looked_at = self.looked_at.saturating_add(u64::try_from(spent).unwrap_or(u64::MAX));
        let most = i128::from(self.total);
        self.credit = (self.credit + earned.cast_signed()).min(most);
        if self.credit < i128::from(STEP_BYTES.min(self.total)) {
            return None;
        }
        let step = (2 * per(TICK)).max(u128::from(STEP_BYTES)).min(self.credit.cast_unsigned());
        u64::try_from(step).ok()
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        self.credit -= i128::from(bytes);
    }

    pub(crate) fn wants_note(&mut self, now: u64) -> bool {
        let is_due = now.saturating_sub(self.noted_at) >= NOTE_NANOS;
        if is_due {
            self.noted_at = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400 * TICK;
    const PERIOD: u64 = 14 * DAY;

    /// Reads as the pace says, a look each `tick`, for `span`. Returns the bytes read, and the most
    /// at one look.
    fn read(pace: &mut Pace, from: u64, span: u64, tick: u64, total: u64) -> (u64, u64) {
        let (mut sum, mut most) = (0, 0);
        for now in (from..=from + span).step_by(usize::try_from(tick).unwrap()) {
            if let Some(bytes) = pace.due(now, PERIOD, || total) {
                pace.spend(bytes);
                sum += bytes;
                most = most.max(bytes);
            }
        }
        (sum, most)
    }

    #[test]
    fn everything_is_read_once_a_period_whatever_its_size() {
        for total in [1, 5000, 3 << 20, 10 << 30, 50 << 40] {
            let mut pace = Pace::default();
            let (sum, _) = read(&mut pace, 1, PERIOD, 100 * TICK, total);
            let step = STEP_BYTES.min(total);
            // A look each 100 s cannot keep the pace of the largest store.
            let least = if total > 1 << 40 { 0 } else { total - step };
            assert!((least..=total).contains(&sum), "{sum} of {total}");
        }
    }

    #[test]
    fn a_large_store_keeps_its_pace_and_nothing_is_read_in_bursts() {
        let total = 50 << 40;
        let mut pace = Pace::default();
        let (sum, most) = read(&mut pace, 1, DAY, TICK, total);
        let day = total / 14;
        // Each look may earn the bytes of a nanosecond too much.
        assert!((day - most..=day + day / 1_000_000).contains(&sum), "{sum} of {day}");
        // A pause of a day is made up for at twice the pace.
        let (later, burst) = read(&mut pace, 2 * DAY, DAY, TICK, total);
        assert!(burst <= 2 * (total / (14 * 86_400) + 1), "{burst} after {most}");
        assert!((2 * day - 2 * burst..=2 * day + burst).contains(&later), "{later} of {day}");
    }

    #[test]
    fn what_was_read_too_much_is_waited_for() {
        let mut pace = Pace::default();
        let total = 100 << 20;
        assert_eq!(pace.due(1, PERIOD, || total), None);
        let first = (1..).find_map(|day| Some((day, pace.due(1 + day * DAY, PERIOD, || total)?)));
        assert_eq!(first.map(|(day, _)| day), Some(1));
        // A step reads whole blocks, and the end of the file.
        pace.spend(30 << 20);
        let next = (2..).find(|day| pace.due(1 + day * DAY, PERIOD, || total).is_some());
        assert_eq!(next, Some(5), "30 MiB at 7.1 MiB a day");
    }
}
