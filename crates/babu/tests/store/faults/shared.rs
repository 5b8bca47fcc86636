//! Two databases on one disk that is full. Each grasps at any room that it finds, in the middle of
//! the other's checkpoints, too.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use babu::{
    Batch, CheckpointError, CheckpointNowError, Db, Disk, DiskFile, DiskRoom, FreezeError, MemDisk,
    Options, Priority, ReserveError,
};

const CAPACITY: u64 = 2 << 20;

fn options(database_id: u64) -> Options {
    Options {
        log_chunk_bytes: 8 << 10,
        reserve_bytes: 16 << 10,
        ballast_bytes: 128 << 10,
        block_bytes: 1024,
        cache_bytes: 64 << 10,
        database_id,
        ..Options::default()
    }
}

type Hook = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

/// A folder of a disk. `hook` runs before each file of a checkpoint is made.
#[derive(Clone)]
struct Folder {
    disk: MemDisk,
    prefix: &'static str,
    room: DiskRoom,
    hook: Hook,
}

impl Folder {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

impl Disk for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if (name.starts_with("idx-") || name.starts_with("MANIFEST"))
            && let Some(hook) = &mut *self.hook.lock().unwrap()
        {
            hook();
        }
        self.disk.create(&self.path(name))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(&self.path(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.disk.list()?.into_iter();
        let own = |name: String| Some(name.strip_prefix(&self.path(""))?.to_owned());
        Ok(names.filter_map(own).collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.path(from), &self.path(to))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn room(&self) -> DiskRoom {
        self.room.clone()
    }
}

/// A database, and the keys that it has.
struct Side {
    db: Db,
    keys: VecDeque<Vec<u8>>,
    made: u64,
    checkpoints: u64,
}

/// Takes whatever room a side finds.
fn grasp(side: &mut Side) {
    for priority in [Priority::Normal, Priority::Reserve] {
        let _ = side.db.reserve(64 << 10, priority);
        let _ = side.db.reserve(1 << 10, priority);
    }
}

impl Side {
    fn open(folder: &Folder, id: u64) -> Side {
        let (db, _) = Db::open(Arc::new(folder.clone()), options(id)).unwrap();
        Side { db, keys: VecDeque::new(), made: 0, checkpoints: 0 }
    }

    fn put(&mut self) -> Result<(), ReserveError> {
        let key = self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        let mut batch = Batch::new();
        batch.put(&key, &[7; 10]);
        self.db.reserve(batch.log_bytes(0), Priority::Normal)?;
        self.db.apply(&batch, b"");
        self.db.write()?;
        self.made += 1;
        self.keys.push_back(key);
        if self.made.is_multiple_of(1_000) {
            // Most of the disk is index files. On a full disk a checkpoint may find no room.
            let _ = self.checkpoint(&mut || ());
        }
        Ok(())
    }

    /// Deletes the oldest key, if there is room for that.
    fn delete(&mut self) -> bool {
        let mut batch = Batch::new();
        batch.delete(&self.keys[0]);
        match self.db.reserve(batch.log_bytes(0), Priority::Reserve) {
            Err(ReserveError::Full(_)) => return false,
            done => done.unwrap(),
        }
        self.db.apply(&batch, b"");
        self.db.write().unwrap();
        self.keys.pop_front();
        true
    }

    /// A checkpoint, beside which `other` takes what it finds.
    fn checkpoint(&mut self, other: &mut dyn FnMut()) -> Result<(), CheckpointNowError> {
        match self.db.freeze() {
            Err(FreezeError::Full(_)) => {}
            frozen => drop(frozen?),
        }
        let Some(job) = self.db.checkpoint_job() else { return Ok(()) };
        let done = job.run()?;
        other();
        let retired = self.db.install(done);
        other();
        retired.remove()?;
        other();
        while let Some(job) = self.db.merge_job() {
            match job.run() {
                Ok(done) => self.db.install_merge(done).remove()?,
                Err(CheckpointError::Read(error)) if error.is_full() => break,
                Err(error) => return Err(error.into()),
            }
            other();
        }
        self.checkpoints += 1;
        Ok(())
    }
}

#[test]
fn databases_on_a_full_disk_do_not_take_each_others_room() {
    let (disk, room) = (MemDisk::new(), DiskRoom::default());
    disk.full_after(CAPACITY);
    let sides: Vec<(Folder, Arc<Mutex<Side>>)> = ["a", "b"]
        .into_iter()
        .zip(5..)
        .map(|(prefix, id)| {
            let hook = Hook::default();
            let folder = Folder { disk: disk.clone(), prefix, room: room.clone(), hook };
            let side = Side::open(&folder, id);
            (folder, Arc::new(Mutex::new(side)))
        })
        .collect();
    let lock = |side: usize| sides[side].1.lock().unwrap();
    while let (true, _) | (_, true) = (lock(0).put().is_ok(), lock(1).put().is_ok()) {}
    assert!(lock(0).keys.len() > 1_000 && lock(1).keys.len() > 1_000);
    for (own, other) in [(0, 1), (1, 0)] {
        let other = sides[other].1.clone();
        // A side that is at work does not grasp beside itself.
        let beside = move || other.try_lock().map_or((), |mut other| grasp(&mut other));
        *sides[own].0.hook.lock().unwrap() = Some(Box::new(beside));
    }
    // One side after the other deletes all it has. The other only grasps.
    for (own, other) in [(0, 1), (1, 0)] {
        disk.full_after(0);
        let mut tries = 0;
        while !lock(own).keys.is_empty() {
            tries = if lock(own).delete() { 0 } else { tries + 1 };
            assert!(tries < 3, "no deletion after {}", lock(own).checkpoints);
            if tries > 0 || lock(own).db.is_low() {
                lock(own).checkpoint(&mut || grasp(&mut lock(other))).unwrap();
            }
            grasp(&mut lock(other));
        }
        assert!(lock(own).checkpoints > 10);
    }
    for side in [0, 1] {
        lock(side).checkpoint(&mut || ()).unwrap();
        lock(side).put().unwrap();
    }
}
