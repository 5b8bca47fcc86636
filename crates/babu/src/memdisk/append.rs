//! Appending through pages, as `mapped` does it, with everything that can go wrong on the way.
//!
//! Zeros are written ahead by the step; that may fail, as making pages ready may, and then the
//! bytes go the ordinary way. What is appended changes pages one by one: a loss of power takes any
//! of them.

use std::io;

use super::content::ContentChange;
use super::{Inner, MemDisk, Verdict};
use crate::disk::Appender;

const PAGE_BYTES: u64 = 4096;
/// Made ready at a time: less than in life, so that little data meets many steps.
const STEP_BYTES: u64 = 2 * PAGE_BYTES;

struct MemAppender {
    disk: MemDisk,
    file: u64,
    /// What can be written without being made ready.
    ready: std::ops::Range<u64>,
    zeroed_until: u64,
    /// Up to here nothing is made ready, since that has failed.
    ordinary_until: u64,
}

/// The appender of a file, on a disk that has any.
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
    /// Whether `from..to` is ready for writing in the end. An error only if the machine has
    /// stopped.
    fn make_ready(&mut self, inner: &mut Inner, from: u64, to: u64) -> io::Result<bool> {
        if from < self.ordinary_until {
            return Ok(false);
        }
        if self.ready.start <= from && to <= self.ready.end {
            return Ok(true);
        }
        // Whole pages below the end, as a mapping has them.
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
            // A copy does not fail; the machine may stop in the middle of it.
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
