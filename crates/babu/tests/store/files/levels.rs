//! Index files in levels: what checkpoints write, what lookups read, and which space comes back.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use babu::{Batch, Db, MAX_LEVELS, MemDisk, Options};
use fastrand::Rng;

use crate::common::{Model, apply_to_model, contents};

fn options() -> Options {
    Options {
        log_chunk_bytes: 1 << 16,
        reserve_bytes: 1024,
        block_bytes: 512,
        file_bytes: 4096,
        filter_prefix_bytes: 12,
        cache_bytes: 1 << 20,
        database_id: 5,
        ..Options::default()
    }
}

fn create(disk: &MemDisk) -> Db {
    Db::open(Arc::new(disk.clone()), options()).unwrap().0
}

/// The key of an entry: directory (8) ‖ number (4). Some tests append a suffix.
fn key(directory: u64, number: u32) -> Vec<u8> {
    [&directory.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn noise(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.u8(..)).collect()
}

/// Fills these directories with 100 entries each.
fn fill(db: &mut Db, rng: &mut Rng, directories: std::ops::Range<u64>) {
    for directory in directories {
        let mut batch = Batch::new();
        for number in 0..100 {
            batch.put(&key(directory, number), &noise(rng, 40));
        }
        db.apply(&batch, b"");
        if directory % 20 == 19 {
            db.checkpoint().unwrap();
        }
    }
    db.checkpoint().unwrap();
}

fn index_files(disk: &MemDisk) -> BTreeSet<String> {
    disk.files().into_keys().filter(|name| name.starts_with("idx-")).collect()
}

#[test]
fn random_changes_agree_with_a_sorted_map_through_many_levels() {
    let rounds = if std::env::var_os("PANDO_LONG").is_some() { 400 } else { 60 };
    let mut deepest = 0;
    for seed in 0..3 {
        let mut rng = Rng::with_seed(seed);
        let disk = MemDisk::new();
        let small = Options { file_bytes: 1024, block_bytes: 256, ..options() };
        let create = |disk: &MemDisk| Db::open(Arc::new(disk.clone()), small.clone()).unwrap().0;
        let mut db = create(&disk);
        let mut model = Model::new();
        for round in 0..rounds {
            for _ in 0..rng.usize(..20) {
                let mut batch = Batch::new();
                for _ in 0..rng.usize(..40) {
                    let key = key(rng.u64(..60), rng.u32(..100));
                    match rng.usize(..40) {
                        0 => {
                            let to = [&key[..8], &rng.u32(..100).to_be_bytes()].concat();
                            batch.delete_range(&key, &to);
                        }
                        1 if rng.usize(..20) == 0 => {
                            let to = rng.u64(..60).to_be_bytes();
                            batch.delete_range(&key, &to);
                        }
                        1..15 => batch.delete(&key),
                        _ => {
                            let len = rng.usize(..60);
                            batch.put(&key, &noise(&mut rng, len));
                        }
                    }
                }
                db.apply(&batch, b"");
                apply_to_model(&mut model, &batch);
            }
            if rng.usize(..3) == 0 {
                db.checkpoint().unwrap();
            }
            deepest = deepest.max(db.stats().levels.len());
            if round % 5 == 0 {
                assert_eq!(contents(&db).unwrap(), model, "seed {seed}, round {round}");
                for _ in 0..50 {
                    let probe = key(rng.u64(..61), rng.u32(..110));
                    let before = db.stats().reads.files_asked;
                    let found = db.get(&probe).unwrap();
                    assert_eq!(found.as_deref(), model.get(&probe).map(|value| &value[..]));
                    let asked = db.stats().reads.files_asked - before;
                    assert!(asked <= MAX_LEVELS as u64, "{asked}");
                    let directory = &probe[..8];
                    let found = db.prefix(directory).count();
                    let expected = model.keys().filter(|key| key.starts_with(directory));
                    assert_eq!(found, expected.count());
                }
            }
            if rng.usize(..10) == 0 {
                db.write().unwrap();
                drop(db);
                let report = babu::check_deep(&disk.crash_process()).unwrap();
                assert!(report.is_clean(), "{report:?}");
                db = create(&disk.crash_process());
            }
        }
    }
    assert!(deepest >= 3, "{deepest}");
}

fn reopen(db: Db, disk: &MemDisk) -> Db {
    drop(db);
    create(&disk.crash_process())
}

#[test]
fn a_checkpoint_writes_what_has_changed_and_little_more() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    let mut rng = Rng::with_seed(1);
    fill(&mut db, &mut rng, 0..400);
    let stats = db.stats();
    assert!(stats.index_bytes > 1_000_000, "{stats:?}");
    let before = index_files(&disk);

    let mut batch = Batch::new();
    batch.put(&key(77, 5), b"changed");
    db.apply(&batch, b"");
    db.freeze().unwrap();
    let done = db.checkpoint_job().unwrap().run().unwrap();
    assert!(done.bytes_written() < 4 * 4096, "{}", done.bytes_written());
    db.install(done).remove().unwrap();
    let after = index_files(&disk);
    assert!(before.difference(&after).count() <= 3);

    // A steady change of all records costs a bounded multiple of the change.
    let before = db.stats().writes;
    for _ in 0..30 {
        let mut batch = Batch::new();
        for _ in 0..300 {
            let key = key(rng.u64(..400), rng.u32(..100));
            batch.put(&key, &noise(&mut rng, 40));
        }
        db.apply(&batch, b"");
        db.checkpoint().unwrap();
    }
    let after = db.stats().writes;
    let user = after.user_bytes - before.user_bytes;
    let written = after.index_bytes - before.index_bytes;
    assert!(written < 5 * user, "{written} for {user}");
    let live: usize = contents(&db).unwrap().iter().map(|(k, v)| k.len() + v.len()).sum();
    let stats = db.stats();
    assert!(stats.index_bytes < 2 * live as u64, "{} for {live}", stats.index_bytes);
}

