//! The watch: a thread that runs while requests are pending, and sleeps otherwise. It relieves
//! threads that work on one request for long. It answers requests for which the caller wants to
//! wait no longer.
//!
//! **Signals.** Linux sends one INTERRUPT for a request when a signal comes to its caller. It goes
//! on to wait for the answer, even if the signal kills. So the watch keeps these rules:
//! - A caller that is being killed, is exiting or is gone gets `EINTR` at once, whatever it waits
//!   for.
//! - After any other signal an operation has some more time. Programs do not expect `stat` or
//!   `mkdir` to fail with `EINTR` because of a timer. Most operations are done before that time is
//!   up.
//! - An operation that is cut short goes on in the background, since a shard may have run it
//!   already. Its answer does not reach the kernel. What it would leave behind (an open, a lookup)
//!   is undone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::doomed::is_doomed;
use crate::device::pending::Doubtful;
use crate::device::session::Session;

/// Looks without activity after which the watch sleeps.
const QUIET_TICKS: u32 = 100;
/// Number of looks for each look at the callers.
const CALLERS_EVERY: u32 = 10;
/// How long an exiting process waits for a `close`.
const AT_EXIT: Duration = Duration::from_secs(1);

impl Session {
    /// The watch's loop.
    pub(crate) fn look_on(self: &Arc<Self>) {
        let mut seen: Vec<u64> = self.reader_pool.stamps().collect();
        let (mut quiet_ticks, mut ticks) = (0, 0u32);
        loop {
            if !self.watch.wait(quiet_ticks >= QUIET_TICKS, || self.is_quiet(&seen)) {
                return;
            }
            ticks = ticks.wrapping_add(1);
            quiet_ticks = if self.is_quiet(&seen) { quiet_ticks + 1 } else { 0 };
            for (role, (now, before)) in self.reader_pool.stamps().zip(&mut seen).enumerate() {
                if now == *before && now % 2 == 1 {
                    self.relieve(role, now);
                }
                *before = now;
            }
            if ticks.is_multiple_of(CALLERS_EVERY) {
                self.look_after_callers();
            }
        }
    }

    /// Whether no stamp has changed since `seen`, and no request is pending.
    fn is_quiet(&self, seen: &[u64]) -> bool {
        self.reader_pool.stamps().eq(seen.iter().copied()) && self.pending.is_empty()
    }

    fn look_after_callers(&self) {
        for Doubtful { unique, pid, is_up } in self.pending.doubtful(Instant::now(), AT_EXIT) {
            if is_up || is_doomed(pid) {
                self.cut_short(unique);
            }
        }
    }
}
