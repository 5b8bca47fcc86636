//! A disk that is full to the last byte. The kept room lets deletions free space again, wherever a
//! crash stops the work.

use std::sync::Arc;

use babu::{Batch, CheckpointNowError, Db, MemDisk, OpenError, Options, Priority, ReserveError};
use fastrand::Rng;

use crate::common::crashes::End;
use crate::common::{Model, contents};

const CAPACITY: u64 = 1500 << 10;

fn options(file_bytes: u64) -> Options {
    Options {
        log_chunk_bytes: 8 << 10,
        reserve_bytes: 16 << 10,
        ballast_bytes: 320 << 10,
        block_bytes: 1024,
        file_bytes,
        cache_bytes: 64 << 10,
        database_id: 5,
        ..Options::default()
    }
}

/// File sizes for an index of one level, and for an index of several levels.
const FLAT: u64 = 1 << 20;
const DEEP: u64 = 8 << 10;

fn open(disk: &MemDisk, file_bytes: u64) -> Result<Db, OpenError> {
    Db::open(Arc::new(disk.clone()), options(file_bytes)).map(|(db, _)| db)
}

/// A database at work, and its expected content.
struct Work {
    db: Db,
    model: Model,
    rng: Rng,
    /// Deleted keys in order. Each was deleted by a group of its own.
    deleted: Vec<Vec<u8>>,
}

impl Work {
    fn begin(disk: &MemDisk, file_bytes: u64) -> Work {
        let db = open(disk, file_bytes).unwrap();
        Work { db, model: Model::new(), rng: Rng::with_seed(7), deleted: Vec::new() }
    }

    /// Puts a new random key.
    fn put(&mut self, priority: Priority) -> Result<(), ReserveError> {
        let key = self.rng.u64(..).to_be_bytes().to_vec();
        let value: Vec<u8> = (0..100).map(|_| self.rng.u8(..)).collect();
        let mut batch = Batch::new();
        batch.put(&key, &value);
        self.db.reserve(batch.log_bytes(0), priority)?;
        self.db.apply(&batch, b"");
        self.db.write()?;
        self.model.insert(key, value);
        Ok(())
    }

