//! Ingestion of sorted runs.

use std::sync::Arc;

use babu::{
    Batch, Change, Db, IndexId, IngestError, Lsn, MAX_PENDING_RUNS, MemDisk, OpenError, ReadError,
    Run, RunError,
};

use crate::common::{contents, open, small_options};

fn key(number: u32) -> [u8; 20] {
    let mut key = [7; 20];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

fn run(db: &Db, numbers: impl IntoIterator<Item = u32>, value: &[u8]) -> Run {
    let written = db.ingestion().write(|files| {
        for number in numbers {
            files.put(&key(number), value)?;
        }
        Ok::<_, RunError>(())
    });
    written.unwrap()
}

fn index_files(disk: &MemDisk) -> Vec<(String, Vec<u8>)> {
    disk.files().into_iter().filter(|(name, _)| name.starts_with("idx-")).collect()
}

#[test]
fn a_run_is_one_group_between_what_is_older_and_what_is_newer() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    batch.put(&key(1), b"older");
    db.apply(&batch, b"");
    let files = run(&db, 0..100, b"ingested");
    assert_eq!(files.entries(), 100);
    assert!(index_files(&disk).len() > 2, "cut by key range");
    assert_eq!(contents(&db).unwrap().len(), 1, "not yet a part of the database");
    assert_eq!(db.ingest(IndexId::DEFAULT, files, b"meta").unwrap(), Lsn(2));
    batch.clear();
    batch.put(&key(2), b"newer");
    batch.delete(&key(3));
    db.apply(&batch, b"");
    let expected = contents(&db).unwrap();
    assert_eq!(expected.len(), 99);
    assert_eq!(
        (&expected[&key(1)[..]][..], &expected[&key(2)[..]][..]),
        (&b"ingested"[..], &b"newer"[..])
    );
    db.write().unwrap();

    // The log names each file with length and digest.
    let groups: Vec<_> = db.log_groups_from(Lsn(2)).unwrap().map(Result::unwrap).collect();
    let Some(Change::Ingest { index, files }) = groups[0].batch.iter().next() else {
        panic!("{groups:?}");
    };
    assert_eq!((index, &groups[0].meta[..]), (IndexId::DEFAULT, &b"meta"[..]));
    for (file, (name, bytes)) in files.iter().zip(index_files(&disk)) {
        assert_eq!((file.name(), file.bytes()), (name, bytes.len() as u64));
    }
    assert_eq!(files.iter().map(|file| file.entries()).sum::<u64>(), 100);

    // The content survives a restart, a checkpoint, and another restart.
    for _ in 0..2 {
        let disk = disk.crash_process();
        let (mut db, _) = open(&disk).unwrap();
        assert_eq!(contents(&db).unwrap(), expected);
        assert_eq!(index_files(&disk).len() as u64, db.stats().file_count);
        db.checkpoint().unwrap();
        assert_eq!(contents(&db).unwrap(), expected);
        assert!(babu::check_deep(&disk).unwrap().is_clean());
    }
}

#[test]
fn a_run_that_meets_nothing_is_taken_over_as_it_is() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let files = run(&db, 0..500, b"value");
    db.ingest(IndexId::DEFAULT, files, b"").unwrap();
    let before = index_files(&disk);
    db.freeze().unwrap();
    let done = db.checkpoint_job().unwrap().run().unwrap();
    assert_eq!(done.bytes_written(), 0);
    db.install(done).remove().unwrap();
    assert!(index_files(&disk) == before);
    assert_eq!(db.stats().index_entries, 500);
}

#[test]
fn runs_that_wait_are_few_and_a_refused_one_can_come_again() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    for number in 0..MAX_PENDING_RUNS as u32 {
        let files = run(&db, [number], b"value");
        db.ingest(IndexId::DEFAULT, files, b"").unwrap();
    }
    let files = run(&db, [99], b"value");
    let error = db.ingest(IndexId::DEFAULT, files, b"").unwrap_err();
    assert!(error.to_string().contains("checkpoint"), "{error}");
    let IngestError::Pending(files) = error else { panic!("{error}") };
    db.checkpoint().unwrap();
    db.ingest(IndexId::DEFAULT, files, b"").unwrap();
    assert_eq!(contents(&db).unwrap().len(), MAX_PENDING_RUNS + 1);
}

#[test]
fn what_does_not_become_part_of_the_database_leaves_nothing_behind() {
    let disk = MemDisk::new();
    let (db, _) = open(&disk).unwrap();
    let error =
        db.ingestion().write(|files| files.put(b"b", b"").and_then(|()| files.put(b"a", b"")));
    assert!(matches!(error, Err(RunError::Order(key)) if key == b"a"));
    let error = db.ingestion().write(|files| files.put(&vec![0; 1 << 16], b""));
    assert!(matches!(error, Err(RunError::TooLong)));
    assert!(index_files(&disk).is_empty());
    run(&db, 0..50, b"value").discard().unwrap();
    assert!(index_files(&disk).is_empty());
    drop(run(&db, 0..50, b"value"));
    assert!(!index_files(&disk).is_empty());
    drop(db);
    open(&disk.crash_process()).unwrap();
    assert!(index_files(&disk).is_empty(), "the next opening removes it");
}

#[test]
fn a_run_is_written_by_another_thread_while_the_database_goes_on() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let ingestion = db.ingestion();
    let files = std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            ingestion
                .write(|files| (0..2000).try_for_each(|number| files.put(&key(number), b"run")))
        });
        for number in 0..200u32 {
            let mut batch = Batch::new();
            batch.put(&number.to_be_bytes(), b"value");
            db.apply(&batch, b"");
            if number % 50 == 0 {
                db.checkpoint().unwrap();
            }
        }
        writing.join().unwrap().unwrap()
    });
    db.ingest(IndexId::DEFAULT, files, b"").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(contents(&db).unwrap().len(), 2200);
    assert_eq!(index_files(&disk).len() as u64, db.stats().file_count);
}

#[test]
fn another_file_in_the_place_of_an_ingested_one_is_noticed() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let files = run(&db, [1], b"value");
    db.ingest(IndexId::DEFAULT, files, b"").unwrap();
    db.write().unwrap();
    db.syncer().sync().unwrap();
    // A file with equal number, length and entry count, written for this database's id.
    let other = MemDisk::new();
    let (db, _) = Db::open(Arc::new(other.clone()), small_options()).unwrap();
    drop(run(&db, [1], b"VALUE"));
    let name = "idx-0000000000000001";
    let mut mixed = disk.files();
    mixed.insert(name.to_owned(), other.files()[name].clone());
    let disk = MemDisk::with_files(mixed.iter().map(|(name, bytes)| (&name[..], &bytes[..])));
    let Err(OpenError::Read(ReadError::Damaged(damage))) = open(&disk).map(|_| ()) else {
        panic!("not noticed");
    };
    assert_eq!(damage.file, name);
    assert!(damage.what.contains("digest"), "{damage}");
    assert!(!babu::check_deep(&disk).unwrap().is_clean());
}
