//! Waiting for the end of a mount, and coming to it.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pando_fuse::Mounted;
use signal_hook::consts::SIGTERM;

use crate::signals::Stop;

/// How often a look is taken whether somebody else has unmounted.
const LOOK: Duration = Duration::from_millis(200);
/// A busy mount is tried again for this long before the user is told.
const BUSY_FOR: Duration = Duration::from_secs(5);
/// After a detach, programs may go on for this long.
const LINGER: Duration = Duration::from_secs(3);

/// Returns when the mount is gone, for whatever reason, or left behind.
pub fn serve_until_unmounted(mounted: &Mounted, stops: &Receiver<Stop>) {
    wait(mounted, stops);
    await_end(mounted);
}

/// Returns once the mount is gone, or is to be left behind.
fn wait(mounted: &Mounted, stops: &Receiver<Stop>) {
    loop {
        match stops.recv_timeout(LOOK) {
            Ok(Stop::Asked) => return,
            Ok(Stop::Signal(signal)) => {
                if unmount(mounted, stops, signal) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) if mounted.is_over() => {
                eprintln!("pando: {} was unmounted", mounted.mountpoint().display());
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Tries for a while; a second signal, or SIGTERM, does not wait for programs that use the mount.
fn unmount(mounted: &Mounted, stops: &Receiver<Stop>, signal: i32) -> bool {
    let begun = Instant::now();
    let shown = mounted.mountpoint().display();
    loop {
        let Err(error) = mounted.request_unmount() else { return true };
        let again = matches!(stops.recv_timeout(LOOK), Ok(Stop::Signal(_)));
        let late = begun.elapsed() >= BUSY_FOR;
        if again || (late && signal == SIGTERM) {
            eprintln!("pando: {error}; detaching it from the tree");
            return mounted.detach().is_ok();
        }
        if late {
            eprintln!(
                "pando: {error}: programs have files open or work within {shown}. \
                 End them and press Ctrl-C again, twice to leave them behind"
            );
            return false;
        }
    }
}

/// The kernel ends the session when the last program lets go.
fn await_end(mounted: &Mounted) {
    let begun = Instant::now();
    while !mounted.is_over() && begun.elapsed() < LINGER {
        std::thread::sleep(Duration::from_millis(5));
    }
}
