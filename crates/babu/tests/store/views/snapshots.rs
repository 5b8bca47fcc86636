//! Persistent snapshots: their costs and lifetimes. `model` and `crash` test that their content is
//! right.

use std::sync::Arc;

use babu::{Batch, Db, Definition, MemDisk, Options, Part, Pattern, Selection, SnapshotError};
use fastrand::Rng;

use crate::common::{Model, contents, small_options};

fn options() -> Options {
    Options { block_bytes: 512, file_bytes: 4096, ..small_options() }
}

fn open(disk: &MemDisk) -> Db {
    Db::open(Arc::new(disk.clone()), options()).unwrap().0
}

fn key(directory: u8, number: u16) -> Vec<u8> {
    [&[directory; 10][..], &number.to_be_bytes()].concat()
}

fn fill(db: &mut Db, rng: &mut Rng) {
    for directory in 0..20 {
        let mut batch = Batch::new();
        for number in 0..100 {
            let value: Vec<u8> = (0..30).map(|_| rng.u8(..)).collect();
            batch.put(&key(directory, number), &value);
        }
        db.apply(&batch, b"");
    }
}

/// Makes a checkpoint and the merges that are due, and returns the bytes that they wrote to index
/// files.
fn checkpoint(db: &mut Db) -> u64 {
    db.freeze().unwrap();
    let done = db.checkpoint_job().unwrap().run().unwrap();
    let mut written = done.bytes_written();
    db.install(done).remove().unwrap();
    while let Some(job) = db.merge_job() {
        let done = job.run().unwrap();
        written += done.bytes_written();
        db.install_merge(done).remove().unwrap();
    }
    written
}

