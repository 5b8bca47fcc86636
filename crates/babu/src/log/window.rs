//! A file read through a buffer that moves forward. So sequential reads of small structures need
//! few calls of the disk.

use std::sync::Arc;

use crate::disk::traits::DiskFile;
use crate::types::error::{IoContext, IoFailure};

const WINDOW_BYTES: u64 = 1 << 20;

pub(crate) struct Window {
    file: Arc<dyn DiskFile>,
    name: String,
    len: u64,
    buffer: Vec<u8>,
    start: u64,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn DiskFile>, name: String) -> Result<Window, IoFailure> {
        let len = file.len().during("read", &name)?;
        Ok(Window { file, name, len, buffer: Vec::new(), start: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The `count` bytes at `offset`. `None` if the file ends before they do.
    pub(crate) fn get(&mut self, offset: u64, count: u64) -> Result<Option<&[u8]>, IoFailure> {
        let Some(end) = offset.checked_add(count).filter(|&end| end <= self.len) else {
            return Ok(None);
        };
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            let read = count.max(WINDOW_BYTES).min(self.len - offset);
            self.buffer.resize(read as usize, 0);
            self.start = offset;
            let result = self.file.read_at(offset, &mut self.buffer);
            if result.is_err() {
                self.buffer.clear();
            }
            result.during("read", &self.name)?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buffer.get(from..from + count as usize))
    }

    /// End of the last byte from `offset` on that is not zero. `offset` if all are zero.
    pub(crate) fn nonzero_end(&mut self, offset: u64) -> Result<u64, IoFailure> {
        let mut end = offset;
        let mut at = offset;
        while at < self.len {
            let count = WINDOW_BYTES.min(self.len - at);
            let bytes = self.get(at, count)?.unwrap_or_default();
            if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
                end = at + last as u64 + 1;
            }
            at += count;
        }
        Ok(end)
    }
}