#[test]
fn what_is_deleted_gives_its_space_back() {
    for by_range in [false, true] {
        let disk = MemDisk::new();
        let mut db = create(&disk);
        let mut rng = Rng::with_seed(2);
        fill(&mut db, &mut rng, 0..200);
        let full = db.stats().index_bytes;
        let mut batch = Batch::new();
        // Delete all but a few directories.
        for directory in 0..190u64 {
            if by_range {
                batch.delete_range(&directory.to_be_bytes(), &(directory + 1).to_be_bytes());
            } else {
                (0..100).for_each(|number| batch.delete(&key(directory, number)));
            }
        }
        db.apply(&batch, b"");
        db.checkpoint().unwrap();
        assert_eq!(contents(&db).unwrap().len(), 1000);
        let left = db.stats().index_bytes;
        assert!(left * 5 < full, "{left} of {full}");
        // Then delete the rest, in one record.
        batch.clear();
        batch.delete_range(b"", &[255; 9]);
        db.apply(&batch, b"");
        db.freeze().unwrap();
        let done = db.checkpoint_job().unwrap().run().unwrap();
        assert!(done.bytes_written() < 200, "one record");
        db.install(done).remove().unwrap();
        let reads = db.stats().reads.block_reads;
        let done = db.merge_job().unwrap().run().unwrap();
        assert_eq!(done.bytes_written(), 0, "whole files go without being read or written");
        db.install_merge(done).remove().unwrap();
        assert_eq!(db.stats().reads.block_reads, reads);
        assert!(db.merge_job().is_none());
        assert_eq!(db.stats().index_bytes, 0);
        assert!(index_files(&disk).is_empty());
        assert!(contents(&db).unwrap().is_empty());
    }
}

#[test]
fn a_deleted_range_of_many_entries_is_passed_over_without_reading_it() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    let mut rng = Rng::with_seed(3);
    fill(&mut db, &mut rng, 0..300);
    let mut batch = Batch::new();
    batch.delete_range(&key(10, 50), &key(290, 50));
    db.apply(&batch, b"");
    for is_in_files in [false, true] {
        if is_in_files {
            db.freeze().unwrap();
            let done = db.checkpoint_job().unwrap().run().unwrap();
            assert!(done.bytes_written() < 20 * 4096, "{}", done.bytes_written());
            db.install(done).remove().unwrap();
        }
        let before = db.stats().reads;
        assert_eq!(db.scan(&key(10, 0), Some(&key(291, 0))).count(), 100);
        assert_eq!(db.get(&key(100, 7)).unwrap().as_deref(), None);
        let after = db.stats().reads;
        let touched = after.block_reads + after.block_hits - before.block_reads - before.block_hits;
        assert!(touched < 60, "{touched} blocks");
    }
    assert_eq!(db.scan(b"", None).count(), 30_000 - 28_000);
}

