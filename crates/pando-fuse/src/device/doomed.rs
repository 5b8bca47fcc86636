//! Whether a caller is being killed, is exiting, or is gone, by `/proc`.

use rustix::io::Errno;

/// Whether a thread is being killed, is exiting, or is gone. A signal that kills without a core
/// file becomes a SIGKILL of each thread.
pub(crate) fn is_doomed(pid: u32) -> bool {
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
    fn proc_tells_which_thread_is_doomed() {
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
