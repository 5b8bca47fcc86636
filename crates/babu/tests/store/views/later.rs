//! Groups that are in the log before they are in the trees ([`Db::apply_later`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use babu::{Batch, Db, Definition, Lsn, MemDisk, Options};

use crate::common::open;

fn put(key: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(key, b"value");
    batch
}

fn begun() -> (MemDisk, Db) {
    let disk = MemDisk::new();
    let (db, _) = open(&disk).unwrap();
    (disk, db)
}

fn has(db: &Db, key: &[u8]) -> bool {
    db.get(key).unwrap().is_some()
}

#[test]
fn a_group_is_read_once_it_is_settled_and_never_overlooked_before() {
    let (_, mut db) = begun();
    let mut batch = put(b"a");
    assert_eq!(db.apply_later(&mut batch, b"meta"), Lsn(1));
    assert!(batch.is_empty(), "its content was taken");
    assert_eq!(db.applied_lsn(), Lsn(1));
    assert!(catch_unwind(AssertUnwindSafe(|| has(&db, b"a"))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| db.scan(b"", None).count())).is_err());
    db.settle();
    assert!(has(&db, b"a"));
    db.settle();
    assert_eq!(db.scan(b"", None).count(), 1);
}

#[test]
fn whatever_changes_the_database_settles_it_first() {
    type Do = fn(&mut Db);
    let all: [(&str, Do); 7] = [
        ("apply", |db| _ = db.apply(&put(b"b"), b"")),
        ("apply_later", |db| {
            db.apply_later(&mut put(b"b"), b"");
            db.settle();
        }),
        ("freeze", |db| assert!(db.freeze().unwrap())),
        ("view", |db| assert!(db.view().get(b"a").unwrap().is_some())),
        ("snapshot", |db| {
            db.snapshot("s", Definition::all()).unwrap();
            let snapshot = db.find_snapshot("s").unwrap();
            assert!(snapshot.view().get(b"a").unwrap().is_some());
        }),
        ("index", |db| _ = db.index("other").unwrap()),
        ("checkpoint", |db| db.checkpoint().unwrap()),
    ];
    for (what, change) in all {
        let (disk, mut db) = begun();
        db.apply_later(&mut put(b"a"), b"");
        change(&mut db);
        assert!(has(&db, b"a"), "{what}");
        db.write().unwrap();
        db.syncer().sync().unwrap();
        drop(db);
        let (db, _) = Db::open(Arc::new(disk.crash_process()), Options::default()).unwrap();
        assert!(has(&db, b"a"), "{what}, after a restart");
    }
}

#[test]
fn a_crash_between_the_log_and_the_trees_loses_nothing_that_was_written() {
    let (disk, mut db) = begun();
    db.apply_later(&mut put(b"a"), b"");
    db.write().unwrap();
    db.apply_later(&mut put(b"b"), b"");
    let (db, recovered) = open(&disk.crash_process()).unwrap();
    assert_eq!(recovered.last_lsn, Lsn(1));
    assert!(has(&db, b"a") && !has(&db, b"b"));
}
