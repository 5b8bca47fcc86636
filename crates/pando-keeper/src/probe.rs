//! Which mode this kernel allows.
//!
//! RESEND came with Linux 6.9. Before the fix of CVE-2026-64265 it left a request in the kernel's
//! list of interrupts. A signal, RESEND and SIGKILL then freed a request that was still listed. So
//! RESEND is never written for a mount's users there. A distribution's number does not tell
//! which fixes it has. The probe does: it makes a mount that is attached nowhere, and looks whether
//! a RESEND takes the interrupt back. Nobody is killed in it, so nothing is freed early.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::channels::{
    INIT, INTERRUPT, LOOKUP, REQUEST_MAX, RESENT, Request, read, refuse, resend, write,
};
use crate::kernel::look_up_apart;
use crate::message::Mode;

/// Longest wait for the kernel. It needs microseconds.
const LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Answer to INIT: version 7.31, and nothing asked for.
const INIT_OUT: [u32; 16] = [7, 31, 0, 0, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// First versions with the fix, of each series that has it; all later series have it.
const FIXED: [[u32; 3]; 3] = [[6, 12, 96], [6, 18, 39], [7, 1, 4]];

/// Finds the mode that this kernel allows. Without the right to mount, its version decides.
#[must_use]
pub fn mode_here() -> Mode {
    let is_fixed = is_fixed().unwrap_or_else(|_| {
        let release = rustix::system::uname();
        is_fixed_in(&release.release().to_string_lossy())
    });
    if is_fixed { Mode::Resend } else { Mode::Clones }
}

/// Runs the probe. Fails if it cannot be run.
fn is_fixed() -> io::Result<bool> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let channel = rustix::fs::open("/dev/fuse", flags, FileMode::empty())?;
    let mount = detached(&channel)?;
    let mut buffer = vec![0; REQUEST_MAX];
    let init = next(&channel, &mut buffer)?;
    if init.opcode != INIT {
        return Err(Errno::PROTO.into());
    }
    write(&channel, init.unique, 0, &INIT_OUT.map(u32::to_ne_bytes).concat())?;
    let waiting = look_up_apart(mount.as_fd(), channel.as_fd())?;
    let found = with_interrupt(&channel, &waiting, &mut buffer);
    // The end of the connection frees the process, whatever has happened.
    drop((channel, mount));
    let _ = pidfd_send_signal(&waiting, Signal::CONT);
    waitid(WaitId::PidFd(waiting.as_fd()), WaitIdOptions::EXITED)?;
    found
}

/// Makes a mount that is attached nowhere.
fn detached(channel: &OwnedFd) -> io::Result<OwnedFd> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "fd", channel.as_raw_fd().to_string())?;
    fsconfig_set_string(&context, "rootmode", "40000")?;
    fsconfig_set_string(&context, "user_id", uid.as_raw().to_string())?;
    fsconfig_set_string(&context, "group_id", gid.as_raw().to_string())?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// A process waits for its lookup. It gets a signal, and RESEND is written before the INTERRUPT is
/// read. With the fix the request comes first, without it the stale INTERRUPT.
fn with_interrupt(channel: &OwnedFd, waiting: &OwnedFd, buffer: &mut [u8]) -> io::Result<bool> {
    let lookup = next(channel, buffer)?;
    if lookup.opcode != LOOKUP {
        return Err(Errno::PROTO.into());
    }
    // It is stopped once it has its answer. The signal that stops it interrupts its request now.
    pidfd_send_signal(waiting, Signal::STOP)?;
    await_request(channel)?;
    match resend(channel) {
        Err(Errno::INVAL) => return Ok(false),
        resent => resent?,
    }
    let mut request = next(channel, buffer)?;
    let is_fixed = request.opcode != INTERRUPT;
    while request.opcode == INTERRUPT {
        request = next(channel, buffer)?;
    }
    if request.unique != lookup.unique | RESENT {
        return Err(Errno::PROTO.into());
    }
    refuse(channel, request.unique, Errno::NOENT)?;
    Ok(is_fixed)
}

fn await_request(channel: &OwnedFd) -> io::Result<()> {
    let mut ready = [PollFd::new(channel, PollFlags::IN)];
    match poll(&mut ready, Some(&LIMIT)) {
        Ok(0) => Err(Errno::TIMEDOUT.into()),
        polled => Ok(polled.map(drop)?),
    }
}

fn next(channel: &OwnedFd, buffer: &mut [u8]) -> io::Result<Request> {
    await_request(channel)?;
    Ok(read(channel, buffer)?.ok_or(Errno::PROTO)?)
}

fn is_fixed_in(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let mut number = || numbers.next().unwrap_or(0);
    let version = [number(), number(), number()];
    let newest = FIXED[FIXED.len() - 1];
    FIXED.iter().any(|fixed| fixed[..2] == version[..2] && *fixed <= version) || version >= newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_tells_where_the_probe_cannot_run() {
        for with in ["6.12.96", "6.12.100-1-amd64", "6.18.39", "7.1.4", "7.2.0-rc1", "8.0"] {
            assert!(is_fixed_in(with), "{with}");
        }
        for without in
            ["6.1.0-18-amd64", "6.12.95", "6.13.12", "6.18.38", "6.19.90", "7.1.3", "7.0.9", ""]
        {
            assert!(!is_fixed_in(without), "{without}");
        }
    }

    /// Fails if mounting is impossible.
    #[test]
    fn the_probe_agrees_with_itself() {
        let found = is_fixed().expect("this test needs to mount");
        assert_eq!(is_fixed().unwrap(), found);
        if is_fixed_in(&rustix::system::uname().release().to_string_lossy()) {
            assert!(found, "a kernel of that number has the fix");
        }
    }
}
