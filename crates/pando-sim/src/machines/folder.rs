//! A process's folder in memory, with stores and with the files that record moves. What was not
//! synced may be lost with the power.
//!
//! A store is a file on the folder's own disk, and this file names another disk. A rename of it is
//! durable once the folder is synced, as in a real folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use babu::{Disk, MemDisk, Options};
use pando_server::moving::place::{Place, copy_name, store_name};
use pando_server::moving::{Coming, Given};
use pando_server::store::{Opened, Store, StoreError};
use pando_types::ShardIndex;

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::machines::host::small_options;

/// A process's folder in memory. Clones are one folder.
#[derive(Clone)]
pub struct Folder(Arc<Mutex<Inner>>);

struct Inner {
    names: MemDisk,
    stores: BTreeMap<u64, MemDisk>,
    random: Random,
}

impl Folder {
    /// An empty folder.
    #[must_use]
    pub fn new(random: Random) -> Self {
        let (names, stores) = (MemDisk::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Inner { names, stores, random })))
    }

    /// Puts a store into the folder.
    ///
    /// # Panics
    /// If the folder's disk fails.
    pub fn put(&self, name: &str, disk: MemDisk) {
        let mut inner = self.lock();
        let number = inner.stores.len() as u64 + 1;
        inner.stores.insert(number, disk);
        drop(inner);
        self.write(name, &number.to_string()).and_then(|()| self.sync()).expect("a new disk works");
    }

    /// The disk of the store of this name.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<MemDisk> {
        let number = self.read(name).ok()??.parse().ok()?;
        self.lock().stores.get(&number).cloned()
    }

    /// Opens a store, and creates it if it does not exist.
    pub fn open(&self, name: &str, epoch_at_least: u64) -> Result<(Store, Opened), StoreError> {
        if !self.has(name) {
            self.make(name)
                .map_err(|error| StoreError { what: error.to_string(), is_damage: false })?;
        }
        let Some(disk) = self.disk(name) else {
            return Err(StoreError { what: format!("{name} cannot be read"), is_damage: false });
        };
        Store::over(Arc::new(disk), Options { epoch_at_least, ..small_options() })
    }

    fn make(&self, name: &str) -> io::Result<()> {
        let mut inner = self.lock();
        let number = inner.stores.keys().last().map_or(1, |last| last + 1);
        let disk = match inner.random.chance(1, 2) {
            true => MemDisk::new().with_appender(),
            false => MemDisk::new(),
        };
        inner.stores.insert(number, disk);
        drop(inner);
        self.write(name, &number.to_string())?;
        self.sync()
    }

    /// Whether one of the folder's disks has stopped, so that its machine has.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let inner = self.lock();
        inner.names.has_stopped() || inner.stores.values().any(MemDisk::has_stopped)
    }

    /// The process ended. With `power`, its machine lost power, too.
    pub fn died(&self, power: bool) {
        let inner = &mut *self.lock();
        let random = &mut inner.random;
        let mut next = |disk: &MemDisk| match power {
            true => disk.crash_power(&mut || random.draw()),
            false => disk.crash_process(),
        };
        inner.names = next(&inner.names);
        inner.stores.values_mut().for_each(|disk| *disk = next(disk));
    }

    /// Makes a disk stop at one of its next changes: the folder's own, or that of the shard's copy.
    pub fn stop_soon(&self, shard: usize, random: &mut Random) {
        let changes = random.between(1, 12);
        match self.disk(&copy_name(shard as u16)) {
            Some(copy) if random.chance(1, 2) => copy.crash_at(changes),
            _ => self.lock().names.crash_at(changes),
        }
    }

    /// Makes one of the next changes of the folder's own disk fail.
    pub fn fail_soon(&self, random: &mut Random) {
        self.lock().names.fail_at(random.between(1, 7));
    }

    /// Ends all faults of the folder's disks.
    pub fn mend(&self) {
        let inner = self.lock();
        inner.names.fail_at(1 << 60);
        inner.names.crash_at(1 << 60);
        inner.stores.values().for_each(|disk| disk.crash_at(1 << 60));
    }

    /// Whether there is a file or a store of this name, as far as that can be read.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        Place::exists(self, name).unwrap_or(false)
    }

    /// Whether a start serves the shard from this folder.
    #[must_use]
    pub fn keeps(&self, shard: u16) -> bool {
        self.has(&store_name(shard)) && matches!(Given::read(self, shard), Ok(None))
    }

    /// The record of a copy in this folder that waits, if there is one.
    #[must_use]
    pub fn coming(&self, shard: u16) -> Option<Coming> {
        Coming::read(self, shard).ok()?
    }

    /// The disk of a shard that was given to this folder, under either of its names.
    #[must_use]
    pub fn given_here(&self, shard: u16) -> Option<MemDisk> {
        self.disk(&copy_name(shard)).or_else(|| self.disk(&store_name(shard)))
    }

    /// Finishes moves that the last process knew to be complete, as a real start does first.
    /// Returns the shards to serve.
    pub fn begin(&self, shards: u16) -> io::Result<Vec<usize>> {
        self.sync()?;
        for shard in (0..shards).map(ShardIndex) {
            if Coming::read(self, shard.0)?.is_some_and(|coming| coming.is_taken) {
                Coming::finish(self, shard)?;
            }
        }
        Ok((0..shards).filter(|&shard| self.keeps(shard)).map(usize::from).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

impl Place for Folder {
    fn read(&self, name: &str) -> io::Result<Option<String>> {
        let file = match self.lock().names.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        String::from_utf8(bytes).map(Some).map_err(io::Error::other)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let file = self.lock().names.create(name)?;
        file.write_at(0, text.as_bytes())?;
        file.sync()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.lock().names.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.exists(name)? {
            true => self.lock().names.remove(name),
            false => Ok(()),
        }
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.lock().names.list()?.iter().any(|it| it == name))
    }

    fn sync(&self) -> io::Result<()> {
        self.lock().names.sync_dir()
    }
}
