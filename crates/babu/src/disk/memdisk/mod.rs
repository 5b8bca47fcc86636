//! A disk in memory that can lose power, for tests and simulations.
//!
//! ```text
//! write_at ──► visible bytes (what reads see)      ──crash_process──► survives
//!    └──────► unsynced list ──sync──► durable bytes ──crash_power───► survives, with a random part of the list
//! ```
//!
//! 1. The disk is deterministic: its only randomness comes from the caller, and it has no clock or
//!    threads.
//! 2. A crash ends the life of every handle made before it. The crash functions return a fresh
//!    handle.
//! 3. A failed or crashed write may leave a part of its bytes, as on a real disk.
//! 4. A loss of power loses or keeps each unsynced write, and tears it by the sector: any of its
//!    sectors may survive without the others.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod append;
mod content;

use crate::disk::traits::{Appender, Disk, DiskFile};
use content::{Content, ContentChange};

/// A disk in memory. Clones share one content.
#[derive(Clone)]
pub struct MemDisk {
    inner: Arc<Mutex<Inner>>,
    life: u64,
}

/// Numbers of operations that a [`MemDisk`] has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls of `write_at`.
    pub writes: u64,
    /// Calls of [`Appender::append`] that found their pages ready.
    pub appends: u64,
    /// Calls of `sync` and `sync_dir`.
    pub syncs: u64,
    /// All calls that change something. [`MemDisk::crash_at`] and [`MemDisk::fail_at`] count these.
    pub changes: u64,
}

#[derive(Default)]
struct Inner {
    /// Number of crashes so far. Handles made before the last crash return errors only.
    life: u64,
    crashed: bool,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<NameChange>,
    counters: Counters,
    fail_at: Option<u64>,
    crash_at: Option<u64>,
    fail_sync: bool,
    capacity: Option<u64>,
    has_appender: bool,
}

enum NameChange {
    Link { name: String, file: u64 },
    Unlink { name: String },
    Rename { from: String, to: String, file: u64 },
}

/// What happens to the current operation.
enum Verdict {
    Proceed,
    /// The operation is done by half, then returns the error.
    Fail(io::Error),
}

impl Default for MemDisk {
    fn default() -> Self {
        MemDisk::new()
    }
}

impl MemDisk {
    /// An empty disk.
    pub fn new() -> MemDisk {
        MemDisk { inner: Arc::default(), life: 0 }
    }

    /// A disk that holds these bytes durably.
    pub fn with_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> MemDisk {
        let disk = MemDisk::new();
        {
            let mut inner = disk.lock();
            for (name, bytes) in files {
                let file = inner.new_file();
                let content = Content::durable(bytes);
                inner.files.insert(file, content);
                inner.names.insert(name.to_owned(), file);
                inner.durable_names.insert(name.to_owned(), file);
            }
        }
        disk
    }

    /// Gives the disk's files an [`Appender`], as those of some real disks have. Appended bytes go
    /// to pages that are made ready ahead. A loss of power takes or keeps each page on its own.
    pub fn with_appender(self) -> MemDisk {
        self.lock().has_appender = true;
        self
    }

