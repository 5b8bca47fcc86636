//! Operations on ranges: allocation, holes, seeking, copying.

use pando_types::op::{FILE_SIZE_MAX, Payload, Piece};
use pando_types::{Errno, Ino, Kill, SetAttr, TimeSet};

use crate::fs::files::DataFs;
use crate::fs::guards::lock;
use crate::inode::plan::Form;
use crate::inode::state::{Inode, State};
use crate::metadata::WriteError;

/// Bytes copied at once.
const COPY_SIZE: u64 = 1 << 20;

/// What `fallocate` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Grows the file unless `keep_size`. No room is reserved.
    Reserve {
        /// `FALLOC_FL_KEEP_SIZE`.
        keep_size: bool,
    },
    /// `FALLOC_FL_PUNCH_HOLE`, which always keeps the size.
    PunchHole,
    /// `FALLOC_FL_ZERO_RANGE`.
    Zero {
        /// `FALLOC_FL_KEEP_SIZE`.
        keep_size: bool,
    },
}

impl Allocate {
    /// From the flags of `fallocate(2)`.
    pub fn from_flags(flags: u32) -> Result<Self, Errno> {
        match flags {
            0 => Ok(Self::Reserve { keep_size: false }),
            1 => Ok(Self::Reserve { keep_size: true }),
            3 => Ok(Self::PunchHole),
            0x10 => Ok(Self::Zero { keep_size: false }),
            0x11 => Ok(Self::Zero { keep_size: true }),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// What `lseek` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// `SEEK_DATA`.
    Data,
    /// `SEEK_HOLE`.
    Hole,
}

impl DataFs {
    /// `fallocate` of `len` bytes from `offset` on, through a descriptor open for writing.
    pub fn fallocate(
        &self,
        ino: Ino,
        (offset, len): (u64, u64),
        what: Allocate,
        kill: Option<Kill>,
    ) -> Result<(), Errno> {
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let end = offset.checked_add(len).filter(|&end| end <= FILE_SIZE_MAX);
        let end = end.ok_or(Errno::EFBIG)?;
        let inode = self.open_file(ino)?;
        let mut state = self.write_state(&inode);
        let mut is_told = false;
        if matches!(what, Allocate::PunchHole | Allocate::Zero { .. }) {
            if !is_planted!(PunchBeforeFlush) {
                self.flush_state(&inode, &mut state)?;
            }
            is_told = self.punch(&inode, &mut state, (offset, end), kill)?;
        }
        let grows = matches!(
            what,
            Allocate::Reserve { keep_size: false } | Allocate::Zero { keep_size: false }
        );
        if !grows {
            return if is_told { Ok(()) } else { self.touch(ino, &mut state) };
        }
        // Another mount may have changed the size, and the file must not be truncated.
        let size = self.metadata.getattr(ino)?.size.max(state.dirty.end());
        if end > size {
            let set = SetAttr { size: Some(end), size_by_handle: true, kill, ..SetAttr::default() };
            let before = state.version;
            let attr = self.metadata.setattr_open(ino, set)?;
            *lock(&inode.layout) = None;
            self.pages_follow(ino, before, attr.data_version);
            state.hear(&attr);
            is_told = true;
        }
        if is_told { Ok(()) } else { self.touch(ino, &mut state) }
    }

    /// Changes the times of a file although its data does not change, as Linux does
    /// (`file_modified`).
    fn touch(&self, ino: Ino, state: &mut State) -> Result<(), Errno> {
        if !state.dirty.is_empty() {
            state.dirty_mtime = self.metadata.time_at(state.clock);
            return Ok(());
        }
        let set = SetAttr { mtime: Some(TimeSet::Now), ..SetAttr::default() };
        state.hear(&self.metadata.setattr_open(ino, set)?);
        Ok(())
    }

    /// Makes a hole. Returns false if the range is beyond the end of the file.
    fn punch(
        &self,
        inode: &Inode,
        state: &mut State,
        (offset, end): (u64, u64),
        kill: Option<Kill>,
    ) -> Result<bool, Errno> {
        let end = end.min(self.metadata.getattr(inode.ino)?.size);
        if offset >= end {
            return Ok(false);
        }
        let piece = Piece { offset, payload: Payload::Hole(end - offset) };
        let before = state.version;
        let form = state.form;
        let attr = match self.metadata.write_data(inode.ino, None, vec![piece], None, kill) {
            Ok(attr) => attr,
            Err(WriteError::DataChanged) => return Err(Errno::EAGAIN),
            Err(WriteError::Errno(errno) | WriteError::Unsure(errno)) => return Err(errno),
        };
        state.hear(&attr);
        if attr.data_version == before + 1 {
            state.form = form;
        } else {
            state.form = Form::Unknown;
        }
        *lock(&inode.layout) = None;
        self.pages_follow(inode.ino, before, attr.data_version);
        Ok(true)
    }

    /// Where the next data or hole at or after `offset` begins. The end of the file is a hole;
    /// beyond it `ENXIO`.
    pub fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64, Errno> {
        let inode = self.open_file(ino)?;
        let mut state = self.write_state(&inode);
        self.flush_state(&inode, &mut state)?;
        let layout =
            self.metadata.read_data(ino, offset, FILE_SIZE_MAX - offset.min(FILE_SIZE_MAX))?;
        let size = layout.attr.size;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let mut data = Vec::new();
        if layout.is_inline {
            data.push((0, layout.inline.len() as u64));
        }
        data.extend(layout.slices.iter().map(|s| (s.offset, s.offset + s.range.len)));
        let mut cursor = offset;
        for (from, to) in data {
            if to <= cursor {
                continue;
            }
            match what {
                Seek::Data => return Ok(from.max(cursor)).and_then(|at| before_end(at, size)),
                Seek::Hole if from > cursor => break,
                Seek::Hole => cursor = to,
            }
        }
        match what {
            Seek::Data => Err(Errno::ENXIO),
            Seek::Hole => Ok(cursor.min(size)),
        }
    }

    /// Copies bytes from one open file to another, or within one. Returns how many were copied.
    pub fn copy_range(
        &self,
        (from, from_offset): (Ino, u64),
        (to, to_offset): (Ino, u64),
        len: u64,
        kill: Option<Kill>,
    ) -> Result<u64, Errno> {
        let mut done = 0;
        while done < len {
            let step = (len - done).min(COPY_SIZE);
            let result = self.read(from, from_offset + done, step).and_then(|bytes| {
                self.write(to, Some(to_offset + done), &bytes, kill).map(|_| bytes.len())
            });
            match result {
                Ok(copied) => {
                    done += copied as u64;
                    // The source ended here. Bytes that this copy adds to it are not copied.
                    if (copied as u64) < step {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }
}

fn before_end(at: u64, size: u64) -> Result<u64, Errno> {
    if at < size { Ok(at) } else { Err(Errno::ENXIO) }
}
