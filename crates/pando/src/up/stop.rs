//! Waiting for the end, and coming to it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::running::Running;
use super::serve;
use crate::failure::Failure;

/// How often a look is taken whether somebody else has unmounted.
const LOOK: Duration = Duration::from_millis(200);
/// A busy mount is tried again for this long before the user is told.
const BUSY_FOR: Duration = Duration::from_secs(5);
/// After a detach, programs may go on for this long.
const LINGER: Duration = Duration::from_secs(3);

/// Why to stop.
pub enum Stop {
    /// A signal.
    Signal(i32),
    /// `pando down`, which has unmounted already.
    Down,
}

/// Begins to listen: on the admin socket, and for signals.
pub fn listen(running: &Running) -> Result<Receiver<Stop>, Failure> {
    let (sender, stops) = channel();
    serve::serve(running, sender.clone())?;
    watch_signals(sender)
        .map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
    Ok(stops)
}

/// Serves until told to stop, and stops.
pub fn serve_until_stopped(running: Running, stops: &Receiver<Stop>) -> Result<(), Failure> {
    wait(&running, stops);
    let mountpoint = running.mountpoint().to_owned();
    await_end(&running);
    running.finish()?;
    eprintln!("pando: {} is unmounted, all is stored", mountpoint.display());
    Ok(())
}

/// Returns once the mount is gone, or is to be left behind.
fn wait(running: &Running, stops: &Receiver<Stop>) {
    loop {
        match stops.recv_timeout(LOOK) {
            Ok(Stop::Down) => return,
            Ok(Stop::Signal(signal)) => {
                if unmount(running, stops, signal) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) if running.mounted.is_over() => {
                eprintln!("pando: {} was unmounted", running.mountpoint().display());
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Tries for a while; a second signal, or SIGTERM, does not wait for programs that use the mount.
fn unmount(running: &Running, stops: &Receiver<Stop>, signal: i32) -> bool {
    let begun = Instant::now();
    let shown = running.mountpoint().display();
    loop {
        let Err(error) = running.mounted.request_unmount() else { return true };
        let again = matches!(stops.recv_timeout(LOOK), Ok(Stop::Signal(_)));
        let late = begun.elapsed() >= BUSY_FOR;
        if again || (late && signal == SIGTERM) {
            eprintln!("pando: {error}; detaching it from the tree");
            return running.mounted.detach().is_ok();
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
fn await_end(running: &Running) {
    let begun = Instant::now();
    while !running.mounted.is_over() && begun.elapsed() < LINGER {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn watch_signals(stops: Sender<Stop>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let watch = move || {
        for signal in signals.forever() {
            if stops.send(Stop::Signal(signal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("pando-signals".to_owned()).spawn(watch)?;
    Ok(())
}
