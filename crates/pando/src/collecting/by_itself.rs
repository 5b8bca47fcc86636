//! The thread that regularly collects objects that no file names. It works only while its process
//! serves shard 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pando_net::Keys;
use pando_server::{Folder, Host, Superblock};
use pando_types::ShardIndex;

use super::collect::collect_in;
use crate::console::output::say;
use crate::console::text::{bytes, several};
use crate::volume::named::Named;

/// The first collection begins after the interval divided by this. So does one after a failure.
const FIRST: u32 = 24;

/// Handle of the thread. Dropping it ends the thread.
pub struct Collector {
    is_stopping: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the thread. `None`: `every` is zero, or the thread could not start, which is printed.
pub fn begin(
    host: &Arc<Host>,
    folder: Folder,
    superblock: Superblock,
    keys: Option<Keys>,
    every: Duration,
) -> Option<Collector> {
    if every.is_zero() {
        return None;
    }
    let host = Arc::clone(host);
    let named = Named::Folder(folder, superblock);
    let (stop, stopped) = channel::<()>();
    let is_stopping = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&is_stopping);
    let body = move || {
        let mut pause = every / FIRST;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = every;
            if !host.hosted().contains(&ShardIndex(0)) {
                continue;
            }
            match collect_in(&named, keys.clone(), None, (false, &stopping)) {
                Ok(collected) if collected.collected == 0 => {}
                Ok(collected) => say!(
                    "deleted {} that no file names ({})",
                    several(collected.collected, "object", "objects"),
                    bytes(collected.bytes)
                ),
                Err(failure) => {
                    say!("cannot delete unused objects: {}", failure.message);
                    pause = every / FIRST;
                }
            }
        }
    };
    match std::thread::Builder::new().name("pando-gc".to_owned()).spawn(body) {
        Ok(thread) => Some(Collector { is_stopping, stop: Some(stop), thread: Some(thread) }),
        Err(error) => {
            say!("cannot start the thread that deletes unused objects: {error}");
            None
        }
    }
}
