//! Objects as files of a local folder.
//!
//! ```text
//! FOLDER/0000000000000007/0/0002f     session ‖ counter div 4096 ‖ counter mod 4096, hexadecimal
//! ```
//!
//! An object is written under its own name at once. That is safe, since its id is never given
//! again. No metadata names it before the write has succeeded, including the errors that `close`
//! tells. A crash in between leaves a file that no metadata names.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::op::ObjectId;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::store::listing::{Listing, PER_FOLDER};
use crate::store::traits::{ObjectStore, Space, StoreError};

/// Beyond this many unsynced objects, one `syncfs` is cheaper than an `fsync` of each, on file
/// systems where `syncfs` is reliable. On an idle ext4 it is from 8 on. But it waits for all that
/// other programs have written there, and reports their errors.
const SINGLE_SYNCS_MAX: usize = 64;

/// Objects in a local folder.
pub struct LocalStore {
    root: OwnedFd,
    path: PathBuf,
    /// Whether the sync of a new file makes its name durable, too.
    syncs_names: bool,
    /// Whether `syncfs` makes everything durable.
    syncs_whole: bool,
    pending: Mutex<Pending>,
    /// Held during a sync, so that a caller that finds nothing pending waits for the running sync.
    sync: Mutex<()>,
    /// Whether a sync has failed. Nothing is stored any more, as it could not be made durable.
    has_failed: AtomicBool,
    durable: Mutex<Durable>,
    syncs: Counters,
}

/// Objects written and not yet synced.
#[derive(Default)]
struct Pending {
    /// There may be unsynced objects of an earlier process.
    others: bool,
    /// The first few have the descriptors that wrote them. These report every write-back error
    /// since.
    objects: Vec<(ObjectId, Option<OwnedFd>)>,
}

/// Folders with durable names. No folder counts before its first sync by this process: an earlier
/// process may have been killed before its own sync.
///
/// [`LocalStore::make_folders`] makes a removed folder again, and holds this lock meanwhile. So no
/// object is ever in a new folder that still counts as durable.
#[derive(Default)]
struct Durable {
    folders: HashSet<String>,
    /// Number of folders made. A sync notes folders as durable only if none was made meanwhile.
    made: u64,
}

#[derive(Default)]
struct Counters {
    single: AtomicU64,
    whole: AtomicU64,
}

/// Number of syncs of a [`LocalStore`] since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Syncs {
    /// Syncs of single files and folders.
    pub single: u64,
    /// Syncs of the whole file system.
    pub whole: u64,
}