    fn fill(&mut self, priority: Priority) {
        loop {
            match self.put(priority) {
                Ok(()) => {}
                Err(ReserveError::Full(_)) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Deletes a key. Makes a checkpoint first if the log reserve is low.
    fn delete(&mut self, key: &[u8]) -> Result<(), CheckpointNowError> {
        let mut batch = Batch::new();
        batch.delete(key);
        if self.db.is_low() {
            self.db.checkpoint()?;
        }
        self.db.reserve(batch.log_bytes(0), Priority::Reserve)?;
        self.db.apply(&batch, b"");
        self.db.write().map_err(ReserveError::from)?;
        self.model.remove(key);
        self.deleted.push(key.to_vec());
        Ok(())
    }

    /// Deletes keys until a put succeeds. With several levels, each checkpoint moves only what it
    /// has room for.
    fn make_room(&mut self, file_bytes: u64) {
        let mut tries = if file_bytes == FLAT { 1 } else { 20 };
        while let Err(error) = self.put(Priority::Normal) {
            tries -= 1;
            assert!(tries > 0, "{error}");
            let key = self.model.keys().next().cloned().unwrap();
            self.delete(&key).unwrap();
            self.db.checkpoint().unwrap();
        }
    }

    /// Deletes every second key and makes a checkpoint.
    fn delete_half(&mut self) -> Result<(), CheckpointNowError> {
        let keys: Vec<_> = self.model.keys().step_by(2).cloned().collect();
        keys.iter().try_for_each(|key| self.delete(key))?;
        self.db.checkpoint()
    }
}

/// Layers that a failed checkpoint left are written by the next one, even without room for a new
/// log.
#[test]
fn what_is_frozen_needs_no_new_log() {
    let disk = MemDisk::new();
    let options = Options { ballast_bytes: 0, ..options(FLAT) };
    let (db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
    let mut work = Work { db, model: Model::new(), rng: Rng::with_seed(7), deleted: Vec::new() };
    (0..20).for_each(|_| work.put(Priority::Normal).unwrap());
    work.db.freeze().unwrap();
    disk.full_after(0);
    assert!(work.db.checkpoint_job().unwrap().run().is_err());
    work.put(Priority::Reserve).unwrap();
    assert!(work.db.checkpoint().is_err());
    disk.full_after(12 << 10);
    assert!(work.db.freeze().is_err(), "a log needs more");
    work.db.checkpoint().unwrap();
    assert_eq!(contents(&work.db).unwrap(), work.model);
}

/// Fills the disk to the last byte with a database, until every change is refused. Returns the disk
/// and the expected content.
fn full_disk(disk: MemDisk, file_bytes: u64, ends_with_deletions: bool) -> (MemDisk, Model) {
    disk.full_after(CAPACITY);
    let mut work = Work::begin(&disk, file_bytes);
    let mut checkpoints = 0;
    loop {
        work.fill(Priority::Normal);
        let before = work.model.len();
        checkpoints += u32::from(work.db.checkpoint().is_ok());
        work.fill(Priority::Normal);
        if work.model.len() == before {
            break;
        }
    }
    assert!(checkpoints >= 2 && work.model.len() > 1000, "{checkpoints}, {}", work.model.len());
    if ends_with_deletions {
        work.fill(Priority::Reserve);
    }
    let expected = contents(&work.db).unwrap();
    assert_eq!(expected, work.model);
    let disk = disk.crash_process();
    disk.full_after(0);
    (disk, expected)
}

/// A copy of the disk. Its crashes do not affect the original.
fn copy(disk: &MemDisk, is_appending: bool) -> MemDisk {
    let files = disk.files();
    let files = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
    let disk = MemDisk::with_files(files);
    disk.full_after(0);
    if is_appending { disk.with_appender() } else { disk }
}

fn each_case(mut case: impl FnMut(&MemDisk, u64, Model, bool)) {
    for (file_bytes, is_appending, ends_with_deletions) in
        [(FLAT, false, true), (FLAT, true, false), (DEEP, true, true), (DEEP, false, false)]
    {
        let disk = MemDisk::new();
        let disk = if is_appending { disk.with_appender() } else { disk };
        let (disk, model) = full_disk(disk, file_bytes, ends_with_deletions);
        case(&disk, file_bytes, model, is_appending);
    }
}

#[test]
fn a_database_on_a_disk_full_to_the_last_byte_opens_and_comes_back_by_deletions() {
    each_case(|disk, file_bytes, model, _| {
        let mut disk = disk.clone();
        for _ in 0..5 {
            let db = open(&disk, file_bytes).unwrap();
            assert_eq!(contents(&db).unwrap(), model);
            drop(db);
            disk = disk.crash_process();
            disk.full_after(0);
        }
        let mut work = Work { model, ..Work::begin(&disk, file_bytes) };
        work.fill(Priority::Normal);
        work.delete_half().unwrap();
        assert_eq!(contents(&work.db).unwrap(), work.model);
        work.make_room(file_bytes);
        for _ in 0..100 {
            work.put(Priority::Normal).unwrap();
        }
        work.db.checkpoint().unwrap();
        assert_eq!(contents(&work.db).unwrap(), work.model);
        let db = open(&disk.crash_process(), file_bytes).unwrap();
        assert_eq!(contents(&db).unwrap(), work.model);
        assert!(babu::check_deep(&disk.crash_process()).unwrap().is_clean());
    });
}

/// Crashes the disk. With other users on the disk, these take all room that the crash left free.
fn crash(disk: &MemDisk, end: End, with_others: bool, rng: &mut Rng) -> MemDisk {
    let disk = match end {
        End::Power => disk.crash_power(&mut || rng.u64(..)),
        End::Process => disk.crash_process(),
    };
    if with_others {
        disk.full_after(0);
    }
    disk
}

/// Opens and deletes until the disk stops. Returns the keys to delete, in order, and how many of
/// the deletions are durable.
fn work_until_crash(disk: &MemDisk, file_bytes: u64, model: &Model) -> (Vec<Vec<u8>>, u64) {
    let Ok(db) = open(disk, file_bytes) else { return (Vec::new(), 0) };
    let begun = db.applied_lsn().0;
    let rng = Rng::with_seed(1);
    let mut work = Work { db, model: model.clone(), rng, deleted: Vec::new() };
    let keys: Vec<_> = work.model.keys().step_by(2).take(40).cloned().collect();
    let deleted = keys.iter().try_for_each(|key| work.delete(key));
    if deleted.and_then(|()| work.db.checkpoint()).is_ok() {
        let _ = work.db.checkpoint();
    }
    // The last deletion may have happened or not.
    (keys, work.db.durable_lsn().0.saturating_sub(begun))
}

fn crash_at_every_change(end: End) {
    each_case(|full, file_bytes, model, is_appending| {
        let disk = copy(full, is_appending);
        work_until_crash(&disk, file_bytes, &model);
        let changes = disk.counters().changes;
        assert!(changes > 50);
        // Most changes are within index files. Of these only some are tried.
        let step = if std::env::var_os("PANDO_LONG").is_some() { 1 } else { changes / 40 };
        for n in (1..=30).chain((31..=changes).step_by(step as usize | 1)) {
            let mut rng = Rng::with_seed(n);
            let context = format!("files {file_bytes}, appending {is_appending}, change {n}");
            // After a loss of power, preallocated space may be free again. The test then lets no
            // other user take it.
            let with_others = end == End::Process && n % 2 == 0;
            let disk = copy(full, is_appending);
            disk.crash_at(n);
            let (keys, durable) = work_until_crash(&disk, file_bytes, &model);
            let mut disk = crash(&disk, end, with_others, &mut rng);
            // Openings are interrupted as well.
            for round in 0..4 {
                disk.crash_at(1 + (n * 5 + round) % 14);
                let _ = open(&disk, file_bytes);
                disk = crash(&disk, end, with_others, &mut rng);
            }
            let db = open(&disk, file_bytes).unwrap_or_else(|error| panic!("{context}: {error}"));
            let found = contents(&db).unwrap();
            let gone = model.len() - found.len();
            assert!(gone >= durable as usize && gone <= keys.len(), "{context}: {gone}");
            let mut expected = model.clone();
            keys[..gone].iter().for_each(|key| drop(expected.remove(key)));
            assert!(found == expected, "{context}");
            if !with_others && n % 7 == 0 {
                let rng = Rng::with_seed(2);
                let mut work = Work { db, model: expected, rng, deleted: Vec::new() };
                work.delete_half().unwrap_or_else(|error| panic!("{context}: {error}"));
                work.make_room(file_bytes);
                assert_eq!(contents(&work.db).unwrap(), work.model);
            }
        }
    });
}

#[test]
fn a_process_that_stops_anywhere_on_a_full_disk_leaves_what_opens_there() {
    crash_at_every_change(End::Process);
}

#[test]
fn a_loss_of_power_anywhere_on_a_full_disk_leaves_what_opens_there() {
    crash_at_every_change(End::Power);
}
