//! Memory under load, and what tells callers to slow their writers.

use std::sync::Arc;

use babu::{Batch, Behind, Db, MemDisk, Pressure};

use crate::common::{small_options, throttled};

#[test]
fn memory_stays_within_its_budget_though_files_are_written_slowly() {
    let (slowed, stopped) = throttled::overload(1);
    assert!(slowed > 100 && stopped > 10, "{slowed} {stopped}");
}

fn put(db: &mut Db, key: u32, len: usize) {
    let mut batch = Batch::new();
    batch.put(&key.to_be_bytes(), &vec![7; len]);
    db.apply(&batch, b"");
    db.write().unwrap();
}

fn flush(db: &mut Db) {
    db.freeze().unwrap();
    let done = db.checkpoint_job().unwrap().run().unwrap();
    db.install(done).remove().unwrap();
}

#[test]
fn log_counts_though_the_tree_is_small() {
    let (mut db, _) = Db::open(Arc::new(MemDisk::new()), small_options()).unwrap();
    let limit = 256 << 10;
    let mut last = Pressure::None;
    while !matches!(last, Pressure::Hard(_)) {
        put(&mut db, 1, 1000);
        last = db.pressure(limit);
    }
    assert_eq!(last, Pressure::Hard(Behind::Log));
    assert!(db.unflushed_bytes() >= limit && db.tree_bytes() < limit / 4);
    flush(&mut db);
    assert_eq!((db.pressure(limit), db.log_bytes()), (Pressure::None, 0));
}

#[test]
fn trees_that_a_view_holds_count_until_it_is_gone() {
    let (mut db, _) = Db::open(Arc::new(MemDisk::new()), small_options()).unwrap();
    (0..1000).for_each(|key| put(&mut db, key, 500));
    let limit = db.tree_bytes();
    assert_eq!(db.pressure(limit), Pressure::Hard(Behind::Trees));
    let view = db.view();
    flush(&mut db);
    assert_eq!(db.unflushed_bytes(), 0);
    assert_eq!(db.pressure(limit), Pressure::Hard(Behind::Trees));
    assert!(db.stats().held_bytes >= limit);
    drop(view);
    assert_eq!((db.pressure(limit), db.stats().held_bytes), (Pressure::None, 0));
}

#[test]
fn runs_that_wait_for_a_merge_slow_writers_and_never_stop_them() {
    let (mut db, _) = Db::open(Arc::new(MemDisk::new()), small_options()).unwrap();
    let limit = 4 << 10;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut soft = 0;
    for _ in 0..40 {
        let mut batch = Batch::new();
        for key in 0..20_u32 {
            let value: Vec<u8> = (0..200).map(|_| rng.u8(..)).collect();
            batch.put(&key.to_be_bytes(), &value);
        }
        db.apply(&batch, b"");
        db.write().unwrap();
        flush(&mut db);
        match db.pressure(limit) {
            Pressure::Soft(_, behind) => {
                assert_eq!(behind, Behind::Runs);
                soft += 1;
            }
            other => assert!(other == Pressure::None && soft == 0, "{other:?}"),
        }
    }
    assert!(soft > 10, "{soft}");
    assert_eq!(db.pressure(limit), Pressure::Soft(1.0, Behind::Runs));
    db.checkpoint().unwrap();
    assert_eq!(db.pressure(limit), Pressure::None);
}
