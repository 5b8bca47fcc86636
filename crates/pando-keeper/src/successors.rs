//! When the keeper may start the next successor, and when it gives the mount up.

use std::time::{Duration, Instant};

/// Largest number of successors within one lease.
const STARTS_MAX: usize = 5;
/// The first successors are started at once. Before each later one the pause grows by this part of
/// the lease: a cause that lasts a few seconds does not use up all starts.
const PAUSE_PART: u32 = 20;
const AT_ONCE: u32 = 2;

/// Counts starts of successors.
#[derive(Debug)]
pub(crate) struct Successors {
    lease: Duration,
    /// Times of the last starts since a server process served well, the oldest first.
    starts: [Option<Instant>; STARTS_MAX],
    /// Since when no process serves.
    died: Option<Instant>,
    /// When the next one may be started.
    next: Option<Instant>,
}

impl Successors {
    pub(crate) const fn new(lease: Duration) -> Self {
        Self { lease, starts: [None; STARTS_MAX], died: None, next: None }
    }

    /// A server process, or one that was to become it, has died.
    pub(crate) fn died(&mut self, now: Instant) {
        self.died.get_or_insert(now);
        let recent = |at: &Instant| now.saturating_duration_since(*at) < self.lease;
        let count = self.starts.iter().flatten().filter(|at| recent(at)).count() as u32;
        let pause = self.lease / PAUSE_PART * (count + 1).saturating_sub(AT_ONCE);
        let paused = now + pause;
        // The oldest start has to be a lease ago before there is another one.
        let room = self.starts[0].map_or(paused, |oldest| oldest + self.lease);
        self.next = Some(paused.max(room));
    }

    /// A successor was started.
    pub(crate) fn started(&mut self, now: Instant) {
        self.next = None;
        self.starts.rotate_left(1);
        self.starts[STARTS_MAX - 1] = Some(now);
    }

    /// A successor has the channels.
    pub(crate) fn goes(&mut self) {
        self.died = None;
    }

    /// The successor serves well.
    pub(crate) fn serves_well(&mut self) {
        self.starts = [None; STARTS_MAX];
    }

    /// Whether a successor is to be started now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    /// Whether no process has served for a lease.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.died.is_some_and(|at| at + self.lease <= now)
    }

    /// How long nothing is to be done.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let over = self.died.map(|at| at + self.lease);
        let first = [over, self.next].into_iter().flatten().min()?;
        Some(first.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    #[test]
    fn at_most_five_are_started_in_a_lease_even_if_each_one_gets_to_serve() {
        let mut now = Instant::now();
        let mut successors = Successors::new(LEASE);
        let mut starts = Vec::new();
        while starts.len() < 12 {
            successors.died(now);
            now += successors.wait(now).unwrap();
            assert!(successors.is_due(now) && !successors.is_over(now));
            successors.started(now);
            starts.push(now);
            successors.goes();
            assert_eq!(successors.wait(now), None);
        }
        assert_eq!(starts[1], starts[0], "a second crash makes nobody wait");
        assert!(starts.windows(6).all(|some| some[5] - some[0] >= LEASE), "{starts:?}");
        successors.serves_well();
        successors.died(now);
        assert!(successors.is_due(now), "one that served well is replaced at once");
    }

    #[test]
    fn a_mount_is_given_up_after_a_lease_without_a_process_that_serves() {
        let begun = Instant::now();
        let mut now = begun;
        let mut successors = Successors::new(LEASE);
        let mut starts = 0;
        successors.died(now);
        while !successors.is_over(now) {
            if successors.is_due(now) {
                successors.started(now);
                starts += 1;
                // It ends before it has the channels.
                successors.died(now);
            }
            now += successors.wait(now).unwrap();
        }
        assert_eq!((starts, now - begun), (STARTS_MAX, LEASE));
    }
}
