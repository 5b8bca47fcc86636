//! System calls that rustix has not: processes with a pidfd from the start, and signals as
//! descriptors. All `unsafe` code of this crate is here.
//!
//! A child is a copy of its parent with one thread only. Another thread of the parent may have held
//! any lock. So until a child runs a program or ends, it makes system calls and nothing else.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::program::Program;

/// Exit code of a child whose program could not be run, as shells have it.
const NOT_RUN: c_int = 127;

/// Signals that a keeper passes on.
pub(crate) const PASSED_ON: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Arguments of `clone3`, first version (`struct clone_args`, 64 bytes).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// Starts a program in a process group of its own, with `stdin` as its standard input. It has no
/// signal blocked. Returns its pidfd.
pub(crate) fn spawn(program: &Program, stdin: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let (arguments, environment) = (program.arguments(), program.environment());
    let (file, stdin) = (program.file.as_raw_fd(), stdin.as_raw_fd());
    // SAFETY: the child makes system calls only. Both lists end with a null pointer, and live in
    // `program`, of which the child has a copy. The signal set is made before it is used.
    unsafe {
        fork(|| {
            let mut none = MaybeUninit::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
            libc::setpgid(0, 0);
            if libc::dup2(stdin, 0) == 0 {
                let flags = libc::AT_EMPTY_PATH;
                let path = c"".as_ptr();
                libc::syscall(libc::SYS_execveat, file, path, arguments, environment, flags);
            }
            NOT_RUN
        })
    }
}

/// Starts a process that looks up a name in `directory` and ends. It has no copy of `channel`: the
/// end of that would else not reach it. Returns its pidfd.
pub(crate) fn look_up_apart(
    directory: BorrowedFd<'_>,
    channel: BorrowedFd<'_>,
) -> Result<OwnedFd, Errno> {
    let (directory, channel) = (directory.as_raw_fd(), channel.as_raw_fd());
    // SAFETY: the child makes two system calls. One takes a string that ends with 0. The descriptor
    // that the other one closes is the child's copy, which nothing else in the child uses.
    unsafe {
        fork(|| {
            libc::close(channel);
            libc::faccessat(directory, c"probe".as_ptr(), libc::F_OK, 0);
            0
        })
    }
}

/// Makes a child that runs `work` and ends with the code that it returns.
///
/// # Safety
///
/// `work` may make system calls only. It may neither allocate nor panic.
unsafe fn fork(work: impl FnOnce() -> c_int) -> Result<OwnedFd, Errno> {
    let mut pidfd: c_int = -1;
    let arguments = CloneArgs {
        flags: libc::CLONE_PIDFD as u64,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: the structure has the length that is named. Without CLONE_VM and a stack this is a
    // fork: the child goes on with a copy of all memory. The kernel stores the descriptor into
    // `pidfd` before the call returns to the parent.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArgs>()) };
    match pid {
        0 => {
            let code = work();
            // SAFETY: ends the child at once, without running anything of the parent's.
            unsafe { libc::_exit(code) }
        }
        // SAFETY: the kernel has just made this descriptor for this process.
        1.. => Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }),
        _ => Err(last_error()),
    }
}

/// Blocks [`PASSED_ON`] for this thread, and returns a descriptor that they are read from.
pub(crate) fn signals() -> Result<OwnedFd, Errno> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the set is made before it is used, and the pointers are valid during each call. The
    // descriptor is new.
    unsafe {
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in PASSED_ON {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(last_error());
        }
        match libc::signalfd(-1, set.as_ptr(), flags) {
            -1 => Err(last_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
