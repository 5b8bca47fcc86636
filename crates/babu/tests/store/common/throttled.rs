//! A load that writes much more than memory, on a disk that takes index files slowly.
//!
//! Time does not matter. Jobs write index files on threads of their own, as far as they have
//! credit. Whoever grants credit waits until all jobs have used it up, or have ended.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use babu::{
    Batch, CheckpointDone, Db, Disk, DiskFile, MemDisk, MergeDone, Options, Pressure, Priority,
};
use fastrand::Rng;

use super::{Model, apply_to_model, contents, small_options};

/// The tree is frozen at this size.
const TREE: usize = 1 << 20;
/// All trees together have this limit.
const TREES: usize = 2 * TREE;
const CACHE: usize = TREE / 2;
/// One group may find a tree just below the limit.
const GROUP: usize = 32 << 10;
/// Two trees of this size leave a huge page each for the next ones.
const SPARE: usize = 4 << 20;
const BUDGET: usize = TREES + CACHE;

/// The disk under a database whose index files are written slowly.
#[derive(Clone, Default)]
struct Throttled {
    disk: MemDisk,
    credit: Arc<Credit>,
}

#[derive(Default)]
struct Credit {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    bytes: usize,
    /// Jobs that have begun and not ended.
    jobs: usize,
    /// What the jobs need that wait for credit.
    needs: Vec<usize>,
}

impl Credit {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn take(&self, bytes: usize) {
        let mut state = self.lock();
        state.needs.push(bytes);
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.bytes < bytes).unwrap();
        state.bytes -= bytes;
        let position = state.needs.iter().position(|&need| need == bytes).unwrap();
        state.needs.swap_remove(position);
    }

    /// Lets jobs write so many bytes more, and waits until they can do no more.
    fn grant(&self, bytes: usize) {
        let mut state = self.lock();
        // Unused credit is not saved up.
        state.bytes = if state.jobs == 0 { 0 } else { state.bytes + bytes };
        self.changed.notify_all();
        let is_busy = |state: &mut State| {
            state.needs.len() < state.jobs || state.needs.iter().any(|&need| need <= state.bytes)
        };
        drop(self.changed.wait_while(state, is_busy).unwrap());
    }

    /// Runs a job on a thread of its own.
    fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.lock().jobs += 1;
        let credit = self.clone();
        std::thread::spawn(move || {
            let done = job();
            credit.lock().jobs -= 1;
            credit.changed.notify_all();
            done
        })
    }
}

struct Slow(Box<dyn DiskFile>, Arc<Credit>);

impl DiskFile for Slow {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.take(bytes.len());
        self.0.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
}

impl Disk for Throttled {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(name)?;
        Ok(match name.starts_with("idx-") {
            true => Box::new(Slow(file, self.credit.clone())),
            false => file,
        })
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    crate::common::names_as_below!();
}

/// A database with its jobs, as a server has them.
struct Server {
    db: Db,
    credit: Arc<Credit>,
    flush: Option<JoinHandle<CheckpointDone>>,
    merge: Option<JoinHandle<MergeDone>>,
}

impl Server {
    /// Lets jobs go on by so many bytes, takes over what has ended, and begins what is due.
    fn go_on(&mut self, bytes: usize) {
        self.credit.grant(bytes);
        let jobs = self.credit.lock().jobs;
        let running = usize::from(self.flush.is_some()) + usize::from(self.merge.is_some());
        if jobs < running {
            // One has ended, or both. It is only to be joined.
            if let Some(flush) = self.flush.take_if(|flush| jobs == 0 || flush.is_finished()) {
                self.db.install(flush.join().unwrap()).remove().unwrap();
            }
            if let Some(merge) = self.merge.take_if(|merge| jobs == 0 || merge.is_finished()) {
                self.db.install_merge(merge.join().unwrap()).remove().unwrap();
            }
        }
        if self.flush.is_none() && self.db.unflushed_bytes() >= TREE {
            self.db.freeze().unwrap();
            let job = self.db.checkpoint_job().unwrap();
            self.flush = Some(self.credit.spawn(|| job.run().unwrap()));
        }
        if self.merge.is_none()
            && let Some(job) = self.db.merge_job()
        {
            self.merge = Some(self.credit.spawn(|| job.run().unwrap()));
        }
        self.judge();
    }

    fn judge(&mut self) {
        let stats = self.db.stats();
        let trees = stats.active_bytes + stats.frozen_bytes + stats.held_bytes;
        let files = stats.resident_bytes + stats.cache_bytes;
        let is_within = trees <= TREES + GROUP && files <= CACHE && stats.spare_bytes <= SPARE;
        assert!(is_within, "memory beyond its budget: {stats:?}");
        assert_eq!(stats.memory_bytes(), trees + files + stats.spare_bytes);
    }
}

impl Drop for Server {
    /// Lets jobs end whose server has failed.
    fn drop(&mut self) {
        self.credit.lock().bytes = usize::MAX;
        self.credit.changed.notify_all();
    }
}

/// Writes 20 times the budget, and asserts at each step that memory is within it. Jobs go half as
/// fast as the writer, but for when the writer is stopped. Returns how often the writer was to be
/// slowed, and stopped.
pub fn overload(seed: u64) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let disk = Throttled::default();
    let (block_bytes, file_bytes) = (4 << 10, 256 << 10);
    let options = Options { cache_bytes: CACHE, block_bytes, file_bytes, ..small_options() };
    let (db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
    let credit = disk.credit.clone();
    let mut server = Server { db, credit, flush: None, merge: None };
    let (mut model, mut written, mut slowed, mut stopped) = (Model::new(), 0, 0, 0);
    while written < 20 * BUDGET {
        let mut batch = Batch::new();
        for _ in 0..16 {
            let key = [&[b'k'; 16][..], &rng.u32(..10_000).to_be_bytes()].concat();
            let value: Vec<u8> = (0..rng.usize(500..1000)).map(|_| rng.u8(..)).collect();
            batch.put(&key, &value);
            written += key.len() + value.len();
        }
        match server.db.pressure(TREES) {
            Pressure::None => {}
            Pressure::Soft(fraction, _) => {
                assert!((0.0..=1.0).contains(&fraction));
                slowed += 1;
            }
            Pressure::Hard(_) => {
                stopped += 1;
                while matches!(server.db.pressure(TREES), Pressure::Hard(_)) {
                    assert!(server.flush.is_some(), "a stop without an end");
                    server.go_on(GROUP);
                }
            }
        }
        server.db.reserve(batch.log_bytes(0), Priority::Normal).unwrap();
        server.db.apply(&batch, b"");
        server.db.write().unwrap();
        apply_to_model(&mut model, &batch);
        server.go_on(batch.log_bytes(0) as usize / 2);
        let (key, value) = model.iter().nth(rng.usize(..model.len())).unwrap();
        assert_eq!(server.db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    while server.flush.is_some() || server.merge.is_some() {
        server.go_on(1 << 20);
    }
    assert_eq!(contents(&server.db).unwrap(), model);
    println!("slowed {slowed} times, stopped {stopped} times");
    (slowed, stopped)
}
