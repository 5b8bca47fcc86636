//! Waits for signals and requests that stop the process.

use std::sync::mpsc::{Receiver, Sender, channel};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// The reason to stop.
pub enum Stop {
    /// A signal, with its number.
    Signal(i32),
    /// Another Pando process asked for it. The mount is gone already.
    Asked,
    /// Another Pando process asked for it, while programs may still use the mount. They are left
    /// behind.
    Forced,
}

/// Starts to listen for signals. The returned sender lets other threads request a stop, too.
pub fn listen() -> Result<(Sender<Stop>, Receiver<Stop>), Failure> {
    let (sender, stops) = channel();
    let signals = sender.clone();
    watch(signals).map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
    Ok((sender, stops))
}

fn watch(stops: Sender<Stop>) -> std::io::Result<()> {
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