fn models(db: &Db, name: &str) -> Model {
    let view = db.find_snapshot(name).unwrap().view();
    view.scan(b"", None)
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn a_whole_snapshot_shares_files_with_the_database_and_with_other_snapshots() {
    let disk = MemDisk::new();
    let mut db = open(&disk);
    let mut rng = Rng::with_seed(1);
    fill(&mut db, &mut rng);
    checkpoint(&mut db);
    let before = contents(&db).unwrap();
    let bytes = db.stats().file_bytes;
    db.snapshot("monday", Definition::all()).unwrap();
    assert_eq!(models(&db, "monday"), before, "at once");
    assert!(checkpoint(&mut db) == 0, "a snapshot of files is no copy of them");

    let mut batch = Batch::new();
    batch.put(&key(3, 3), b"changed");
    batch.delete_range(&key(15, 0), &key(20, 0));
    db.apply(&batch, b"");
    db.snapshot("tuesday", Definition::all()).unwrap();
    let tuesday = contents(&db).unwrap();
    checkpoint(&mut db);
    let grown = db.stats().file_bytes - bytes;
    assert!(grown < 5 * 4096, "{grown}: only what differs takes space");

    batch.clear();
    batch.delete_range(b"", &[255]);
    db.apply(&batch, b"");
    checkpoint(&mut db);
    assert!(contents(&db).unwrap().is_empty());
    // Restarts and checkpoints change no snapshot.
    for _ in 0..2 {
        let disk = disk.crash_process();
        db = open(&disk);
        assert_eq!(
            (models(&db, "monday"), models(&db, "tuesday")),
            (before.clone(), tuesday.clone())
        );
        assert!(db.find_snapshot("monday").unwrap().is_made());
        batch.put(b"new", b"entry");
        db.apply(&batch, b"");
        checkpoint(&mut db);
    }
    // A file is removed with the last snapshot that needs it.
    let view = db.find_snapshot("monday").unwrap().view().clone();
    db.drop_snapshot("monday").unwrap();
    checkpoint(&mut db);
    assert_eq!(models(&db, "tuesday"), tuesday);
    db.drop_snapshot("tuesday").unwrap();
    checkpoint(&mut db);
    assert_eq!(db.snapshots().count(), 0);
    let files = disk.files();
    let left = files.keys().filter(|name| name.starts_with("idx-")).count();
    assert_eq!(left as u64, db.stats().file_count);
    assert!(left <= 1, "{left}");
    // A view that was taken before can still be read.
    assert_eq!(view.scan(b"", None).count(), before.len());
}

#[test]
fn a_partial_snapshot_takes_the_space_of_its_part_and_a_difference_that_of_the_difference() {
    let disk = MemDisk::new();
    let mut db = open(&disk);
    let mut rng = Rng::with_seed(2);
    fill(&mut db, &mut rng);
    checkpoint(&mut db);
    let whole = db.stats().file_bytes;
    let part = Definition { selection: Selection::prefix(&[7; 10]), ..Definition::all() };
    db.snapshot("part", part.clone()).unwrap();
    let pattern = Pattern::parts([Part::Any(10), Part::Bytes(vec![0, 9])]);
    let ninth = Definition { selection: Selection::of([pattern]), ..Definition::all() };
    db.snapshot("ninth", ninth).unwrap();
    let written = checkpoint(&mut db);
    assert!(written < whole / 8, "{written} of {whole}");
    let expected: Model =
        contents(&db).unwrap().into_iter().filter(|(key, _)| key[0] == 7).collect();
    assert_eq!(models(&db, "part"), expected);
    assert_eq!(expected.len(), 100);
    assert_eq!(models(&db, "ninth").len(), 20);

    let mut batch = Batch::new();
    batch.put(&key(7, 5), b"changed");
    batch.put(&key(8, 5), b"not selected");
    batch.delete(&key(7, 6));
    db.apply(&batch, b"");
    db.snapshot("later", Definition { base: Some("part".to_owned()), ..part }).unwrap();
    let live = checkpoint(&mut db);
    assert!(live < 8 * 4096, "{live}");
    // The base may be dropped: what the difference needs of it stays.
    db.drop_snapshot("part").unwrap();
    checkpoint(&mut db);
    let disk = disk.crash_process();
    let db = open(&disk);
    let mut later = expected;
    later.insert(key(7, 5), b"changed".to_vec());
    later.remove(&key(7, 6));
    assert_eq!(models(&db, "later"), later);
    assert!(db.find_snapshot("later").unwrap().view().get(&key(8, 5)).unwrap().is_none());
    assert!(babu::check_deep(&disk).unwrap().is_clean());
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut db = open(&MemDisk::new());
    db.snapshot("a", Definition::all()).unwrap();
    let applied = db.applied_lsn();
    let based = |base: &str| Definition { base: Some(base.to_owned()), ..Definition::all() };
    for (result, expected) in [
        (db.snapshot("a", Definition::all()), SnapshotError::Exists("a".to_owned())),
        (db.snapshot("b", based("c")), SnapshotError::Missing("c".to_owned())),
        (db.snapshot("", Definition::all()), SnapshotError::Name),
        (db.snapshot(&"x".repeat(256), Definition::all()), SnapshotError::Name),
        (db.drop_snapshot("b"), SnapshotError::Missing("b".to_owned())),
    ] {
        assert_eq!(result, Err(expected));
    }
    assert_eq!(db.applied_lsn(), applied);
}

#[test]
fn views_are_read_on_other_threads_while_the_database_goes_on() {
    let disk = MemDisk::new();
    let mut db = open(&disk);
    let mut rng = Rng::with_seed(3);
    fill(&mut db, &mut rng);
    std::thread::scope(|scope| {
        for round in 0..20u8 {
            let view = db.view();
            let expected = contents(&db).unwrap();
            scope.spawn(move || {
                let found: Model = view
                    .scan(b"", None)
                    .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<Result<_, _>>()
                    .unwrap();
                assert_eq!(found, expected);
                for (key, value) in expected.iter().take(200) {
                    assert_eq!(view.get(key).unwrap().as_deref(), Some(&value[..]));
                }
            });
            let mut batch = Batch::new();
            batch.delete_range(&key(round, 0), &key(round, 50));
            batch.put(&key(round, 70), &[round]);
            db.apply(&batch, b"");
            if round % 4 == 3 {
                checkpoint(&mut db);
            }
        }
    });
}
