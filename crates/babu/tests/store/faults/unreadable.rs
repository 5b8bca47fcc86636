//! Blocks of index files that cannot be read. Checkpoints continue around them. Nothing is lost, no
//! deleted entry comes back, and no answer is wrong.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use babu::{Batch, Db, Disk, DiskFile, MemDisk, Options, ReadError};
use fastrand::Rng;

use crate::common::{Run, contents, small_options, world};

/// A disk that refuses to read some bytes until it is mended.
#[derive(Clone)]
struct Spoilt {
    disk: MemDisk,
    /// The unreadable bytes, by file and offset.
    bad: Arc<Mutex<BTreeSet<(String, u64)>>>,
}

struct SpoiltFile {
    name: String,
    file: Box<dyn DiskFile>,
    bad: Arc<Mutex<BTreeSet<(String, u64)>>>,
}

impl Spoilt {
    fn new() -> Spoilt {
        Spoilt { disk: MemDisk::new(), bad: Arc::default() }
    }

    fn open_db(&self, options: Options) -> Db {
        Db::open(Arc::new(self.clone()), options).unwrap().0
    }

    fn spoil(&self, name: &str, offset: u64) {
        self.bad.lock().unwrap().insert((name.to_owned(), offset));
    }

    fn mend(&self) {
        self.bad.lock().unwrap().clear();
    }

    fn index_files(&self) -> Vec<String> {
        self.disk.files().into_keys().filter(|name| name.starts_with("idx-")).collect()
    }

    fn wrap(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(SpoiltFile { name: name.to_owned(), file, bad: self.bad.clone() })
    }
}

impl Disk for Spoilt {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(name, self.disk.open(name)?))
    }

    crate::common::names_as_below!();
}

impl DiskFile for SpoiltFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = offset..offset + buffer.len() as u64;
        let is_bad = |(name, at): &(String, u64)| *name == self.name && bytes.contains(at);
        if self.bad.lock().unwrap().iter().any(is_bad) {
            return Err(io::Error::other("medium error"));
        }
        self.file.read_at(offset, buffer)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

fn options() -> Options {
    Options { block_bytes: 512, file_bytes: 4096, filter_prefix_bytes: 2, ..small_options() }
}

fn key(number: u32) -> Vec<u8> {
    [&b"k"[..], &number.to_be_bytes()].concat()
}

fn put(db: &mut Db, rng: &mut Rng, numbers: impl Iterator<Item = u32>) {
    let mut batch = Batch::new();
    for number in numbers {
        let value: Vec<u8> = (0..60).map(|_| rng.u8(..)).collect();
        batch.put(&key(number), &value);
    }
    db.apply(&batch, b"");
}

