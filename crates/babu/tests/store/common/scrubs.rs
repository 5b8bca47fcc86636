//! Scrubs of a database that goes on, with damage in its files.

use std::collections::BTreeSet;
use std::sync::Arc;

use babu::{Batch, Damage, Db, Disk as _, MemDisk, Options, Scrubbed};
use fastrand::Rng;

use super::small_options;

/// Bytes of a file before its first block.
const HEADER_BYTES: u64 = 32;

pub fn open(disk: &MemDisk) -> Db {
    let options = Options { file_bytes: 4096, block_bytes: 512, ..small_options() };
    Db::open(Arc::new(disk.clone()), options).unwrap().0
}

pub fn put(db: &mut Db, rng: &mut Rng, numbers: impl Iterator<Item = u32>) {
    let mut batch = Batch::new();
    for number in numbers {
        let value: Vec<u8> = (0..60).map(|_| rng.u8(..)).collect();
        batch.put(&number.to_be_bytes(), &value);
    }
    db.apply(&batch, b"");
}

pub fn index_files(disk: &MemDisk) -> Vec<String> {
    disk.files().into_keys().filter(|name| name.starts_with("idx-")).collect()
}

/// Flips the byte of a file.
pub fn flip(disk: &MemDisk, name: &str, at: u64) {
    let file = disk.open(name).unwrap();
    let mut byte = [0];
    file.read_at(at, &mut byte).unwrap();
    file.write_at(at, &[byte[0] ^ 1]).unwrap();
}

/// Takes a step of the scrub. `None`: there is nothing to read.
pub fn step(db: &mut Db, bytes: u64) -> Option<Scrubbed> {
    let done = db.scrub_job(bytes)?.run();
    Some(db.install_scrub(done))
}

/// Scrubs to the end of the pass. Returns what it has found.
pub fn pass(db: &mut Db, bytes: u64) -> Vec<Damage> {
    let mut found = Vec::new();
    while let Some(step) = step(db, bytes) {
        found.extend(step.found);
        if step.has_ended {
            break;
        }
    }
    found
}

/// Damages files, and scrubs once while checkpoints and merges go on. What is damaged, and is still
/// there, must be known after the pass. Returns how many places were found.
pub fn finds(seed: u64) -> usize {
    let mut rng = Rng::with_seed(seed);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, &mut rng, 0..1500);
    db.checkpoint().unwrap();
    db.settle();
    // Some passes begin in the middle of another's work.
    let bytes = rng.u64(1..6000);
    let files = index_files(&disk);
    let mut damaged = BTreeSet::new();
    for _ in 0..rng.usize(1..6) {
        let name = &files[rng.usize(..files.len())];
        let len = disk.files()[name].len() as u64;
        // All but the number in the header counts.
        if damaged.insert(name.clone()) {
            flip(&disk, name, rng.u64(HEADER_BYTES..len));
        }
    }
    let mut found = BTreeSet::new();
    let mut told = BTreeSet::new();
    for _ in 0.. {
        if rng.usize(..6) == 0 {
            let numbers: Vec<u32> = (0..rng.usize(..40)).map(|_| rng.u32(..1500)).collect();
            put(&mut db, &mut rng, numbers.into_iter());
            db.checkpoint().unwrap();
        }
        let job = db.scrub_job(bytes).unwrap();
        if rng.usize(..8) == 0 {
            // The file may go before its stretch is read.
            put(&mut db, &mut rng, 0..30);
            db.checkpoint().unwrap();
        }
        let step = db.install_scrub(job.run());
        for damage in step.found {
            assert!(told.insert((damage.file.clone(), damage.offset)), "told twice: {damage}");
            found.insert(damage.file);
        }
        if step.has_ended {
            break;
        }
    }
    let count = found.len();
    found.extend(db.passed_over().map(|damage| damage.file.clone()));
    let left: BTreeSet<String> = index_files(&disk).into_iter().collect();
    for name in damaged.intersection(&left) {
        assert!(found.contains(name), "damage that a pass did not find: {name}");
    }
    assert!(found.is_subset(&damaged), "{found:?} of {damaged:?}");
    count
}
