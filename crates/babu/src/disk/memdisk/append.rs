//! Appending through pages in memory, as `mapped` does it on a real disk, with all its failures.
//!
//! The appender writes zeros ahead, in steps. If that fails, or making pages ready fails, the bytes
//! go through ordinary writes. Appended bytes change pages one by one, and a loss of power takes
//! any of them.

use std::io;

use super::content::ContentChange;
use super::{Inner, MemDisk, Verdict};
use crate::disk::traits::Appender;

const PAGE_BYTES: u64 = 4096;
/// Bytes made ready at a time. This is less than on a real disk, so that little data meets many
/// steps.
const STEP_BYTES: u64 = 2 * PAGE_BYTES;

struct MemAppender {
    disk: MemDisk,
    file: u64,
    /// Bytes of the file that can be written without making pages ready.
    ready: std::ops::Range<u64>,
    zeroed_until: u64,
    /// Below this offset nothing is made ready, as an attempt has failed.
    ordinary_until: u64,
}

/// The appender of a file; `None` if the disk has none.
pub(super) fn appender(disk: &MemDisk, file: u64) -> Option<Box<dyn Appender>> {
    let inner = disk.alive().ok()?;
    inner.has_appender.then(|| -> Box<dyn Appender> {
        Box::new(MemAppender {
            disk: disk.clone(),
            file,
            ready: 0..0,
            zeroed_until: 0,
            ordinary_until: 0,
        })
    })
}

impl MemAppender {
    /// Makes `from..to` ready, and returns whether it is. Fails only if the machine has stopped.
    fn make_ready(&mut self, inner: &mut Inner, from: u64, to: u64) -> io::Result<bool> {
        if from < self.ordinary_until {
            return Ok(false);
        }
        if self.ready.start <= from && to <= self.ready.end {
            return Ok(true);
        }
        // Only whole pages below the file's end can be ready, as in a mapping.
        let file_end = inner.content(self.file)?.visible.len() as u64 / PAGE_BYTES * PAGE_BYTES;
        let until = to.next_multiple_of(STEP_BYTES).min(file_end);
        if until < to {
            return Ok(false);
        }
        let zeros = from.next_multiple_of(PAGE_BYTES).max(self.zeroed_until)..until;
        match inner.change() {
            Verdict::Proceed => {}
            Verdict::Fail(error) if inner.crashed => return Err(error),
            Verdict::Fail(_) => return Ok(false),
        }
        if zeros.start < zeros.end {
            let bytes = vec![0; (zeros.end - zeros.start) as usize];
            let content = inner.content(self.file)?;
            content.change(ContentChange::Write { offset: zeros.start, bytes });
        }
        self.zeroed_until = self.zeroed_until.max(until);
        self.ready = from..until;
        Ok(true)
    }
}

impl Appender for MemAppender {
    fn append(&mut self, mut offset: u64, bytes: &[u8]) -> io::Result<()> {
        let disk = self.disk.clone();
        let mut inner = disk.alive()?;
        if !self.make_ready(&mut inner, offset, offset + bytes.len() as u64)? {
            self.ready = 0..0;
            self.ordinary_until = self.ordinary_until.max(offset + STEP_BYTES);
            return inner.write(self.file, offset, bytes);
        }
        inner.counters.appends += 1;
        let (mut rest, result) = match inner.change() {
            Verdict::Proceed => (bytes, Ok(())),
            // A copy cannot fail, but the machine may stop in the middle of it.
            Verdict::Fail(error) if inner.crashed => (&bytes[..bytes.len() / 2], Err(error)),
            Verdict::Fail(_) => (bytes, Ok(())),
        };
        while !rest.is_empty() {
            let count = (PAGE_BYTES - offset % PAGE_BYTES).min(rest.len() as u64);
            let (page, behind) = rest.split_at(count as usize);
            let content = inner.content(self.file)?;
            content.change(ContentChange::Write { offset, bytes: page.to_vec() });
            offset += count;
            rest = behind;
        }
        result
    }

    fn synced(&mut self) {
        self.ready = 0..0;
    }
}
