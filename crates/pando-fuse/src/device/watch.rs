//! The watch: a thread that looks on while requests are under way, and sleeps when there are none.
//! It relieves who works on one thing for long, and answers for those whose caller wants to wait no
//! longer.
//!
//! **Signals.** Linux tells us when a signal comes to whoever waits (once a request), and goes on
//! to wait for our answer, even if the signal kills. So:
//! - a caller that is being killed, is ending or is gone gets `EINTR` at once, whatever it waits
//!   for;
//! - for any other signal, an operation has some more time: programs do not expect `stat` or
//!   `mkdir` to fail with `EINTR` for an alarm clock, and most operations are done before anybody
//!   looks;
//! - what is cut short goes on behind the scenes: nobody can know whether a shard ran it. Its
//!   answer finds nobody, and what it would leave behind (an open, a lookup) is taken back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::session::Session;

/// How often it looks. Who worked on one thing from one look to the next is relieved.
const TICK: Duration = Duration::from_millis(10);
/// Looks without any activity after which it sleeps.
const QUIET_TICKS: u32 = 100;
/// Of how many looks one is for the callers.
const CALLERS_EVERY: u32 = 10;
/// A process that is ending waits this long for a `close`.
const AT_EXIT: Duration = Duration::from_secs(1);

/// How the watch is woken, and sent home.
#[derive(Default)]
pub(super) struct Watch {
    is_asleep: AtomicBool,
    state: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// Something is under way. Costs next to nothing unless the watch sleeps.
    pub(super) fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_asleep.store(false, Ordering::SeqCst);
            self.changed.notify_all();
        }
    }

    /// Ends it.
    pub(super) fn stop(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for a tick; or, if all is `quiet` and stays so, until something happens. False: it is
    /// over.
    fn wait(&self, quiet: bool, is_still_quiet: impl FnOnce() -> bool) -> bool {
        let mut is_over = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return false;
        }
        if quiet {
            self.is_asleep.store(true, Ordering::SeqCst);
            if !is_still_quiet() {
                self.is_asleep.store(false, Ordering::SeqCst);
            }
            while self.is_asleep.load(Ordering::SeqCst) && !*is_over {
                is_over = self.changed.wait(is_over).unwrap_or_else(PoisonError::into_inner);
            }
            self.is_asleep.store(false, Ordering::SeqCst);
        } else {
            let wait = self.changed.wait_timeout(is_over, TICK);
            is_over = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        !*is_over
    }
}

impl Session {
    /// The thread's work.
    pub(super) fn look_on(self: &Arc<Self>) {
        let mut seen: Vec<u64> = self.crew.stamps().collect();
        let (mut quiet_ticks, mut ticks) = (0, 0u32);
        loop {
            if !self.watch.wait(quiet_ticks >= QUIET_TICKS, || self.is_quiet(&seen)) {
                return;
            }
            ticks = ticks.wrapping_add(1);
            quiet_ticks = if self.is_quiet(&seen) { quiet_ticks + 1 } else { 0 };
            for (role, (now, before)) in self.crew.stamps().zip(&mut seen).enumerate() {
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

    /// Whether nobody did anything since, and nothing is under way.
    fn is_quiet(&self, seen: &[u64]) -> bool {
        self.crew.stamps().eq(seen.iter().copied()) && self.pending.is_empty()
    }

    fn look_after_callers(&self) {
        for (unique, pid, is_up) in self.pending.doubtful(Instant::now(), AT_EXIT) {
            if is_up || is_doomed(pid) {
                self.cut_short(unique);
            }
        }
    }

    /// Answers `EINTR` in the handler's stead.
    pub(super) fn cut_short(&self, unique: u64) {
        if let Some(request) = self.pending.end(unique) {
            // Whoever cannot be told is not there any more.
            let _ = self.write(request.channel, unique, Errno::INTR.raw_os_error(), &[]);
        }
    }
}

/// Whether a thread is being killed, is ending, or is gone. A signal that kills without a core file
/// becomes a SIGKILL of each thread.
pub(super) fn is_doomed(pid: u32) -> bool {
    if pid == 0 {
        // In a container whose processes we do not see.
        return false;
    }
    // `stat` would not do: reading it waits for a process in the middle of `execve`, which may be
    // waiting for us.
    match std::fs::read(format!("/proc/{pid}/status")) {
        Ok(status) => is_being_killed(&status) || is_ending(&status),
        Err(error) => {
            error.kind() == std::io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
        }
    }
}

fn is_being_killed(status: &[u8]) -> bool {
    const SIGKILL: u64 = 1 << 8;
    status.split(|&byte| byte == b'\n').any(|line| {
        let mask = line.strip_prefix(b"SigPnd:").or_else(|| line.strip_prefix(b"ShdPnd:"));
        let digits = mask.and_then(|mask| str::from_utf8(mask.trim_ascii()).ok());
        digits
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .is_some_and(|mask| mask & SIGKILL != 0)
    })
}

/// Whoever ends gives its memory up first, then closes its files.
fn is_ending(status: &[u8]) -> bool {
    !status.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"VmSize:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_tells_who_is_doomed() {
        assert!(!is_doomed(0));
        assert!(!is_doomed(std::process::id()));
        assert!(is_doomed(u32::MAX));
        assert!(is_being_killed(b"Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0\n"));
        assert!(is_being_killed(b"SigPnd:\t0\nShdPnd:\t0000000000000102\n"));
        assert!(!is_being_killed(b"SigPnd:\t0000000000000002\nShdPnd:\t0\nSigBlk:\t0100\n"));
        assert!(is_ending(b"Name:\tx\nState:\tS (sleeping)\nThreads:\t1\n"));
        assert!(!is_ending(b"Name:\tx\nVmPeak:\t  10 kB\nVmSize:\t  10 kB\n"));
    }
}
