//! Work beside the requests: flushing files that have been dirty for long, looking into lost bytes,
//! and deleting garbage. At the end: storing all that is left.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pando_types::Errno;

use crate::fs::files::DataFs;
use crate::fs::guards::{lock, read};
use crate::inode::state::State;

/// Most time between a write and its flush.
const DIRTY_AGE_MAX: Duration = Duration::from_secs(5);
/// Shortest pause between a failed flush and the next one by maintenance. It doubles after each
/// further failure.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest such pause.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Time between two looks.
const TICK: Duration = Duration::from_secs(1);

/// The thread that does the work. Dropping this ends it.
pub struct Maintenance {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl DataFs {
    /// Starts the thread. It collects garbage every `garbage_interval`.
    pub fn maintain(self: &Arc<Self>, garbage_interval: Duration) -> io::Result<Maintenance> {
        let fs = Arc::clone(self);
        let (stop, stopped) = channel::<()>();
        let thread =
            std::thread::Builder::new().name("pando-data".to_owned()).spawn(move || {
                let mut next_garbage = Instant::now() + garbage_interval;
                while stopped.recv_timeout(TICK.min(garbage_interval))
                    == Err(RecvTimeoutError::Timeout)
                {
                    fs.flush_due(DIRTY_AGE_MAX);
                    fs.look_into_losses();
                    fs.discard_again();
                    if Instant::now() >= next_garbage {
                        // What fails now is tried again.
                        let _ = fs.collect_garbage();
                        next_garbage = Instant::now() + garbage_interval;
                    }
                }
            })?;
        Ok(Maintenance { stop: Some(stop), thread: Some(thread) })
    }

    /// Flushes files that have been dirty for `age`.
    pub fn flush_old(&self, age: Duration) {
        self.flush_where(|state| state.dirty_since.elapsed() >= age);
    }

    /// Flushes files that have been dirty for `age`, unless their last flush failed a short time
    /// ago. Each attempt may store objects that stay.
    pub fn flush_due(&self, age: Duration) {
        self.flush_where(|state| {
            let is_due = state.retry.is_none_or(|(at, _)| Instant::now() >= at);
            is_due && state.dirty_since.elapsed() >= age
        });
    }

    fn flush_where(&self, is_wanted: impl Fn(&State) -> bool) {
        let files: Vec<_> =
            lock(&self.files).values().map(|file| Arc::clone(&file.inode)).collect();
        for inode in files {
            let is_old = |state: &State| !state.dirty.is_empty() && is_wanted(state);
            if is_old(&read(&inode.state)) {
                let mut state = self.write_state(&inode);
                if is_old(&state) {
                    self.flush_aside(&inode, &mut state);
                    if !state.dirty.is_empty() {
                        let pause =
                            state.retry.map_or(RETRY_MIN, |(_, last)| RETRY_MAX.min(2 * last));
                        state.retry = Some((Instant::now() + pause, pause));
                    }
                }
            }
        }
    }

    /// Flushes every file for a caller that is none of the programs that wrote. Those programs hear
    /// of errors nevertheless. Returns the first error, after trying all.
    pub fn store_all(&self) -> Result<(), Errno> {
        let files: Vec<_> =
            lock(&self.files).values().map(|file| Arc::clone(&file.inode)).collect();
        let mut result = Ok(());
        for inode in files {
            let mut state = self.write_state(&inode);
            let stored = self.flush_state(&inode, &mut state);
            // Bytes that are lost already were written before this call, too.
            let lost = if self.losses.is_untold(inode.ino) { Err(Errno::EIO) } else { Ok(()) };
            result = result.and(stored).and(lost);
        }
        result
    }

    /// Deletes objects that no durable record needs. Returns how many.
    pub fn collect_garbage(&self) -> Result<usize, Errno> {
        let mut total = 0;
        loop {
            let found = self.metadata.garbage()?;
            let delete = |id| is_planted!(GarbageForgotten) || self.objects.delete(id).is_ok();
            let deleted: Vec<_> = found.iter().copied().filter(|&(_, id)| delete(id)).collect();
            if deleted.is_empty() {
                return Ok(total);
            }
            total += deleted.len();
            let all = deleted.len() == found.len();
            self.metadata.garbage_done(deleted)?;
            if !all {
                return Ok(total);
            }
        }
    }
}
