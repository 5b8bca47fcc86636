//! Reading: inline bytes, blocks of objects or zeros, with the dirty extents laid over them.

use std::sync::Arc;
use std::time::Duration;

use pando_types::reply::Layout;
use pando_types::{Errno, Ino};

use crate::fs::files::DataFs;
use crate::fs::guards::{lock, read};
use crate::inode::state::{Inode, State, Window};
use crate::objects::ReadError;

/// Bytes of a file that one request for a layout covers.
const WINDOW: u64 = 16 << 20;
/// How often a read begins anew with a fresh layout, because an object was deleted meanwhile.
const ATTEMPTS: u32 = 5;
/// How long it waits before that, times the number of earlier repetitions.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

impl DataFs {
    /// The bytes `offset .. offset + len`, fewer at the end of the file.
    pub fn read(&self, ino: Ino, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let inode = self.open_file(ino)?;
        let state = read(&inode.state);
        self.read_locked(&inode, &state, offset, len)
    }

    pub(super) fn read_locked(
        &self,
        inode: &Inode,
        state: &State,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, Errno> {
        let end = offset.saturating_add(len);
        if state.dirty.covers(offset, end) {
            let mut bytes = vec![0; len as usize];
            state.dirty.overlay(offset, &mut bytes);
            return Ok(bytes);
        }
        for attempt in 1.. {
            let window = self.window(inode, state, offset, len)?;
            let size = window.layout.attr.size.max(state.dirty.end());
            if offset >= size {
                break;
            }
            let mut bytes = vec![0; (end.min(size) - offset) as usize];
            match self.fill(&window.layout, offset, &mut bytes) {
                Ok(()) => {
                    state.dirty.overlay(offset, &mut bytes);
                    return Ok(bytes);
                }
                Err(error) if error.is_missing() && attempt < ATTEMPTS => {
                    *lock(&inode.layout) = None;
                    std::thread::sleep(RETRY_PAUSE * (attempt - 1));
                }
                Err(error) => return Err(error.errno()),
            }
        }
        Ok(Vec::new())
    }

    /// A layout that covers these bytes: the one at hand, if it is of the known version, or a new
    /// one.
    pub(super) fn window(
        &self,
        inode: &Inode,
        state: &State,
        offset: u64,
        len: u64,
    ) -> Result<Arc<Window>, Errno> {
        let end = offset.saturating_add(len);
        if let Some(window) = &*lock(&inode.layout)
            && window.start <= offset
            && end <= window.end
            && (window.layout.attr.data_version == state.version || is_planted!(LayoutOfAnyVersion))
        {
            return Ok(Arc::clone(window));
        }
        let start = offset - offset % WINDOW;
        let end = end.max(start.saturating_add(WINDOW));
        let layout = self.metadata.read_data(inode.ino, start, end - start)?;
        let window = Arc::new(Window { start, end, layout });
        *lock(&inode.layout) = Some(Arc::clone(&window));
        Ok(window)
    }

    /// Copies the bytes that the layout names over `target`, which holds zeros.
    fn fill(&self, layout: &Layout, offset: u64, target: &mut [u8]) -> Result<(), ReadError> {
        let end = offset + target.len() as u64;
        if layout.is_inline {
            let from = (offset as usize).min(layout.inline.len());
            let part = &layout.inline[from..layout.inline.len().min(end as usize)];
            target[..part.len()].copy_from_slice(part);
            return Ok(());
        }
        let first = layout.slices.partition_point(|slice| slice.offset + slice.range.len <= offset);
        for slice in &layout.slices[first..] {
            let (from, to) = (slice.offset.max(offset), (slice.offset + slice.range.len).min(end));
            if from >= to {
                break;
            }
            let part = &mut target[(from - offset) as usize..(to - offset) as usize];
            self.objects.read(&slice.range, from - slice.offset, part)?;
        }
        Ok(())
    }
}