    /// All files with the bytes that reads would see.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let inner = self.lock();
        let content = |file| inner.files[file].visible.clone();
        inner.names.iter().map(|(name, file)| (name.clone(), content(file))).collect()
    }

    /// All files with the bytes that survive if a loss of power takes all that is not synced.
    pub fn durable_files(&self) -> BTreeMap<String, Vec<u8>> {
        let inner = self.lock();
        let content = |file| inner.files[file].durable.clone();
        inner.durable_names.iter().map(|(name, file)| (name.clone(), content(file))).collect()
    }

    /// True if the machine has stopped, or a crash has ended the life of this handle. All
    /// operations then fail.
    pub fn has_stopped(&self) -> bool {
        self.alive().is_err()
    }

    /// Numbers of operations so far.
    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    /// Makes the `n`-th change from now (1 is the next) fail with an I/O error. Later changes
    /// succeed again.
    pub fn fail_at(&self, n: u64) {
        let mut inner = self.lock();
        inner.fail_at = Some(inner.counters.changes + n);
    }

    /// Makes the next sync of a file fail as on Linux. The bytes that it should have made durable
    /// can be read as long as the machine runs. Later syncs do not make them durable either.
    pub fn fail_sync(&self) {
        self.lock().fail_sync = true;
    }

    /// Stops the machine in the middle of the `n`-th change from now. That change and all later
    /// operations fail until one of the crash functions is called.
    pub fn crash_at(&self, n: u64) {
        let mut inner = self.lock();
        inner.crash_at = Some(inner.counters.changes + n);
    }

    /// Makes the disk full once it has taken `bytes` more.
    pub fn full_after(&self, bytes: u64) {
        let mut inner = self.lock();
        inner.capacity = Some(inner.used() + bytes);
    }

    /// Removes the limit that [`MemDisk::full_after`] has set.
    pub fn unlimited(&self) {
        self.lock().capacity = None;
    }

    /// The process dies, and the machine goes on: everything written is kept.
    pub fn crash_process(&self) -> MemDisk {
        self.next_life(&mut self.lock())
    }

    /// Power is lost. A random part of the unsynced changes survives, in any order. Of a write, its
    /// beginning or some of its sectors may survive.
    pub fn crash_power(&self, random: &mut dyn FnMut() -> u64) -> MemDisk {
        let mut inner = self.lock();
        for content in inner.files.values_mut() {
            content.lose_power(random);
        }
        let changes = std::mem::take(&mut inner.unsynced_names);
        // Half of the time all changes up to some point survive, as on a journalling file system.
        let in_order = random().is_multiple_of(2);
        let kept = random() as usize % (changes.len() + 1);
        for (position, change) in changes.iter().enumerate() {
            if if in_order { position < kept } else { random().is_multiple_of(2) } {
                change.apply(&mut inner.durable_names);
            }
        }
        inner.names = inner.durable_names.clone();
        let Inner { files, names, .. } = &mut *inner;
        files.retain(|file, _| names.values().any(|named| named == file));
        self.next_life(&mut inner)
    }

    fn next_life(&self, inner: &mut Inner) -> MemDisk {
        inner.life += 1;
        inner.crashed = false;
        inner.crash_at = None;
        inner.fail_at = None;
        MemDisk { inner: self.inner.clone(), life: inner.life }
    }

    fn handle(&self, inner: &mut Inner, file: u64) -> io::Result<Box<dyn DiskFile>> {
        inner.content(file)?.handle_count += 1;
        Ok(Box::new(MemFile { disk: self.clone(), file }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, Inner>> {
        let inner = self.lock();
        if inner.life != self.life || inner.crashed {
            return Err(io::Error::other("the simulated machine has crashed"));
        }
        Ok(inner)
    }
}

impl Inner {
    fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].visible.len() as u64).sum()
    }

    /// Counts a change, and decides whether it happens.
    fn change(&mut self) -> Verdict {
        self.counters.changes += 1;
        let now = self.counters.changes;
        if self.crash_at.is_some_and(|at| now >= at) {
            self.crashed = true;
            return Verdict::Fail(io::Error::other("the simulated machine has crashed"));
        }
        if self.fail_at == Some(now) {
            return Verdict::Fail(io::Error::other("simulated I/O error"));
        }
        Verdict::Proceed
    }

    /// Counts a change that happens entirely or not at all.
    fn whole_change(&mut self) -> io::Result<()> {
        match self.change() {
            Verdict::Proceed => Ok(()),
            Verdict::Fail(error) => Err(error),
        }
    }

    fn grow(&self, file: u64, len: u64) -> io::Result<()> {
        let current = self.files.get(&file).map_or(0, |c| c.visible.len() as u64);
        let growth = len.saturating_sub(current);
        match self.capacity {
            Some(capacity) if growth > 0 && self.used() + growth > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.counters.writes += 1;
        self.grow(file, offset + bytes.len() as u64)?;
        let (bytes, result) = match self.change() {
            Verdict::Proceed => (bytes, Ok(())),
            Verdict::Fail(error) => (&bytes[..bytes.len() / 2], Err(error)),
        };
        self.content(file)?.change(ContentChange::Write { offset, bytes: bytes.to_vec() });
        result
    }

    fn content(&mut self, file: u64) -> io::Result<&mut Content> {
        // Only a crash takes files from their handles, and such a handle is refused earlier.
        self.files.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl NameChange {
    fn apply(&self, to: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Link { name, file } => {
                to.insert(name.clone(), *file);
            }
            NameChange::Unlink { name } => {
                to.remove(name);
            }
            NameChange::Rename { from, to: target, file } => {
                to.remove(from);
                to.insert(target.clone(), *file);
            }
        }
    }
}

impl Inner {
    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
    }
}

