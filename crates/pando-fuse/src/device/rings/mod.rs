//! Requests by rings of io_uring (Linux 6.14), beside the channels. Why, and what it costs:
//! docs/decisions/requests-come-by-rings.md.
//!
//! ```text
//! caller on CPU n ─► queue n: an entry ─► completion ─► thread of queue n, on CPU n: copies, handles, answers
//!                          ▲                                                  │
//!                          └────────────── COMMIT_AND_FETCH ──────────────────┴── answers of other threads
//! ```
//!
//! FORGET, INTERRUPT and notifications go by the channel all the same.
//!
//! Invariants:
//! 1. A thread that has given the kernel an entry lives as long as the session. The kernel has this
//!    thread write the next request, and would lose the request with it.
//! 2. Only the holder of a queue's post gives entries to the kernel, so that few threads are bound.
//! 3. The kernel has entries for the next requests before they come. It uses those first that were
//!    given last, so those of a new holder.

pub(crate) mod cpu;
pub(crate) mod entry;
pub(crate) mod queue;
pub(crate) mod way;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use queue::Queue;

/// With more CPUs than this no rings are made. Each has a thread.
const CPUS_MAX: usize = 64;

/// The queues of one mount, one for each CPU that this machine may ever have.
pub(crate) struct Rings {
    pub(crate) queues: Box<[Queue]>,
    /// The kernel has refused an entry. Requests come by the channel.
    is_off: AtomicBool,
}

impl std::fmt::Debug for Rings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rings").field("queues", &self.queues.len()).finish_non_exhaustive()
    }
}

impl Rings {
    /// Makes the rings, without entries.
    pub(crate) fn new() -> io::Result<Self> {
        cpu::note_all();
        let cpus = possible_cpus()?;
        if cpus > CPUS_MAX {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let queues = (0..cpus as u16).map(Queue::new).collect::<Result<_, _>>()?;
        Ok(Self { queues, is_off: AtomicBool::new(false) })
    }

    /// Whether requests come by these rings, as far as is known.
    pub(crate) fn are_on(&self) -> bool {
        !self.is_off.load(Ordering::Relaxed)
    }

    pub(crate) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// Wakes all threads that wait for requests.
    pub(crate) fn wake(&self) {
        self.queues.iter().for_each(Queue::wake);
    }
}

/// Number of CPUs that this machine may ever have.
fn possible_cpus() -> io::Result<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    last_of(&list).map(|last| last + 1).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The last number of a list such as `0-3,8`.
fn last_of(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cpu_of_a_list_is_found() {
        assert_eq!(last_of("0\n"), Some(0));
        assert_eq!(last_of("0-63\n"), Some(63));
        assert_eq!(last_of("0-1,4-7\n"), Some(7));
        assert_eq!(last_of("\n"), None);
    }
}
