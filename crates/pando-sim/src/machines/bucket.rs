//! The store of objects: a disk in memory that loses unsynced objects with its power.
//!
//! ```text
//!   a process's door: put ─► there, and to be read ── sync of this door ─► durable
//!   loss of power: what is not durable is lost, or not; what was removed a short time ago comes back, or not
//! ```
//!
//! A sync may fail, as disks' syncs do. Its door then fails until its process ends, as the
//! product's does: the kernel reports a failed write-back once, and a later success would mean
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pando_data::object::stored_len;
use pando_data::{ObjectStore, Space, StoreError};
use pando_types::op::ObjectId;

use crate::base::lock::lock;
use crate::base::random::Random;
use crate::counts::objects::ObjectCounts;

/// The door of the process that hosts all shards. Other doors have a client's number.
pub const PROCESS: u32 = 0;

/// The disk. Clones share it.
#[derive(Clone)]
pub struct Bucket(Arc<Mutex<Inner>>);

struct Inner {
    objects: BTreeMap<ObjectId, Object>,
    /// Removed objects that a loss of power may bring back.
    removed: BTreeMap<ObjectId, Vec<u8>>,
    /// Objects that were lost with the power.
    lost: BTreeSet<ObjectId>,
    /// Doors through which an object was stored that was lost since.
    lost_of: BTreeSet<u32>,
    is_faulty: bool,
    /// One sync of the shards' process in this number fails; 0: none.
    fails_of: u64,
    random: Random,
    counts: ObjectCounts,
}

struct Object {
    bytes: Vec<u8>,
    by: u32,
    is_durable: bool,
}

impl Bucket {
    /// An empty store. One sync of the shards' process in `fails_of` fails; 0: none.
    #[must_use]
    pub fn new(random: Random, fails_of: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            objects: BTreeMap::new(),
            removed: BTreeMap::new(),
            lost: BTreeSet::new(),
            lost_of: BTreeSet::new(),
            is_faulty: true,
            fails_of,
            random,
            counts: ObjectCounts::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    /// The door of a process.
    #[must_use]
    pub fn door(&self, by: u32) -> Arc<Door> {
        Arc::new(Door { bucket: self.clone(), by, has_failed: AtomicBool::new(false) })
    }

    /// A process starts that uses this door: what an earlier process stored through it is synced.
    pub fn begin(&self, by: u32) {
        let inner = &mut *self.lock();
        inner.lost_of.remove(&by);
        inner.sync(by);
    }

    /// Ends all faults of the store.
    pub fn heal(&self) {
        self.lock().is_faulty = false;
    }

    /// The store's machine loses power.
    pub fn lose_power(&self) {
        let Inner { objects, removed, lost, lost_of, random, counts, .. } = &mut *self.lock();
        objects.retain(|id, object| {
            let is_kept = object.is_durable || random.chance(1, 4);
            if !is_kept {
                lost.insert(*id);
                lost_of.insert(object.by);
                counts.lost += 1;
            }
            object.is_durable = true;
            is_kept
        });
        for (id, bytes) in std::mem::take(removed) {
            if random.chance(1, 2) {
                counts.came_back += 1;
                objects.insert(id, Object { bytes, by: PROCESS, is_durable: true });
            }
        }
    }

    /// All objects that exist and are not durable.
    #[must_use]
    pub fn volatile(&self) -> BTreeSet<ObjectId> {
        let inner = self.lock();
        let volatile = inner.objects.iter().filter(|(_, object)| !object.is_durable);
        volatile.map(|(id, _)| *id).collect()
    }

    /// All objects that were lost with the power.
    #[must_use]
    pub fn lost(&self) -> BTreeSet<ObjectId> {
        self.lock().lost.clone()
    }

    /// All objects that exist.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<ObjectId> {
        self.lock().objects.keys().copied().collect()
    }

    /// Counts of what happened.
    #[must_use]
    pub fn counts(&self) -> ObjectCounts {
        self.lock().counts
    }
}

impl Inner {
    fn sync(&mut self, by: u32) {
        for object in self.objects.values_mut().filter(|object| object.by == by) {
            object.is_durable = true;
        }
        self.removed.clear();
    }
}

impl pando_fsck::Objects for Bucket {
    fn list(
        &mut self,
        after: Option<ObjectId>,
        most: usize,
    ) -> Result<Vec<pando_fsck::Stored>, String> {
        let inner = self.lock();
        let above = inner.objects.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let stored = |(id, object): (&ObjectId, &Object)| pando_fsck::Stored {
            id: *id,
            bytes: object.bytes.len() as u64,
        };
        Ok(above.take(most).map(stored).collect())
    }

    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String> {
        Ok(self.lock().objects.get(&id).map(|object| object.bytes.len() as u64))
    }

    fn size_for(&self, content: u64) -> u64 {
        stored_len(content)
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), String> {
        let inner = &mut *self.lock();
        inner.counts.collected += u64::from(inner.objects.remove(&id).is_some());
        Ok(())
    }
}

/// The disk as one process sees it. A sync makes durable what the process itself has stored.
pub struct Door {
    bucket: Bucket,
    by: u32,
    has_failed: AtomicBool,
}

impl Door {
    /// Whether a sync through this door has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }
}

impl ObjectStore for Door {
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError> {
        let inner = &mut *self.bucket.lock();
        if inner.is_faulty && inner.random.chance(1, 40) {
            inner.counts.refused += 1;
            return Err(StoreError::Full);
        }
        inner.counts.stored += 1;
        let object = Object { bytes: parts.concat(), by: self.by, is_durable: false };
        let twice = inner.objects.insert(id, object);
        assert!(twice.is_none(), "object {:032x} is stored twice", id.0);
        Ok(())
    }

    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let inner = &mut *self.bucket.lock();
        let object = inner.objects.get(&id).ok_or(StoreError::Missing)?;
        let bytes = object.bytes.get(range.start as usize..range.end as usize);
        inner.counts.read += 1;
        bytes.map(<[u8]>::to_vec).ok_or(StoreError::Short)
    }

    fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        let inner = &mut *self.bucket.lock();
        if inner.is_faulty && inner.random.chance(1, 40) {
            return Err(StoreError::Io(io::Error::other("it cannot be removed now")));
        }
        let Some(object) = inner.objects.remove(&id) else { return Ok(()) };
        inner.counts.removed += 1;
        if object.is_durable {
            inner.removed.insert(id, object.bytes);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.has_failed() {
            return Err(io::Error::other("an earlier sync failed"));
        }
        let inner = &mut *self.bucket.lock();
        if inner.lost_of.remove(&self.by) {
            return Err(io::Error::other("what was put there is lost"));
        }
        let fails_of = if self.by == PROCESS { inner.fails_of } else { 10 * inner.fails_of };
        if inner.is_faulty && fails_of > 0 && inner.random.chance(1, fails_of) {
            inner.counts.failed += 1;
            self.has_failed.store(true, Ordering::SeqCst);
            return Err(io::Error::other("a sync fails"));
        }
        inner.sync(self.by);
        Ok(())
    }

    fn note_unsynced(&self, objects: &[ObjectId]) {
        let inner = &mut *self.bucket.lock();
        for id in objects {
            if let Some(object) = inner.objects.get_mut(id) {
                object.by = self.by;
            }
        }
    }

    fn space(&self) -> Option<Space> {
        None
    }
}
