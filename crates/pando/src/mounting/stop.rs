//! Waits for the end of a mount, and unmounts it when a signal or a request arrives.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pando_fuse::Mounted;
use signal_hook::consts::SIGTERM;

use crate::console::output::say;
use crate::process::notify;
use crate::process::signals::Stop;

/// Interval of checks whether another process has unmounted the tree.
const LOOK: Duration = Duration::from_millis(200);
/// A busy mount is tried again for this long before the user is told.
const BUSY_FOR: Duration = Duration::from_secs(5);
/// After a detach, programs may use the mount for this long.
const LINGER: Duration = Duration::from_secs(3);
/// After a detach by a command that waits, programs may use the mount for this long.
const LINGER_FORCED: Duration = Duration::from_secs(1);
/// An end within this time needs no notice to the user.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// Serves until the mount is gone, for any reason, or programs that still use it are left behind.
pub fn serve_until_unmounted(mounted: &Mounted, stops: &Receiver<Stop>) {
    let linger = wait(mounted, stops);
    notify::stopping("unmounted; storing what programs wrote");
    await_end(mounted, linger);
}

/// Waits until the mount is to end. Returns how long programs may still use it.
fn wait(mounted: &Mounted, stops: &Receiver<Stop>) -> Duration {
    loop {
        match stops.recv_timeout(LOOK) {
            Ok(Stop::Asked) => return LINGER,
            Ok(Stop::Forced) => return LINGER_FORCED,
            Ok(Stop::Signal(signal)) => {
                if unmount(mounted, stops, signal) {
                    return LINGER;
                }
            }
            Err(RecvTimeoutError::Timeout) if mounted.is_over() => {
                say!("{} was unmounted", mounted.mountpoint().display());
                return LINGER;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return LINGER,
        }
    }
}

/// Tries to unmount for up to `BUSY_FOR`. A second signal, or `SIGTERM` after that time, detaches
/// the mount though programs use it. Returns whether the tree is unmounted.
fn unmount(mounted: &Mounted, stops: &Receiver<Stop>, signal: i32) -> bool {
    let begun = Instant::now();
    let shown = mounted.mountpoint().display();
    loop {
        let Err(error) = mounted.request_unmount() else { return true };
        let again = matches!(stops.recv_timeout(LOOK), Ok(Stop::Signal(_)));
        let late = begun.elapsed() >= BUSY_FOR;
        if again || (late && signal == SIGTERM) {
            say!("{error}; detaching it from the tree");
            return mounted.detach().is_ok();
        }
        if late {
            say!(
                "{error}: programs have files open or work within {shown}. \
                 End them and press Ctrl-C again, twice to leave them behind"
            );
            return false;
        }
    }
}

/// Waits until the session is over or `linger` has passed. The kernel ends the session when the
/// last program closes its files.
fn await_end(mounted: &Mounted, linger: Duration) {
    let begun = Instant::now();
    while !mounted.is_over() && begun.elapsed() < linger {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a value from `ended`. `None`: a signal came, or the sender is gone.
///
/// Only a signal after the notice counts. Earlier signals were meant for the mount.
pub fn await_unless_stopped<T>(
    ended: &Receiver<T>,
    stops: &Receiver<Stop>,
    notice: impl FnOnce() -> String,
) -> Option<T> {
    match ended.recv_timeout(QUIET_FOR) {
        Ok(end) => return Some(end),
        Err(RecvTimeoutError::Disconnected) => return None,
        Err(RecvTimeoutError::Timeout) => {}
    }
    while stops.try_recv().is_ok() {}
    say!("{}", notice());
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(end) => return Some(end),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        while let Ok(stop) = stops.try_recv() {
            if matches!(stop, Stop::Signal(_)) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_a_signal_after_the_notice_ends_the_wait() {
        let ((tell, ended), (stop, stops)) = (channel(), channel());
        tell.send(1).unwrap();
        assert_eq!(await_unless_stopped(&ended, &stops, || unreachable!()), Some(1));
        stop.send(Stop::Signal(SIGTERM)).unwrap();
        let late = || {
            stop.send(Stop::Asked).unwrap();
            std::thread::spawn({
                let tell = tell.clone();
                move || {
                    std::thread::sleep(2 * LOOK);
                    tell.send(2).unwrap();
                }
            });
            String::new()
        };
        assert_eq!(await_unless_stopped(&ended, &stops, late), Some(2));
        let signal = || {
            stop.send(Stop::Signal(SIGTERM)).unwrap();
            String::new()
        };
        assert_eq!(await_unless_stopped(&ended, &stops, signal), None);
    }
}