impl LocalStore {
    /// Opens the folder, and makes it if it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let kind = rustix::fs::fstatfs(&root).map_or(0, |facts| facts.f_type as u32);
        let (syncs_names, syncs_whole) = (syncs_names(&root, kind), SYNC_WHOLE.contains(&kind));
        let (pending, sync, durable, syncs) = Default::default();
        let (path, has_failed) = (path.to_owned(), AtomicBool::new(false));
        Ok(Self { root, path, syncs_names, syncs_whole, pending, sync, has_failed, durable, syncs })
    }

    /// Opens a folder in which an earlier process may have left objects that it did not sync. The
    /// first sync covers these, too.
    pub fn open_unsure(path: &Path) -> io::Result<Self> {
        let mut store = Self::open(path)?;
        let is_empty = store.list(None)?.next().is_none();
        store.pending.get_mut().unwrap_or_else(PoisonError::into_inner).others = !is_empty;
        Ok(store)
    }

    /// Number of syncs so far.
    #[must_use]
    pub fn syncs(&self) -> Syncs {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Syncs { single: count(&self.syncs.single), whole: count(&self.syncs.whole) }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All objects with ids above `after`, ascending, with the bytes each takes.
    pub fn list(&self, after: Option<ObjectId>) -> io::Result<Listing> {
        Listing::new(&self.path, after)
    }

    /// Bytes that an object takes; `None` if it is missing.
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
        // A folder may vanish before the file is made, if its last object is deleted just then.
        for _ in 0..100 {
            match rustix::fs::openat(&self.root, &name, flags, mode) {
                Err(Errno::NOENT) => self.make_folders(id)?,
                other => return Ok(other?),
            }
        }
        Err(io::Error::other("other processes keep removing the object's folder"))
    }

    fn make_folders(&self, id: ObjectId) -> io::Result<()> {
        let mut durable = lock(&self.durable);
        for folder in [session_folder(id), counter_folder(id)] {
            match rustix::fs::mkdirat(&self.root, &folder, Mode::from_raw_mode(0o700)) {
                Ok(()) => {
                    durable.made += 1;
                    durable.folders.remove(&folder);
                }
                Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn sync_one(&self, file: impl AsFd) -> io::Result<()> {
        self.syncs.single.fetch_add(1, Ordering::Relaxed);
        Ok(rustix::fs::fsync(file)?)
    }

    fn sync_path(&self, path: &str) -> io::Result<()> {
        match rustix::fs::openat(&self.root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        {
            Ok(file) => self.sync_one(file),
            // The file was deleted meanwhile.
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Syncs every object, one by one, and every name.
    fn sync_all(&self) -> io::Result<()> {
        let mut folders = HashSet::new();
        for object in self.list(None)? {
            let (id, _) = object?;
            self.sync_path(&name(id))?;
            folders.extend([counter_folder(id), session_folder(id)]);
        }
        folders.iter().try_for_each(|folder| self.sync_path(folder))?;
        self.sync_one(&self.root)
    }

    fn sync_objects(&self, Pending { others, objects }: &Pending) -> io::Result<()> {
        let counters: HashSet<_> = objects.iter().map(|&(id, _)| counter_folder(id)).collect();
        let sessions: HashSet<_> = objects.iter().map(|&(id, _)| session_folder(id)).collect();
        let (made, new_counters, new_sessions) = {
            let durable = lock(&self.durable);
            let new = |folder: &&String| !durable.folders.contains(*folder);
            let new_counters: Vec<_> = counters.iter().filter(new).cloned().collect();
            let new_sessions: Vec<_> = sessions.iter().filter(new).cloned().collect();
            (durable.made, new_counters, new_sessions)
        };
        if self.syncs_whole && (*others || objects.len() > SINGLE_SYNCS_MAX) {
            self.syncs.whole.fetch_add(1, Ordering::Relaxed);
            rustix::fs::syncfs(self.root.as_fd())?;
        } else {
            if *others {
                self.sync_all()?;
            }
            for (id, file) in objects {
                match file {
                    Some(file) => self.sync_one(file)?,
                    None => self.sync_path(&name(*id))?,
                }
            }
            // From below: a name is of use only once its file is durable.
            for counter in counters.iter().filter(|_| !self.syncs_names) {
                self.sync_path(counter)?;
            }
            let parents: HashSet<_> =
                new_counters.iter().filter_map(|folder| folder.split('/').next()).collect();
            for session in parents {
                self.sync_path(session)?;
            }
            if !new_sessions.is_empty() {
                self.sync_one(&self.root)?;
            }
        }
        let mut durable = lock(&self.durable);
        if durable.made == made {
            durable.folders.extend(new_counters);
            durable.folders.extend(new_sessions);
        }
        Ok(())
    }
}

const EXT: u32 = 0xEF53;
const XFS: u32 = 0x5846_5342;
const BTRFS: u32 = 0x9123_683E;

/// File systems on which `syncfs` makes everything durable: ext2–4, XFS, Btrfs, tmpfs (as far as it
/// can), F2FS, ZFS, overlays, NFS. For most FUSE file systems the kernel does not pass `syncfs` on,
/// and reports success.
const SYNC_WHOLE: [u32; 8] =
    [EXT, XFS, BTRFS, 0x0102_1994, 0xF2F5_2010, 0x2FC1_2FC1, 0x794C_7630, 0x6969];

/// Whether the sync of a new file makes its name durable. These file systems write changes of names
/// in order, or log the name with the file. ext2 does neither, but has the magic number of ext3 and
/// ext4. The list of mounts tells them apart.
fn syncs_names(root: &OwnedFd, kind: u32) -> bool {
    match kind {
        XFS | BTRFS => true,
        EXT => rustix::fs::fstat(root).is_ok_and(|stat| {
            let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
            std::fs::read_to_string("/proc/self/mountinfo")
                .is_ok_and(|mounts| has_journal(&mounts, device))
        }),
        _ => false,
    }
}

/// Whether `mounts`, in the format of `/proc/self/mountinfo`, has this device as ext3 or ext4.
fn has_journal(mounts: &str, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    mounts.lines().any(|line| {
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        line.split(' ').nth(2) == Some(&*device) && matches!(kind, Some("ext3" | "ext4"))
    })
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

/// Makes NFS write the file back. NFS does so when any descriptor of the file is closed, and
/// reports the errors then. The descriptor that wrote the file stays open for its sync.
fn flush(file: &OwnedFd) -> io::Result<()> {
    loop {
        match nix::unistd::close(file.try_clone()?) {
            // The descriptor is closed, but it is not known whether everything was written back.
            Err(nix::errno::Errno::EINTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The kernel reports a failed write-back once, then forgets the pages. A later success would mean
/// nothing.
fn has_failed() -> io::Error {
    io::Error::other("an earlier sync of the object store failed")
}

impl ObjectStore for LocalStore {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(StoreError::Io(has_failed()));
        }
        let file = match self.create(id) {
            // A missing folder means a damaged store, and must not count as a missing object.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Io(error));
            }
            other => other?,
        };
        if let Err(error) = write_all(&file, parts).and_then(|()| flush(&file)) {
            let _ = rustix::fs::unlinkat(&self.root, name(id), AtFlags::empty());
            return Err(error.into());
        }
        let mut pending = lock(&self.pending);
        let file = (pending.objects.len() < SINGLE_SYNCS_MAX).then_some(file);
        pending.objects.push((id, file));
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
        // The open descriptor would keep its room.
        lock(&self.pending).objects.retain(|&(pending, _)| pending != id);
        // The kernel refuses this unless the folder is empty.
        let _ = rustix::fs::unlinkat(&self.root, counter_folder(id), AtFlags::REMOVEDIR);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let _one = lock(&self.sync);
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(has_failed());
        }
        let pending = std::mem::take(&mut *lock(&self.pending));
        if pending.objects.is_empty() && !pending.others {
            return Ok(());
        }
        let result = self.sync_objects(&pending);
        self.has_failed.store(result.is_err(), Ordering::SeqCst);
        result
    }

    fn note_unsynced(&self, objects: &[ObjectId]) {
        lock(&self.pending).objects.extend(objects.iter().map(|id| (*id, None)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_system_with_a_journal_is_believed_to_sync_names() {
        let mounts = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            22 1 8:2 / /old rw - ext2 /dev/sda2 rw\n\
            23 1 8:17 /a\\040b /b rw master:2 shared:4 - ext3 /dev/sdb1 rw\n";
        assert!(has_journal(mounts, (8, 1)));
        assert!(has_journal(mounts, (8, 17)));
        assert!(!has_journal(mounts, (8, 2)));
        assert!(!has_journal(mounts, (1, 1)));
        assert!(!has_journal("", (8, 1)));
    }
}
