//! The only access to storage: a folder of files.
//!
//! The database knows nothing of paths, file systems or devices. It uses a [`Disk`], and relies on
//! these rules:
//!
//! 1. Later reads see written bytes at once. The bytes survive the death of the process.
//! 2. [`DiskFile::sync`] makes durable what was written to that file before it, and no more.
//!    Without a sync, any subset of the writes may survive a loss of power, each of them in part.
//! 3. [`Disk::sync_dir`] makes the creation, removal and renaming of files durable.
//! 4. A rename replaces its target in one step.
//! 5. A handle keeps working after its file is removed.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::disk::room::DiskRoom;

/// Bytes that are copied at a time where the kernel does not copy.
const COPY_BYTES: u64 = 1 << 20;

/// A folder of files.
pub trait Disk: Send + Sync {
    /// Creates a file. If the file exists, empties it.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file, replacing the target.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes creations, removals and renames durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Gives a file of another folder the same name here. Neither folder may change its bytes from
    /// then on. Answers false, and changes nothing, if the two cannot share it, or it is gone.
    /// [`Disk::sync_dir`] makes the name durable.
    fn link(&self, _from: &dyn Disk, _name: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// The disk itself, for [`Disk::link`] between two of one kind.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The room of the disk on which the folder is. Folders of one disk have the same: see
    /// [`DiskRoom`]. Unless this is implemented, the folder has a disk of its own.
    fn room(&self) -> DiskRoom {
        DiskRoom::default()
    }
}

/// An open file. Offsets are explicit, so one handle serves readers and a writer.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset, extending the file if needed.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills the buffer from an offset. Fails with `UnexpectedEof` if the file is too short.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if the file holds no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes the file's bytes and length durable.
    fn sync(&self) -> io::Result<()>;

    /// Cuts or extends the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space, so that writes below `len` cannot run out of it. Extends the file with zeros
    /// up to `len`, and never shortens it. A file system that cannot reserve space reports no
    /// error.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Hints that the file is read at random: bytes around a read are not worth memory.
    fn expect_random_reads(&self) {}

    /// Hints that this part of the file is read soon. Does not wait.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// Hints that what the kernel has in memory of this part of the file is not worth keeping. The
    /// next read asks the disk.
    fn forget(&self, _offset: u64, _len: u64) {}

    /// The file as the kernel has it, for copies that the kernel makes.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes over the first `len` bytes of another file. This file must be empty. Fails with
    /// `UnexpectedEof` if the other file is shorter.
    fn copy_from(&self, from: &dyn DiskFile, len: u64) -> io::Result<()> {
        copy_rest(|offset, bytes| self.write_at(offset, bytes), from, 0..len)
    }

    /// A faster way to append to this file, if there is one: see [`Appender`]. A file has at most
    /// one at a time.
    fn appender(&self) -> Option<Box<dyn Appender>> {
        None
    }
}

/// Reads a part of a file, and hands it to `write` piece by piece.
pub(crate) fn copy_rest(
    write: impl Fn(u64, &[u8]) -> io::Result<()>,
    from: &dyn DiskFile,
    part: Range<u64>,
) -> io::Result<()> {
    let mut piece = vec![0; COPY_BYTES.min(part.end - part.start) as usize];
    for offset in part.clone().step_by(COPY_BYTES as usize) {
        let piece = &mut piece[..COPY_BYTES.min(part.end - offset) as usize];
        from.read_at(offset, piece)?;
        write(offset, piece)?;
    }
    Ok(())
}

/// Writes to one file in ascending order, with the effect of [`DiskFile::write_at`].
pub trait Appender: Send + Sync {
    /// Writes all bytes at an offset.
    fn append(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Notes that the file has been synced since the last call.
    fn synced(&mut self);
}
