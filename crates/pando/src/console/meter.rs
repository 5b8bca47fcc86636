//! Progress of long work where standard error is no terminal: a line at intervals, and a last one.
//! On a terminal the command draws a bar instead. Standard output is for results.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::console::text::{bytes, count};

/// The unit of progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    HashSlots,
    Bytes,
}

/// Prints progress lines on standard error.
pub struct Meter {
    /// `None` on a terminal.
    lines: Option<Lines>,
}

impl Meter {
    /// A meter for the work `what` that prints a line at most once in `every`.
    pub fn new(what: &str, unit: Unit, every: Duration) -> Self {
        let is_wanted = !std::io::stderr().is_terminal();
        Self { lines: is_wanted.then(|| Lines::new(what, unit, every, Instant::now())) }
    }

    /// Takes the progress so far, and prints a line if one is due.
    pub fn tell(&mut self, stage: &str, done: u64, total: u64) {
        let line = self.lines.as_mut().and_then(|it| it.at(Instant::now(), stage, done, total));
        line.iter().for_each(|line| say(line));
    }

    /// Prints the last line, with the final amount. If `tell` was never called, it prints nothing.
    pub fn finish(self, done: u64) {
        let line = self.lines.and_then(|lines| lines.last(Instant::now(), done));
        line.iter().for_each(|line| say(line));
    }
}

/// Prints a line. An error is ignored: a closed standard error does not fail the work.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Composes the lines. All times are parameters, so that tests need no clock.
struct Lines {
    what: String,
    unit: Unit,
    every: Duration,
    next: Instant,
    /// Time of the first call of `at`, and the amount done then. An earlier command may have done
    /// that part.
    began: (Instant, Option<u64>),
}

impl Lines {
    fn new(what: &str, unit: Unit, every: Duration, now: Instant) -> Self {
        let (what, next, began) = (what.to_owned(), now + every, (now, None));
        Self { what, unit, every, next, began }
    }

    fn at(&mut self, now: Instant, stage: &str, done: u64, total: u64) -> Option<String> {
        if self.began.1.is_none_or(|before| done < before) {
            // This is the first call, or the work began anew.
            self.began = (now, Some(done));
        }
        if now < self.next {
            return None;
        }
        self.next = now + self.every;
        let mut line = format!("  {}: ", self.what);
        if !stage.is_empty() {
            line.push_str(&format!("{stage}, "));
        }
        line.push_str(&match self.unit {
            Unit::HashSlots => format!("{} of {} hash slots", count(done), count(total)),
            Unit::Bytes => format!("{} of about {}", bytes(done), bytes(total)),
        });
        if let Some(rate) = self.rate(now, done) {
            line.push_str(&format!(", {} a second", self.amount(rate as u64)));
            if done < total {
                let left = (total - done) as f64 / rate;
                line.push_str(&format!(", {} left", span(left as u64)));
            }
        }
        Some(line)
    }

    fn last(&self, now: Instant, done: u64) -> Option<String> {
        let took = (now - self.began.0).as_secs_f64();
        let here = done.saturating_sub(self.began.1?);
        let rate = self
            .rate(now, done)
            .map_or_else(String::new, |rate| format!(", {} a second", self.amount(rate as u64)));
        let slots = if self.unit == Unit::HashSlots { " hash slots" } else { "" };
        Some(format!("  {}: {}{slots} in {took:.1} s{rate}", self.what, self.amount(here)))
    }

    /// Average rate since the start, per second. `None` if nothing was done.
    fn rate(&self, now: Instant, done: u64) -> Option<f64> {
        let here = done.saturating_sub(self.began.1?);
        let took = (now - self.began.0).as_secs_f64();
        (here > 0 && took > 0.0).then(|| here as f64 / took)
    }

    fn amount(&self, n: u64) -> String {
        match self.unit {
            Unit::HashSlots => count(n),
            Unit::Bytes => bytes(n),
        }
    }
}

/// A duration for people, in seconds, minutes or hours.
fn span(seconds: u64) -> String {
    match seconds {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", count(seconds / 3600), seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(5);

    #[test]
    fn a_line_from_time_to_time_tells_rate_and_time_left_and_one_the_end() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut lines = Lines::new("shard 4", Unit::HashSlots, EVERY, begun);
        assert_eq!(lines.at(at(0), "", 0, 13_124), None);
        assert_eq!(lines.at(at(4), "", 900, 13_124), None);
        let line = lines.at(at(5), "", 1_250, 13_124).unwrap();
        assert_eq!(line, "  shard 4: 1,250 of 13,124 hash slots, 250 a second, 47 s left");
        assert_eq!(lines.at(at(9), "", 1_300, 13_124), None);
        assert_eq!(lines.at(at(50), "", 13_124, 13_124).unwrap().matches("left").count(), 0);
        let last = lines.last(at(50), 13_124);
        assert_eq!(last.unwrap(), "  shard 4: 13,124 hash slots in 50.0 s, 262 a second");
    }

    #[test]
    fn what_others_had_done_before_does_not_count_as_this_rate() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut lines = Lines::new("shard 1", Unit::Bytes, EVERY, begun);
        assert_eq!(lines.at(at(0), "copying", 40 << 20, 100 << 20), None);
        let line = lines.at(at(10), "copying", 50 << 20, 100 << 20).unwrap();
        assert_eq!(
            line,
            "  shard 1: copying, 50.0 MiB of about 100.0 MiB, 1.0 MiB a second, 50 s left"
        );
        // The work begins anew.
        let line = lines.at(at(20), "copying", 0, 100 << 20).unwrap();
        assert_eq!(line, "  shard 1: copying, 0 B of about 100.0 MiB");
        assert_eq!(lines.last(at(21), 0).unwrap(), "  shard 1: 0 B in 1.0 s");
    }

    #[test]
    fn times_are_readable() {
        let spans = [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_300, "2 h 1 min")];
        for (seconds, text) in spans {
            assert_eq!(span(seconds), text);
        }
        // Extreme values must not overflow.
        let begun = Instant::now();
        let mut lines = Lines::new("x", Unit::Bytes, Duration::ZERO, begun);
        lines.at(begun, "", 0, u64::MAX);
        let line = lines.at(begun + Duration::from_secs(86_400), "", 1, u64::MAX).unwrap();
        assert!(line.contains("0 B a second"), "{line}");
    }
}