/// Asserts that each answer is right or refused, and counts those that are refused.
fn assert_nothing_wrong(run: &Run) -> usize {
    let mut refused = 0;
    for state in run.states.iter().rev().take(40) {
        for key in state.indices[0].keys() {
            match run.db.get(key) {
                Ok(value) => assert_eq!(value.as_deref(), run.model().get(key).map(|v| &v[..])),
                Err(ReadError::Damaged(damage)) => {
                    let keys = damage.keys.unwrap();
                    assert!(keys.contains(key), "{keys:?} {key:?}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    refused
}

#[test]
fn whatever_block_cannot_be_read_checkpoints_go_on_and_nothing_is_lost_or_comes_back() {
    let rounds = if std::env::var_os("PANDO_LONG").is_some() { 400 } else { 60 };
    let (mut passed_over, mut refused) = (0, 0);
    for seed in 0..rounds {
        let mut rng = Rng::with_seed(seed);
        let disk = Spoilt::new();
        let mut run = Run::new(disk.open_db(small_options()));
        for step in 0..150 {
            run.step_change(&mut rng).unwrap();
            let is_whole = disk.bad.lock().unwrap().is_empty();
            if rng.usize(..8) == 0 {
                run.db.checkpoint().unwrap_or_else(|error| panic!("{seed}, {step}: {error}"));
                assert_eq!(run.db.stats().frozen_count, 0);
                for damage in run.db.passed_over() {
                    assert!(disk.disk.files().contains_key(&damage.file), "{damage}");
                    passed_over += 1;
                }
            }
            let files = disk.index_files();
            if rng.usize(..12) == 0 && !files.is_empty() && step < 130 {
                let name = &files[rng.usize(..files.len())];
                disk.spoil(name, 33);
            }
            run.db.settle();
            if !is_whole && rng.usize(..4) == 0 {
                refused += assert_nothing_wrong(&run);
            }
        }
        disk.mend();
        run.db.settle();
        assert_eq!(&world(&run.db).unwrap(), run.world(), "{seed}");
        run.db.checkpoint().unwrap();
        assert_eq!(&world(&run.db).unwrap(), run.world(), "{seed}");
        let expected = run.world().clone();
        drop(run);
        let mut db = disk.open_db(small_options());
        assert_eq!(db.passed_over().count(), 0, "it is tried again after an opening");
        db.checkpoint().unwrap();
        assert_eq!(world(&db).unwrap(), expected, "{seed}");
        assert!(babu::check_deep(&disk.disk).unwrap().is_clean());
    }
    assert!(passed_over > 100 && refused > 100, "{passed_over} {refused}");
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_all_others_are_merged() {
    let disk = Spoilt::new();
    let mut rng = Rng::with_seed(3);
    let mut db = disk.open_db(options());
    put(&mut db, &mut rng, 0..2000);
    db.checkpoint().unwrap();
    let before = disk.index_files();
    assert!(before.len() > 20);
    let bad = before[before.len() / 2].clone();
    disk.spoil(&bad, 600);
    for _ in 0..30 {
        let numbers: Vec<u32> = (0..300).map(|_| rng.u32(..2000)).collect();
        put(&mut db, &mut rng, numbers.into_iter());
        db.checkpoint().unwrap();
    }
    let damages: Vec<_> = db.passed_over().cloned().collect();
    let [damage] = &damages[..] else { panic!("{damages:?}") };
    assert_eq!(damage.file, bad);
    assert!(damage.to_string().contains("medium error; affected are the keys from k"), "{damage}");
    let after: BTreeSet<_> = disk.index_files().into_iter().collect();
    let left = before.iter().filter(|name| after.contains(*name)).count();
    assert!(after.contains(&bad));
    assert!(left < 3, "{left} of {} are as they were", before.len());
    // Entries outside of the block can be read, and the space of the index is bounded.
    let keys = damage.keys.clone().unwrap();
    for key in (0..2000).map(key).filter(|key| !keys.contains(key)) {
        assert!(db.get(&key).unwrap().is_some());
    }
    let bytes: usize = 2000 * 70;
    assert!(db.stats().index_bytes < 2 * bytes as u64, "{}", db.stats().index_bytes);
    disk.mend();
    assert_eq!(contents(&db).unwrap().len(), 2000);
}

#[test]
fn a_file_that_cannot_be_read_is_not_tried_again_and_goes_when_all_of_it_is_deleted() {
    let disk = Spoilt::new();
    let mut rng = Rng::with_seed(4);
    let mut db = disk.open_db(options());
    put(&mut db, &mut rng, 0..200);
    db.checkpoint().unwrap();
    for name in disk.index_files() {
        disk.spoil(&name, 40);
    }
    put(&mut db, &mut rng, 0..200);
    db.checkpoint().unwrap();
    let known = db.passed_over().count();
    assert!(known > 2);
    for _ in 0..3 {
        let before = db.stats().reads.block_reads;
        put(&mut db, &mut rng, 20..21);
        db.checkpoint().unwrap();
        // Only the files above them are merged.
        assert!(db.stats().reads.block_reads - before < 60);
    }
    assert_eq!(db.passed_over().count(), known);
    let mut batch = Batch::new();
    batch.delete_range(b"", b"z");
    db.apply(&batch, b"");
    db.checkpoint().unwrap();
    assert_eq!(db.passed_over().count(), 0);
    assert!(disk.index_files().is_empty());
    assert!(contents(&db).unwrap().is_empty());
}

#[test]
fn damage_in_what_a_checkpoint_has_written_is_passed_over_by_the_merges_after_it() {
    let disk = Spoilt::new();
    let mut rng = Rng::with_seed(5);
    let mut db = disk.open_db(options());
    put(&mut db, &mut rng, 0..2000);
    db.checkpoint().unwrap();
    let next = db.stats().file_count + 40;
    for number in 0..next {
        // Spoil each file that the next checkpoint may write.
        let name = format!("idx-{number:016x}");
        if !disk.disk.files().contains_key(&name) {
            disk.spoil(&name, 40);
        }
    }
    put(&mut db, &mut rng, 0..2000);
    db.checkpoint().unwrap();
    assert!(db.passed_over().count() > 20);
    for key in (0..2000).map(key) {
        let found = db.get(&key);
        assert!(matches!(found, Ok(Some(_)) | Err(ReadError::Damaged(_))), "{key:?}");
    }
    disk.mend();
    assert_eq!(contents(&db).unwrap().len(), 2000);
}

#[test]
fn a_small_file_that_cannot_be_read_joins_no_other() {
    let disk = Spoilt::new();
    let mut rng = Rng::with_seed(6);
    let mut db = disk.open_db(options());
    put(&mut db, &mut rng, 0..3);
    db.checkpoint().unwrap();
    disk.spoil(&disk.index_files()[0], 40);
    for round in 1..4 {
        put(&mut db, &mut rng, 10 * round..10 * round + 3);
        db.checkpoint().unwrap();
        assert_eq!(db.passed_over().count(), 1);
    }
    disk.mend();
    assert_eq!(contents(&db).unwrap().len(), 12);
}
