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

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::session::Session;

/// Time between two looks. A thread that works on one request from one look to the next is
/// relieved.
const TICK: Duration = Duration::from_millis(10);
/// Looks without activity after which the watch sleeps.
const QUIET_TICKS: u32 = 100;
/// Number of looks for each look at the callers.
const CALLERS_EVERY: u32 = 10;
/// How long an exiting process waits for a `close`.
const AT_EXIT: Duration = Duration::from_secs(1);

/// Wakes and stops the watch.
#[derive(Default)]
pub(super) struct Watch {
    is_asleep: AtomicBool,
    state: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    /// Wakes the watch if it sleeps. Otherwise it costs next to nothing.
    pub(super) fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_asleep.store(false, Ordering::SeqCst);
            self.changed.notify_all();
        }
    }

    /// Ends the watch.
    pub(super) fn stop(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for one tick. If all is `quiet` and stays so, waits until something happens. Returns
    /// false if the watch should end.
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
    /// The watch's loop.
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

    /// Whether no stamp has changed since `seen`, and no request is pending.
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

    /// Answers a request with `EINTR` in place of its handler.
    pub(super) fn cut_short(&self, unique: u64) {
        if let Some(request) = self.pending.end(unique) {
            // If the write fails, the caller is gone.
            let _ = self.write(request.channel, unique, Errno::INTR.raw_os_error(), &[]);
        }
    }
}

/// Whether a thread is being killed, is exiting, or is gone. A signal that kills without a core
/// file becomes a SIGKILL of each thread.
pub(super) fn is_doomed(pid: u32) -> bool {
    if pid == 0 {
        // The caller is in a container, and its processes are not visible here.
        return false;
    }
    // `/proc/PID/stat` does not suffice. Reading it waits for a process in the middle of `execve`,
    // which may wait for this mount.
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

/// Whether a process is exiting. It gives up its memory before it closes its files.
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
