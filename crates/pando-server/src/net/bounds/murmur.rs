//! Lines of the log that others can cause. Some may be written at once, then one a second, with the
//! number of those left out.

use std::time::{Duration, Instant};

use pando_net::Closed;
use parking_lot::Mutex;

use crate::common::log::say;

/// A limited source of lines in the log.
pub(crate) struct Murmur {
    /// Lines that may be written at once.
    most: u32,
    /// Words for the lines that were left out, after their number.
    rest: &'static str,
    state: Mutex<State>,
}

struct State {
    /// Lines that may be written now.
    left: u32,
    /// Time up to which `left` is counted.
    since: Option<Instant>,
    untold: u64,
}

impl State {
    /// Whether a line may be written now. If so, counts it.
    fn take(&mut self, most: u32, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let more = now.saturating_duration_since(since).as_secs();
        if more > 0 {
            let left = self.left.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
            self.left = left.min(most);
            // The rest of a second counts only while lines are missing.
            let is_full = self.left == most;
            self.since = Some(if is_full { now } else { since + Duration::from_secs(more) });
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

impl Murmur {
    /// For connections that have proved nothing.
    pub(crate) fn of_strangers() -> Self {
        Self::new(1, "connections were refused, or ended before they were let in")
    }

    /// For connections that were admitted.
    pub(crate) fn of_guests() -> Self {
        Self::new(64, "connections were closed by this server, or were refused an answer")
    }

    fn new(most: u32, rest: &'static str) -> Self {
        let state = State { left: most, since: None, untold: 0 };
        Self { most, rest, state: Mutex::new(state) }
    }

    /// Writes a line, or counts it as left out.
    pub(crate) fn say(&self, what: &str) {
        if let Some(line) = self.line(what, Instant::now()) {
            say(&line);
        }
    }

    /// Writes how many lines were left out, once a line may be written.
    pub(crate) fn say_rest(&self) {
        if let Some(line) = self.rest(Instant::now()) {
            say(&line);
        }
    }

    /// The line to write now. `None`: it is left out.
    fn line(&self, what: &str, now: Instant) -> Option<String> {
        let state = &mut *self.state.lock();
        if !state.take(self.most, now) {
            state.untold += 1;
            return None;
        }
        match std::mem::take(&mut state.untold) {
            0 => Some(what.to_owned()),
            more => Some(format!("{what} (and {more} more such connections before)")),
        }
    }

    /// The line about those that were left out, once a line may be written.
    fn rest(&self, now: Instant) -> Option<String> {
        let state = &mut *self.state.lock();
        if state.untold == 0 || !state.take(self.most, now) {
            return None;
        }
        let more = std::mem::take(&mut state.untold);
        Some(format!("{more} more {}", self.rest))
    }
}

/// Says why a connection was closed. Says nothing if the other side ended it between two frames, or
/// is gone.
pub(crate) fn say_end(murmur: &Murmur, connection: &str, closed: &Closed) {
    match closed {
        Closed::End | Closed::Io(_) => {}
        Closed::Cut => {
            murmur.say(&format!("closed {connection}: it ended in the middle of a frame"))
        }
        Closed::Frame(error) => murmur.say(&format!("closed {connection}: it sent {error}")),
        Closed::Record(error) => murmur.say(&format!("closed {connection}: it sent {error}")),
        Closed::Alert(alert) => murmur.say(&format!("{connection} has ended: {alert}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_line_and_the_rest_is_counted() {
        let murmur = Murmur::of_strangers();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(murmur.line("a", at(0)).as_deref(), Some("a"));
        for millis in 1..1000 {
            assert_eq!(murmur.line("b", at(millis)), None);
        }
        assert_eq!(murmur.rest(at(999)), None);
        let line = murmur.line("c", at(1000)).unwrap();
        assert!(line.starts_with("c ") && line.contains("999"), "{line}");
        assert_eq!(murmur.rest(at(5000)), None);
        assert_eq!(murmur.line("d", at(5000)).as_deref(), Some("d"));
        assert_eq!(murmur.line("e", at(5001)), None);
        assert!(murmur.rest(at(6000)).unwrap().starts_with("1 more"));
        assert_eq!(murmur.rest(at(9000)), None);
    }

    #[test]
    fn an_admitted_peer_causes_some_lines_at_once_and_then_one_a_second() {
        let murmur = Murmur::of_guests();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let said = |millis| murmur.line("x", at(millis)).is_some();
        assert_eq!((0..1000).filter(|_| said(0)).count(), 64);
        assert!(!said(999) && said(1000) && !said(1001) && said(2000) && !said(2001));
        assert!(murmur.rest(at(3000)).unwrap().starts_with("1 more"));
        // After a long time as many lines as at the beginning, and no more.
        assert_eq!((0..1000).filter(|_| said(1_000_000)).count(), 64);
    }
}
