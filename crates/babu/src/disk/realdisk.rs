//! A [`Disk`] that is a folder of the operating system's file system.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use crate::disk::mapped::Mapped;
use crate::disk::room::DiskRoom;
use crate::disk::traits::{Appender, Disk, DiskFile, copy_rest};

/// Name of the file that carries the lock. Listings leave it out.
const LOCK_FILE: &str = "LOCK";

/// A folder that is held exclusively. As long as this exists, a second `RealDisk` on the folder is
/// refused, in this process and in any other.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
    /// Holds the lock on the folder. `directory` is for syncs of directory changes.
    _lock: File,
    directory: File,
    room: DiskRoom,
}

impl RealDisk {
    /// Opens and locks a folder. Creates it if it is missing.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<RealDisk> {
        let folder = folder.as_ref().to_path_buf();
        if !folder.is_dir() {
            fs::create_dir_all(&folder)?;
            // A loss of power must not take the new folder itself.
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(LOCK_FILE))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("{} is in use by another process", folder.display()),
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
        let directory = File::open(&folder)?;
        let room = DiskRoom::of_device(directory.metadata()?.dev());
        Ok(RealDisk { folder, _lock: lock, directory, room })
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(self.folder.join(name))?;
        Ok(Box::new(RealFile(Arc::new(file))))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.folder.join(name))?;
        Ok(Box::new(RealFile(Arc::new(file))))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            // No file of a database has a name that is not UTF-8.
            if let Ok(name) = entry?.file_name().into_string()
                && name != LOCK_FILE
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn link(&self, from: &dyn Disk, name: &str) -> io::Result<bool> {
        let Some(from) = from.as_any().and_then(|any| any.downcast_ref::<RealDisk>()) else {
            return Ok(false);
        };
        match rustix::fs::link(from.folder.join(name), self.folder.join(name)) {
            Ok(()) => Ok(true),
            // Another file system, one without links, a file with too many, a file that is gone.
            Err(
                Errno::XDEV
                | Errno::PERM
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::MLINK
                | Errno::NOENT,
            ) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn room(&self) -> DiskRoom {
        self.room.clone()
    }
}

struct RealFile(Arc<File>);

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let current = self.len()?;
        if len <= current {
            return Ok(());
        }
        match rustix::fs::fallocate(&*self.0, FallocateFlags::empty(), current, len - current) {
            Ok(()) => Ok(()),
            // Without support there is no guarantee, and no error either: see
            // [`DiskFile::allocate`].
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(len),
            Err(errno) => Err(errno.into()),
        }
    }

    fn expect_random_reads(&self) {
        // The kernel may ignore advice.
        let _ = rustix::fs::fadvise(&*self.0, 0, None, Advice::Random);
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let _ = rustix::fs::fadvise(&*self.0, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn forget(&self, offset: u64, len: u64) {
        // Without a length this would be the rest of the file.
        if let Some(len) = NonZeroU64::new(len) {
            let _ = rustix::fs::fadvise(&*self.0, offset, Some(len), Advice::DontNeed);
        }
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(AsFd::as_fd(&*self.0))
    }

    fn copy_from(&self, from: &dyn DiskFile, len: u64) -> io::Result<()> {
        let copied = match from.as_fd() {
            Some(from) => copy_in_kernel(from, &self.0, len)?,
            None => 0,
        };
        copy_rest(|offset, bytes| self.write_at(offset, bytes), from, copied..len)
    }

    fn appender(&self) -> Option<Box<dyn Appender>> {
        Some(Box::new(Mapped::new(&self.0)?))
    }
}

/// Copies up to `len` bytes, or as many as the kernel can copy between these two files. Where the
/// file system can share the bytes, they are not copied at all.
fn copy_in_kernel(from: BorrowedFd<'_>, to: &File, len: u64) -> io::Result<u64> {
    let (mut read, mut written) = (0, 0);
    while written < len {
        let rest = usize::try_from(len - written).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), rest) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(
                Errno::XDEV
                | Errno::INVAL
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::PERM
                | Errno::BADF
                | Errno::TXTBSY,
            ) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_opener_of_a_folder_is_told_it_is_in_use() {
        let folder = std::env::temp_dir().join(format!("babu-lock-{}", std::process::id()));
        let first = RealDisk::open(&folder).unwrap();
        let error = RealDisk::open(&folder).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("in use"), "{error}");
        drop(first);
        RealDisk::open(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
