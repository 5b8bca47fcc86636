//! Writing into the dirty extents, with flushes that keep these within their budgets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pando_types::op::FILE_SIZE_MAX;
use pando_types::{Errno, Ino, Kill, SetAttr};

use crate::fs::files::DataFs;
use crate::fs::guards::lock;
use crate::inode::state::{Inode, State};

/// Extents of one file beyond which it is flushed, however small they are.
const EXTENTS_MAX: usize = 2048;
/// How often a writer looks for room before it goes beyond the budget.
const ROOM_ATTEMPTS: u32 = 20;
/// How long it waits in between.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

impl DataFs {
    /// Writes `data` at `offset`, or at the end of the file as this mount knows it. Returns the
    /// offset. The set-id bits that the write clears (`kill`) are cleared at the shard when the
    /// data is stored.
    pub fn write(
        &self,
        ino: Ino,
        offset: Option<u64>,
        data: &[u8],
        kill: Option<Kill>,
    ) -> Result<u64, Errno> {
        let inode = self.open_file(ino)?;
        let mut state = self.write_state(&inode);
        let end = if is_planted!(AppendAtStaleSize) { state.size } else { state.visible_size() };
        let offset = offset.unwrap_or(end);
        self.write_locked(&inode, &mut state, (offset, data), kill)?;
        Ok(offset)
    }

    /// Writes at the end of the file, which is at `known` or beyond.
    pub fn append(
        &self,
        ino: Ino,
        known: u64,
        data: &[u8],
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        let inode = self.open_file(ino)?;
        let mut state = self.write_state(&inode);
        let offset = known.max(state.visible_size());
        self.write_locked(&inode, &mut state, (offset, data), kill)
    }

    /// Clears the set-id bits that a change clears, before the change is made.
    pub fn kill(&self, ino: Ino, kill: Kill) -> Result<(), Errno> {
        let set = SetAttr { kill: Some(kill), ..SetAttr::default() };
        self.metadata.setattr_open(ino, set).map(drop)
    }

    fn write_locked(
        &self,
        inode: &Arc<Inode>,
        state: &mut State,
        (offset, data): (u64, &[u8]),
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        let len = data.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > FILE_SIZE_MAX) {
            return Err(Errno::EFBIG);
        }
        if len == 0 {
            return Ok(());
        }
        if state.dirty.bytes() + len > self.limits.file_dirty_bytes
            || state.dirty.extent_count() >= EXTENTS_MAX
        {
            self.flush_state(inode, state)?;
        }
        if self.dirty_bytes() + len > self.limits.dirty_bytes {
            self.flush_state(inode, state)?;
            self.make_room(len)?;
        }
        if state.dirty.is_empty() {
            state.dirty_since = Instant::now();
            state.clock = self.metadata.shard_of(inode.ino);
        }
        let before = state.dirty.bytes();
        state.dirty.write(offset, data);
        self.dirty_bytes.fetch_add(state.dirty.bytes() - before, Ordering::Relaxed);
        state.dirty_mtime = self.metadata.time_at(state.clock);
        state.is_told = false;
        state.add_kill(kill);
        Ok(())
    }

    /// Waits until `len` more bytes are within the budget. `ENOSPC` beyond twice the budget.
    fn make_room(&self, len: u64) -> Result<(), Errno> {
        for _ in 0..ROOM_ATTEMPTS {
            self.relieve(len);
            if self.dirty_bytes() + len <= self.limits.dirty_bytes {
                return Ok(());
            }
            std::thread::sleep(ROOM_PAUSE);
        }
        // Other files could not be flushed, or are being flushed.
        if self.dirty_bytes() + len > 2 * self.limits.dirty_bytes {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Flushes other files until `len` more bytes fit. It skips files that are in use. Their own
    /// `close` or `fsync` tells their failures.
    fn relieve(&self, len: u64) {
        let files: Vec<_> =
            lock(&self.files).values().map(|file| Arc::clone(&file.inode)).collect();
        for inode in files {
            if self.dirty_bytes() + len <= self.limits.dirty_bytes {
                return;
            }
            if let Ok(mut state) = inode.state.try_write() {
                self.flush_aside(&inode, &mut state);
            }
        }
    }

    /// Flushes on behalf of no program. If a failure costs data, the next program that closes or
    /// syncs the file is told.
    pub(super) fn flush_aside(&self, inode: &Inode, state: &mut State) {
        let _ = self.flush_state(inode, state);
    }
}
