//! Latencies of requests by opcode, and bytes that went each way. Each answer counts before it
//! leaves, so that whoever has the answer finds it counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pando_types::histogram::{Buckets, Histogram};

use crate::device::counting::profile::{Asker, Profile};
use crate::protocol::abi::opcode;

/// Number of opcodes that are counted. All opcodes in use are smaller.
pub(crate) const OPCODES: usize = 64;

/// What is known of a request when it was read, as far as counting needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub(crate) opcode: u32,
    /// User of the caller.
    pub(crate) uid: u32,
    /// Bytes to write.
    pub(crate) bytes: u32,
    pub(crate) at: Instant,
}

/// Counts of one session.
pub(crate) struct Counted {
    began: Instant,
    latencies: [Histogram; OPCODES],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    pub(crate) profile: Profile,
}

/// What a mount has measured since it was mounted, or since this process serves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// How long that is.
    pub age: Duration,
    /// Bytes that READ has returned.
    pub read_bytes: u64,
    /// Bytes that WRITE has taken.
    pub written_bytes: u64,
    /// Time from the reading of a request to its answer, by the kernel's names of operations. Only
    /// operations that occurred.
    pub latencies: Vec<(&'static str, Buckets)>,
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            latencies: [const { Histogram::new() }; OPCODES],
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            profile: Profile::default(),
        }
    }

    /// Counts an answer with so many bytes, and how long the request has taken. `pid` is the
    /// caller's thread.
    pub(crate) fn answered(&self, read: &Read, pid: u32, is_done: bool, bytes: usize) {
        let took = read.at.elapsed();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(histogram) = self.latencies.get(read.opcode as usize) {
            histogram.record(nanos);
        }
        if is_done && read.opcode == opcode::READ {
            self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        } else if is_done && read.opcode == opcode::WRITE {
            self.written_bytes.fetch_add(u64::from(read.bytes), Ordering::Relaxed);
        }
        if self.profile.is_on() {
            self.profile.note(Asker { uid: read.uid, pid }, read.opcode, nanos);
        }
    }

    pub(crate) fn measured(&self) -> Measured {
        let of = |&(code, name): &(u32, &'static str)| {
            let buckets = self.latencies.get(code as usize)?.buckets();
            (buckets.count() > 0).then_some((name, buckets))
        };
        Measured {
            age: self.began.elapsed(),
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            latencies: opcode::NAMES.iter().filter_map(of).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_if_they_went_somewhere_and_time_counts_always() {
        let counted = Counted::new();
        let read = |opcode, bytes| Read { opcode, uid: 0, bytes, at: Instant::now() };
        counted.answered(&read(opcode::WRITE, 5), 1, true, 8);
        counted.answered(&read(opcode::WRITE, 7), 1, false, 0);
        counted.answered(&read(opcode::READ, 0), 1, true, 11);
        counted.answered(&read(opcode::READ, 0), 1, false, 0);
        // An opcode beyond those that are known.
        counted.answered(&read(4096, 0), 1, false, 0);
        let Measured { read_bytes, written_bytes, latencies, .. } = counted.measured();
        assert_eq!((read_bytes, written_bytes), (11, 5));
        let counts: Vec<_> = latencies.iter().map(|(name, all)| (*name, all.count())).collect();
        assert_eq!(counts, [("READ", 2), ("WRITE", 2)]);
    }
}