impl Disk for MemDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.alive()?;
        inner.whole_change()?;
        // As with O_TRUNC, the name keeps its file, and the file loses its bytes.
        let file = match inner.names.get(name) {
            Some(&file) => {
                inner.content(file)?.change(ContentChange::SetLen(0));
                file
            }
            None => {
                let file = inner.new_file();
                inner.files.insert(file, Content::default());
                inner.change_names(NameChange::Link { name: name.to_owned(), file });
                file
            }
        };
        self.handle(&mut inner, file)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.alive()?;
        let file = *inner.names.get(name).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        self.handle(&mut inner, file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.alive()?.names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.alive()?;
        if !inner.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        inner.whole_change()?;
        inner.change_names(NameChange::Unlink { name: name.to_owned() });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.alive()?;
        let Some(&file) = inner.names.get(from) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        inner.whole_change()?;
        inner.change_names(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    /// Each name has bytes of its own here. That is the same, as neither may be changed.
    fn link(&self, from: &dyn Disk, name: &str) -> io::Result<bool> {
        let Some(from) = from.as_any().and_then(|any| any.downcast_ref::<MemDisk>()) else {
            return Ok(false);
        };
        let found = {
            let inner = from.alive()?;
            inner.names.get(name).map(|file| inner.files[file].clone())
        };
        let Some(mut content) = found else { return Ok(false) };
        let mut inner = self.alive()?;
        inner.whole_change()?;
        let file = inner.new_file();
        content.handle_count = 0;
        inner.files.insert(file, content);
        inner.change_names(NameChange::Link { name: name.to_owned(), file });
        Ok(true)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.alive()?;
        inner.counters.syncs += 1;
        inner.whole_change()?;
        inner.durable_names = inner.names.clone();
        inner.unsynced_names.clear();
        let Inner { files, names, .. } = &mut *inner;
        let named: BTreeSet<_> = names.values().collect();
        files.retain(|file, content| content.handle_count > 0 || named.contains(file));
        Ok(())
    }
}

struct MemFile {
    disk: MemDisk,
    file: u64,
}

impl Drop for MemFile {
    fn drop(&mut self) {
        if let Ok(content) = self.disk.lock().content(self.file) {
            content.handle_count -= 1;
        }
    }
}

impl DiskFile for MemFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.alive()?.write(self.file, offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut inner = self.disk.alive()?;
        let content = inner.content(self.file)?;
        let end = offset.saturating_add(buffer.len() as u64);
        if end > content.visible.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.copy_from_slice(&content.visible[offset as usize..end as usize]);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.alive()?.content(self.file)?.visible.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.alive()?;
        inner.counters.syncs += 1;
        inner.whole_change()?;
        if std::mem::take(&mut inner.fail_sync) {
            inner.content(self.file)?.forget_unsynced();
            return Err(io::Error::other("this sync fails as it was told"));
        }
        inner.content(self.file)?.sync();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.alive()?;
        inner.grow(self.file, len)?;
        inner.whole_change()?;
        inner.content(self.file)?.change(ContentChange::SetLen(len));
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut inner = self.disk.alive()?;
        inner.grow(self.file, len)?;
        inner.whole_change()?;
        inner.content(self.file)?.change(ContentChange::Extend(len));
        Ok(())
    }

    fn appender(&self) -> Option<Box<dyn Appender>> {
        append::appender(&self.disk, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_crash_keeps_what_was_written_and_ends_old_handles() {
        let disk = MemDisk::new();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"hello").unwrap();
        let again = disk.crash_process();
        assert!(file.write_at(0, b"x").is_err());
        assert!(disk.list().is_err() && disk.has_stopped() && !again.has_stopped());
        let mut bytes = [0; 5];
        again.open("a").unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[test]
    fn a_power_loss_keeps_what_was_synced_and_may_lose_the_rest() {
        let mut lost = 0;
        for seed in 0..64u64 {
            let disk = MemDisk::new();
            let file = disk.create("a").unwrap();
            file.write_at(0, b"kept").unwrap();
            file.sync().unwrap();
            disk.sync_dir().unwrap();
            file.write_at(4, b"tail").unwrap();
            let mut random = fastrand::Rng::with_seed(seed);
            let again = disk.crash_power(&mut || random.u64(..));
            let bytes = again.files()["a"].clone();
            assert!(bytes.starts_with(b"kept") && b"kepttail".starts_with(&bytes[..]));
            lost += usize::from(bytes.len() < 8);
        }
        assert!(lost > 0 && lost < 64);
    }

    #[test]
    fn a_power_loss_keeps_any_sectors_of_a_write_and_never_a_part_of_one() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut holes, mut tails) = (0, 0);
        for _ in 0..200 {
            let disk = MemDisk::new();
            let file = disk.create("a").unwrap();
            file.allocate(4096).unwrap();
            file.sync().unwrap();
            disk.sync_dir().unwrap();
            file.write_at(100, &[1; 1500]).unwrap();
            file.write_at(2000, &[1; 2000]).unwrap();
            let bytes = disk.crash_power(&mut || random.u64(..)).files()["a"].clone();
            let (first, second) = (&bytes[100..1600], &bytes[2000..4000]);
            for written in [first, second] {
                let kept = written.iter().position(|&byte| byte == 0).unwrap_or(written.len());
                // Some bytes survived after a hole.
                holes += usize::from(written[kept..].contains(&1));
                tails += usize::from(kept == 0 && written.contains(&1));
            }
            // Inside a write, after its first sector boundary, all bytes of a sector are kept or
            // all are lost. The exception is the sector in which a write ends.
            for sector in bytes[2048..3584].chunks(512) {
                let ones = sector.iter().take_while(|&&byte| byte == 1).count();
                assert!(sector[ones..].iter().all(|&byte| byte == 0), "at most a prefix of one");
            }
        }
        assert!(holes > 8 && tails > 4, "{holes} {tails}");
    }

    #[test]
    fn a_removed_file_lives_as_long_as_a_handle_to_it() {
        let disk = MemDisk::new();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"x").unwrap();
        disk.remove("a").unwrap();
        disk.sync_dir().unwrap();
        file.read_at(0, &mut [0]).unwrap();
        drop(file);
        disk.sync_dir().unwrap();
        assert!(disk.lock().files.is_empty());
    }

    #[test]
    fn a_full_disk_refuses_growth_until_space_is_made() {
        let disk = MemDisk::new();
        let file = disk.create("a").unwrap();
        file.allocate(10).unwrap();
        disk.full_after(0);
        file.write_at(0, &[1; 10]).unwrap();
        let error = file.write_at(10, &[1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        disk.unlimited();
        file.write_at(10, &[1]).unwrap();
    }
}
