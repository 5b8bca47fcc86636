//! Objects as files of a local folder.
//!
//! ```text
//! FOLDER/0000000000000007/0/0002f     session ‖ counter div 4096 ‖ counter mod 4096, hexadecimal
//! ```
//!
//! An object is written under its own name at once: its id is never given again, and nothing names it before the write
//! has succeeded. A crash in between leaves a file that nothing names.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::op::ObjectId;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::listing::Listing;
use super::{ObjectStore, Space, StoreError};

/// Beyond this many unsynced objects, one `syncfs` is cheaper than an `fsync` each.
const SINGLE_SYNCS_MAX: usize = 64;
/// Objects of one session in one folder.
pub(super) const PER_FOLDER: u64 = 4096;

/// Objects in a local folder.
pub struct LocalStore {
    root: OwnedFd,
    path: PathBuf,
    /// Written and not yet synced.
    pending: Mutex<Vec<ObjectId>>,
    /// Held during a sync, so that whoever finds nothing pending waits for the sync under way. True once one failed.
    sync: Mutex<bool>,
}

impl LocalStore {
    /// Opens the folder, making it if it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let (pending, sync) = Default::default();
        Ok(Self { root, path: path.to_owned(), pending, sync })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All objects with ids above `after`, ascending, with the bytes each takes.
    pub fn list(&self, after: Option<ObjectId>) -> io::Result<Listing> {
        Listing::new(&self.path, after)
    }

    /// Bytes an object takes; `None`: it is not there.
    pub fn size(&self, id: ObjectId) -> io::Result<Option<u64>> {
        match rustix::fs::statat(&self.root, name(id), AtFlags::empty()) {
            Ok(stat) => Ok(Some(stat.st_size.cast_unsigned())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn create(&self, id: ObjectId) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let name = name(id);
        // A folder may vanish between its making and the file's, when its last object is deleted just then.
        for _ in 0..100 {
            match rustix::fs::openat(&self.root, &name, flags, mode) {
                Err(Errno::NOENT) => self.make_folders(id)?,
                other => return Ok(other?),
            }
        }
        Err(io::Error::other("the folder of an object vanishes again and again"))
    }

    fn make_folders(&self, id: ObjectId) -> io::Result<()> {
        for folder in [session_folder(id), counter_folder(id)] {
            match rustix::fs::mkdirat(&self.root, &folder, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn sync_path(&self, path: &str) -> io::Result<()> {
        match rustix::fs::openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        {
            Ok(file) => Ok(rustix::fs::fsync(file)?),
            // Deleted since.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_objects(&self, ids: &[ObjectId]) -> io::Result<()> {
        if ids.len() > SINGLE_SYNCS_MAX {
            return Ok(rustix::fs::syncfs(self.root.as_fd())?);
        }
        let mut folders = HashSet::new();
        for &id in ids {
            self.sync_path(&name(id))?;
            folders.insert(counter_folder(id));
            folders.insert(session_folder(id));
        }
        for folder in &folders {
            self.sync_path(folder)?;
        }
        Ok(rustix::fs::fsync(&self.root)?)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn session_folder(id: ObjectId) -> String {
    format!("{:016x}", (id.0 >> 64) as u64)
}

fn counter_folder(id: ObjectId) -> String {
    format!("{}/{:x}", session_folder(id), id.0 as u64 / PER_FOLDER)
}

fn name(id: ObjectId) -> String {
    format!("{}/{:03x}", counter_folder(id), id.0 as u64 % PER_FOLDER)
}

fn write_all(file: &OwnedFd, parts: &[&[u8]]) -> io::Result<()> {
    let mut rest: Vec<&[u8]> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    while !rest.is_empty() {
        let slices: Vec<_> =
            rest.iter().take(64).map(|part| rustix::io::IoSlice::new(part)).collect();
        let mut written = match rustix::io::writev(file, &slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        while written > 0 {
            let step = written.min(rest[0].len());
            rest[0] = &rest[0][step..];
            written -= step;
            if rest[0].is_empty() {
                rest.remove(0);
            }
        }
    }
    Ok(())
}

impl ObjectStore for LocalStore {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        let file = match self.create(id) {
            // Folders are missing only in a damaged store, not for want of an object.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Io(error));
            }
            other => other?,
        };
        if let Err(error) = write_all(&file, parts) {
            let _ = rustix::fs::unlinkat(&self.root, name(id), AtFlags::empty());
            return Err(error.into());
        }
        lock(&self.pending).push(id);
        Ok(())
    }

    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME;
        let file = match rustix::fs::openat(&self.root, name(id), flags, Mode::empty()) {
            Err(Errno::PERM) => {
                let flags = flags.difference(OFlags::NOATIME);
                rustix::fs::openat(&self.root, name(id), flags, Mode::empty())
            }
            other => other,
        }
        .map_err(io::Error::from)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(&file, &mut bytes[done..], range.start + done as u64) {
                Ok(0) => return Err(StoreError::Short),
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
        Ok(bytes)
    }

    fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.root, name(id), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        // Refused unless it was the last.
        let _ = rustix::fs::unlinkat(&self.root, counter_folder(id), AtFlags::REMOVEDIR);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut failed = lock(&self.sync);
        if *failed {
            // The kernel reports a failed write-back once, then forgets the pages: later success would be a lie.
            return Err(io::Error::other("an earlier sync of the object store failed"));
        }
        let ids = std::mem::take(&mut *lock(&self.pending));
        if ids.is_empty() {
            return Ok(());
        }
        let result = self.sync_objects(&ids);
        *failed = result.is_err();
        result
    }

    fn space(&self) -> Option<Space> {
        let stat = rustix::fs::fstatvfs(&self.root).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Space {
            total: bytes(stat.f_blocks),
            free: bytes(stat.f_bfree),
            available: bytes(stat.f_bavail),
        })
    }
}
