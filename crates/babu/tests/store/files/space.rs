//! A full disk: it is noticed before anything is applied, and work continues once there is space.

use std::sync::Arc;

use babu::{Batch, Db, IndexId, Lsn, MemDisk, Priority, ReserveError, RunError};

use crate::common::{contents, open, small_options};

fn put(db: &mut Db, number: u32, priority: Priority) -> Result<Lsn, ReserveError> {
    let mut batch = Batch::new();
    batch.put(&number.to_be_bytes(), &[1; 100]);
    db.reserve(batch.log_bytes(0), priority)?;
    let lsn = db.apply(&batch, b"");
    assert_eq!(db.write().unwrap(), lsn);
    Ok(lsn)
}

fn fill(db: &mut Db, number: &mut u32, priority: Priority) {
    loop {
        match put(db, *number, priority) {
            Ok(_) => *number += 1,
            Err(ReserveError::Full(full)) => {
                assert!(full.wanted_bytes > full.spare_bytes, "{full}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_full_disk_refuses_before_applying_and_goes_on_once_there_is_space() {
    refuses_before_applying(MemDisk::new());
    let disk = MemDisk::new().with_appender();
    refuses_before_applying(disk.clone());
    assert!(disk.counters().appends > 50);
}

fn refuses_before_applying(disk: MemDisk) {
    let (mut db, _) = open(&disk).unwrap();
    let mut number = 0;
    disk.full_after(20_000);
    fill(&mut db, &mut number, Priority::Normal);
    assert!(number > 50);
    let before = contents(&db).unwrap();
    assert_eq!(db.applied_lsn(), Lsn(u64::from(number)));
    assert!(put(&mut db, number, Priority::Normal).is_err());
    assert_eq!(contents(&db).unwrap(), before, "nothing was applied");
    assert_eq!(db.fatal(), None);
    db.syncer().sync().unwrap();

    // The reserve still takes deletions.
    let mut batch = Batch::new();
    batch.delete_range(&[0], &[0, 0, 0, 9]);
    assert!(db.reserve(512, Priority::Normal).is_err());
    db.reserve(batch.log_bytes(0), Priority::Reserve).unwrap();
    db.apply(&batch, b"");
    db.write().unwrap();
    db.syncer().sync().unwrap();
    fill(&mut db, &mut number, Priority::Reserve);

    // Freezing and checkpointing fail without harm.
    let before = contents(&db).unwrap();
    assert!(matches!(db.freeze(), Err(ReserveError::Full(_))));
    assert_eq!(contents(&db).unwrap(), before);

    disk.unlimited();
    put(&mut db, number, Priority::Normal).unwrap();
    db.checkpoint().unwrap();
    let expected = contents(&db).unwrap();
    let (db, recovered) = open(&disk.crash_process()).unwrap();
    assert_eq!(recovered.groups_replayed, 0);
    assert_eq!(contents(&db).unwrap(), expected);
}

#[test]
fn a_checkpoint_without_space_fails_without_harm_and_another_succeeds() {
    fails_without_harm(MemDisk::new());
    fails_without_harm(MemDisk::new().with_appender());
}

fn fails_without_harm(disk: MemDisk) {
    let (mut db, _) = open(&disk).unwrap();
    for number in 0..500 {
        put(&mut db, number, Priority::Normal).unwrap();
    }
    db.freeze().unwrap();
    for limit in [0, 10, 1000, 10_000] {
        disk.full_after(limit);
        let names = disk.files().len();
        assert!(db.checkpoint_job().unwrap().run().is_err(), "{limit}");
        assert!(disk.files().len() <= names + 1, "no index file stays behind, at most a manifest");
        assert_eq!(db.fatal(), None);
    }
    disk.unlimited();
    let expected = contents(&db).unwrap();
    assert_eq!(expected.len(), 500);
    let done = db.checkpoint_job().unwrap().run().unwrap();
    db.install(done).remove().unwrap();
    assert_eq!(contents(&db).unwrap(), expected);
}

#[test]
fn a_database_on_a_full_disk_opens_and_is_refused_space_until_there_is_some() {
    opens_and_is_refused_space(MemDisk::new());
    opens_and_is_refused_space(MemDisk::new().with_appender());
}

fn opens_and_is_refused_space(disk: MemDisk) {
    let (mut db, _) = open(&disk).unwrap();
    put(&mut db, 1, Priority::Normal).unwrap();
    let disk = disk.crash_process();
    disk.full_after(5_000);
    let (mut db, _) = Db::open(Arc::new(disk.clone()), small_options()).unwrap();
    assert_eq!(contents(&db).unwrap().len(), 1);
    disk.full_after(0);
    assert!(put(&mut db, 2, Priority::Normal).is_err());
    disk.unlimited();
    put(&mut db, 2, Priority::Normal).unwrap();
    assert_eq!(contents(&db).unwrap().len(), 2);
}

#[test]
fn an_ingestion_without_space_leaves_nothing_behind_and_another_succeeds() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let write = |db: &Db| {
        db.ingestion().write(|files| {
            for number in 0..300u32 {
                let noise = number.wrapping_mul(0x9e37_79b9).to_le_bytes();
                files.put(&number.to_be_bytes(), &noise.repeat(8))?;
            }
            Ok::<_, RunError>(())
        })
    };
    let names = disk.files().len();
    for limit in [0, 500, 3000] {
        disk.full_after(limit);
        assert!(write(&db).is_err(), "{limit}");
        assert_eq!(disk.files().len(), names, "{limit}");
        assert_eq!(db.fatal(), None);
    }
    disk.unlimited();
    let run = write(&db).unwrap();
    db.ingest(IndexId::DEFAULT, run, b"").unwrap();
    assert_eq!(contents(&db).unwrap().len(), 300);
}
