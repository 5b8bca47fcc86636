//! Being told to stop.

use std::sync::mpsc::{Receiver, Sender, channel};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// Why to stop.
pub enum Stop {
    /// A signal.
    Signal(i32),
    /// Another process of ours asked for it. A mount is gone already.
    Asked,
    /// The same; who still uses the mount is left behind.
    Forced,
}

/// Begins to listen for signals; others may send, too.
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