#[test]
fn filters_answer_for_most_keys_and_beginnings_that_are_not_there() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    let mut rng = Rng::with_seed(4);
    fill(&mut db, &mut rng, 0..200);
    let db = reopen(db, &disk);
    let before = db.stats().reads;
    for directory in 0..200 {
        for number in 100..120 {
            assert!(db.get(&key(directory, number)).unwrap().is_none());
            assert_eq!(db.prefix(&key(directory, number)).count(), 0);
        }
    }
    let after = db.stats().reads;
    let touched = after.block_reads + after.block_hits - before.block_reads - before.block_hits;
    assert!(touched < 8000 / 20, "{touched} blocks for 8,000 questions");
    assert!(after.filter_refusals > 3500, "{after:?}");
    // Longer keys are found by their beginning.
    let mut db = db;
    let mut batch = Batch::new();
    let long = [&key(7, 100)[..], b"suffix"].concat();
    batch.put(&long, b"value");
    db.apply(&batch, b"");
    db.checkpoint().unwrap();
    assert_eq!(db.prefix(&key(7, 100)).count(), 1);
    assert_eq!(db.get(&long).unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_cold_lookup_reads_one_block_a_level_at_most_and_mostly_one() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    let mut rng = Rng::with_seed(5);
    fill(&mut db, &mut rng, 0..200);
    drop(db);
    let (mut reads, mut lookups) = (0, 0);
    let small = Options { cache_bytes: 0, ..options() };
    let (db, _) = Db::open(Arc::new(disk.crash_process()), small).unwrap();
    let levels = db.stats().levels.len() as u64;
    for directory in 0..200 {
        let before = db.stats().reads.block_reads;
        assert!(db.get(&key(directory, 50)).unwrap().is_some());
        let now = db.stats().reads.block_reads - before;
        assert!((1..=levels).contains(&now));
        reads += now;
        lookups += 1;
    }
    assert!(reads < lookups * 11 / 10, "{reads} for {lookups}");
}

#[test]
fn a_database_larger_than_its_cache_works_within_the_budget() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    fill(&mut db, &mut Rng::with_seed(6), 0..200);
    drop(db);
    let small = Options { cache_bytes: 64 << 10, ..options() };
    let (db, _) = Db::open(Arc::new(disk.crash_process()), small).unwrap();
    let stats = db.stats();
    assert!(stats.index_bytes > 10 * (64 << 10));
    assert!(stats.resident_bytes as u64 * 6 < stats.index_bytes, "{stats:?}");
    assert_eq!(db.scan(b"", None).count(), 20_000);
    for directory in 0..200 {
        assert!(db.get(&key(directory, 99)).unwrap().is_some());
        // Allow for a block that is being read in.
        assert!(db.stats().cache_bytes <= (64 << 10) + 16 * 2048);
    }
}

#[test]
fn a_visit_sees_what_an_iterator_sees_until_it_breaks_off() {
    let disk = MemDisk::new();
    let mut db = create(&disk);
    let (from, to) = (key(1, 50), key(2, 90));
    for round in 0..3u8 {
        let mut batch = Batch::new();
        for number in (0..100).filter(|number| number % (u32::from(round) + 1) == 0) {
            batch.put(&key(1, number), &[round]);
            batch.put(&key(2, number), &[round]);
        }
        db.apply(&batch, b"");
        let iterated: Vec<_> = db
            .scan(&from, Some(&to))
            .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect();
        assert_eq!(iterated.len(), 140);
        for wanted in [1, 2, 50, 139, 140, 1000] {
            let mut visited = Vec::new();
            let visit = |key: &[u8], value: &[u8]| {
                visited.push((key.to_vec(), value.to_vec()));
                match visited.len() == wanted {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            };
            db.scan(&from, Some(&to)).visit(visit).unwrap();
            assert_eq!(visited, iterated[..wanted.min(140)]);
        }
        db.checkpoint().unwrap();
    }
}
