//! Merges of runs: what they read and write, beside flushes and on full disks.

use std::sync::Arc;

use babu::{Batch, Db, MemDisk, Options, Priority};

use crate::common::{contents, merges, small_options};

#[test]
fn merges_beside_flushes_agree_with_a_sorted_map_whatever_ends_first() {
    let seeds = if std::env::var_os("PANDO_LONG").is_some() { 400 } else { 20 };
    let most = (0..seeds).map(merges::agree).max();
    assert!(most >= Some(6), "{most:?}");
}

fn open(disk: &MemDisk) -> Db {
    let options = Options { file_bytes: 8 << 10, block_bytes: 1024, ..small_options() };
    Db::open(Arc::new(disk.clone()), options).unwrap().0
}

/// Gives keys new values that do not compress.
fn put(db: &mut Db, numbers: impl Iterator<Item = u32>, round: u64) {
    let mut rng = fastrand::Rng::with_seed(round);
    let mut batch = Batch::new();
    for number in numbers {
        let value: Vec<u8> = (0..100).map(|_| rng.u8(..)).collect();
        batch.put(&number.to_be_bytes(), &value);
    }
    db.reserve(batch.log_bytes(0), Priority::Reserve).unwrap();
    db.apply(&batch, b"");
}

/// Makes a checkpoint without merges. Returns the bytes written.
fn flush(db: &mut Db) -> u64 {
    db.freeze().unwrap();
    let done = db.checkpoint_job().unwrap().run().unwrap();
    let written = done.bytes_written();
    db.install(done).remove().unwrap();
    written
}

fn merge(db: &mut Db) -> u64 {
    let mut written = 0;
    while let Some(job) = db.merge_job() {
        let done = job.run().unwrap();
        written += done.bytes_written();
        db.install_merge(done).remove().unwrap();
    }
    written
}

#[test]
fn a_flush_reads_nothing_and_gives_its_log_up_before_any_merge() {
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, 0..2000, 1);
    db.checkpoint().unwrap();
    for round in 2..20 {
        put(&mut db, (0..2000).step_by(20), round);
        let before = db.stats();
        let written = flush(&mut db);
        let after = db.stats();
        assert_eq!(after.reads.block_reads, before.reads.block_reads);
        assert!((10_000..18_000).contains(&written), "{written} for 11,000 bytes of changes");
        let logs = disk.files().into_keys().filter(|name| name.starts_with("log-"));
        assert_eq!((logs.count(), after.frozen_bytes, db.log_bytes()), (1, 0, 0));
    }
    assert!(db.stats().levels.len() > 12, "nothing was merged");
    assert!(merge(&mut db) > 0);
    assert!(db.stats().levels.len() < 4);
    assert_eq!(contents(&db).unwrap().len(), 2000);
}

#[test]
fn small_flushes_do_not_rewrite_the_bottom() {
    let mut db = open(&MemDisk::new());
    put(&mut db, 0..4000, 1);
    db.checkpoint().unwrap();
    let bottom = db.stats().index_bytes;
    let mut written = 0;
    for round in 0..30 {
        // One percent each.
        put(&mut db, (round..4000).step_by(100), u64::from(round) + 2);
        flush(&mut db);
        written += merge(&mut db);
        assert!(db.stats().levels.len() < 16);
    }
    assert!(written > 0 && written < bottom / 2, "{written} of {bottom}");
}

#[test]
fn tombstones_of_keys_that_no_filter_knows_are_not_written() {
    let mut db = open(&MemDisk::new());
    put(&mut db, (0..4000).step_by(2), 1);
    db.checkpoint().unwrap();
    let mut batch = Batch::new();
    (1..4000).step_by(2).for_each(|number: u32| batch.delete(&number.to_be_bytes()));
    batch.delete(&2u32.to_be_bytes());
    db.apply(&batch, b"");
    flush(&mut db);
    let run = *db.stats().levels.last().unwrap();
    assert!((1..80).contains(&run.tombstones), "{run:?} of 2,001");
    assert_eq!(contents(&db).unwrap().len(), 1999);
}

#[test]
fn a_range_that_hides_most_of_a_file_is_brought_down() {
    // One file, of which no range hides the whole.
    let options = Options { file_bytes: 1 << 20, block_bytes: 1024, ..small_options() };
    let mut db = Db::open(Arc::new(MemDisk::new()), options).unwrap().0;
    put(&mut db, 0..2000, 1);
    db.checkpoint().unwrap();
    let full = db.stats().index_bytes;
    let mut hide = |from: u32, to: u32| {
        let mut batch = Batch::new();
        batch.delete_range(&from.to_be_bytes(), &to.to_be_bytes());
        db.apply(&batch, b"");
        flush(&mut db);
        (merge(&mut db), db.stats().index_bytes)
    };
    // It would write more than it frees.
    assert_eq!(hide(100, 700).0, 0);
    let (written, left) = hide(700, 1900);
    assert!(written < full / 5 && left < full / 5, "{written} and {left} of {full}");
    assert_eq!(contents(&db).unwrap().len(), 200);
}

#[test]
fn a_flush_that_needs_the_room_ends_a_merge_which_leaves_nothing_behind() {
    let disk = MemDisk::new();
    let options = Options {
        file_bytes: 8 << 10,
        log_chunk_bytes: 1 << 20,
        ballast_bytes: 64 << 10,
        ..small_options()
    };
    let (mut db, _) = Db::open(Arc::new(disk.clone()), options).unwrap();
    put(&mut db, 0..2000, 1);
    flush(&mut db);
    for round in 2..9 {
        put(&mut db, (round..2000).step_by(10), u64::from(round));
        flush(&mut db);
    }
    let before = disk.files().into_keys().filter(|name| name.starts_with("idx-")).count();
    let merge = db.merge_job().unwrap();
    put(&mut db, 0..5, 99);
    db.write().unwrap();
    disk.full_after(0);
    db.freeze().unwrap();
    let job = db.checkpoint_job().unwrap();
    // Both run at once. If the merge ends first, its old files have the room until they are
    // removed.
    let (flushed, merged) = std::thread::scope(|scope| {
        let merging = scope.spawn(|| merge.run());
        (job.run(), merging.join().unwrap())
    });
    assert!(flushed.is_ok() || merged.is_ok());
    if let Ok(merged) = merged {
        db.install_merge(merged).remove().unwrap();
    }
    let done = flushed.unwrap_or_else(|_| db.checkpoint_job().unwrap().run().unwrap());
    db.install(done).remove().unwrap();
    let after = disk.files().into_keys().filter(|name| name.starts_with("idx-")).count();
    assert_eq!(after as u64, db.stats().file_count);
    assert!(after > 0 && before > 0);
    assert_eq!(contents(&db).unwrap().len(), 2000);
    disk.unlimited();
    db.checkpoint().unwrap();
    assert_eq!(contents(&db).unwrap().len(), 2000);
}
