//! A process's folder in memory: files that tell of moves, and stores. What was not synced may be
//! lost with the power.
//!
//! A store is a file in the folder's own disk, which names another disk: a rename of it is durable
//! when the folder is synced, as of a real folder.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use babu::{Disk, MemDisk, Options};
use pando_server::moving::place::{Place, copy_name, store_name};
use pando_server::moving::{Coming, Given};
use pando_server::store::{Opened, Store, StoreError};
use pando_types::ShardIndex;

use crate::client_run::lock;
use crate::host::small_options;
use crate::random::Random;

/// See the module. Clones are the same folder.
#[derive(Clone)]
pub struct Folder(Arc<Mutex<Inner>>);

struct Inner {
    names: MemDisk,
    stores: BTreeMap<u64, MemDisk>,
    random: Random,
}

impl Folder {
    /// An empty one.
    #[must_use]
    pub fn new(random: Random) -> Self {
        let (names, stores) = (MemDisk::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Inner { names, stores, random })))
    }

    /// Puts a store there.
    ///
    /// # Panics
    /// If the folder does not work.
    pub fn put(&self, name: &str, disk: MemDisk) {
        let mut inner = self.lock();
        let number = inner.stores.len() as u64 + 1;
        inner.stores.insert(number, disk);
        drop(inner);
        self.write(name, &number.to_string()).and_then(|()| self.sync()).expect("a new disk works");
    }

    /// The disk of a store.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<MemDisk> {
        let number = self.read(name).ok()??.parse().ok()?;
        self.lock().stores.get(&number).cloned()
    }

    /// Opens a store, and makes it if there is none.
    pub fn open(&self, name: &str, epoch_at_least: u64) -> Result<(Store, Opened), StoreError> {
        if !self.exists(name) {
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

    /// Whether one of its disks has stopped: its machine has.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        let inner = self.lock();
        inner.names.has_stopped() || inner.stores.values().any(MemDisk::has_stopped)
    }

    /// The process ended; with `power` the machine too.
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

    /// A change of what tells of moves, or of a copy, will be the last of this life.
    pub fn stop_soon(&self, shard: usize, random: &mut Random) {
        let changes = random.between(1, 12);
        match self.disk(&copy_name(shard as u16)) {
            Some(copy) if random.chance(1, 2) => copy.crash_at(changes),
            _ => self.lock().names.crash_at(changes),
        }
    }

    /// One of the next changes of what tells of moves fails.
    pub fn fail_soon(&self, random: &mut Random) {
        self.lock().names.fail_at(random.between(1, 7));
    }

    /// All works from now on.
    pub fn mend(&self) {
        let inner = self.lock();
        inner.names.fail_at(1 << 60);
        inner.names.crash_at(1 << 60);
        inner.stores.values().for_each(|disk| disk.crash_at(1 << 60));
    }

    /// Whether a start serves the shard from here.
    #[must_use]
    pub fn keeps(&self, shard: u16) -> bool {
        self.exists(&store_name(shard)) && matches!(Given::read(self, shard), Ok(None))
    }

    /// What a copy here waits for.
    #[must_use]
    pub fn coming(&self, shard: u16) -> Option<Coming> {
        Coming::read(self, shard).ok()?
    }

    /// The disk of a shard that was given to this folder, wherever it is by now.
    #[must_use]
    pub fn given_here(&self, shard: u16) -> Option<MemDisk> {
        self.disk(&copy_name(shard)).or_else(|| self.disk(&store_name(shard)))
    }

    /// Ends moves of which the last process had heard the end, as a real process does first: which
    /// shards are to be served.
    pub fn begin(&self, shards: u16) -> io::Result<Vec<usize>> {
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
        match self.exists(name) {
            true => self.lock().names.remove(name),
            false => Ok(()),
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.lock().names.list().is_ok_and(|names| names.iter().any(|it| it == name))
    }

    fn sync(&self) -> io::Result<()> {
        self.lock().names.sync_dir()
    }
}
