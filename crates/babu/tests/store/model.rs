//! Random operations on a database, compared with a sorted map.

use std::sync::Arc;

use babu::{Batch, Db, LogReadError, Lsn, MemDisk, Options, RealDisk};
use fastrand::Rng;

use crate::common::{Run, contents, open, reads};

#[test]
fn reads_agree_with_a_sorted_map_whatever_layer_holds_the_key() {
    let seeds = if std::env::var_os("PANDO_LONG").is_some() { 20_000 } else { 500 };
    for seed in 0..seeds {
        reads::agree(seed);
    }
}

#[test]
fn the_log_can_be_read_from_any_group_since_the_checkpoint() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let disk = MemDisk::new();
        let mut run = Run::new(open(&disk).unwrap().0);
        for _ in 0..100 {
            run.step(&mut rng).unwrap();
        }
        let written = run.db.write().unwrap();
        let mut oldest = 1;
        if let Err(LogReadError::Gone { oldest: first }) = run.db.log_groups_from(Lsn(1)) {
            oldest = first;
        }
        assert!(run.db.log_groups_from(Lsn(oldest - 1)).is_err());
        for from in oldest..=written.0 + 1 {
            assert_eq!(run.assert_log_from(Lsn(from)), written);
        }
    }
}

#[test]
fn reads_writes_and_syncs_go_on_while_a_checkpoint_runs_in_another_thread() {
    let folder = std::env::temp_dir().join(format!("babu-threads-{}", std::process::id()));
    let options = Options { log_chunk_bytes: 1 << 16, ..Options::default() };
    let key = |number: u64| [&[7; 17][..], &number.to_be_bytes()].concat();
    let total = 20_000u64;
    {
        let disk = Arc::new(RealDisk::open(&folder).unwrap());
        let (mut db, recovered) = Db::open(disk, options.clone()).unwrap();
        assert!(!recovered.existed);
        let syncer = db.syncer();
        let mut batch = Batch::new();
        let mut checkpoints = 0;
        std::thread::scope(|scope| {
            let mut job = None;
            let mut syncing = None;
            for number in 0..total {
                batch.clear();
                batch.put(&key(number), &number.to_le_bytes());
                db.apply(&batch, b"meta");
                db.write().unwrap();
                assert!(db.get(&key(number / 2)).unwrap().is_some());
                if number % 1000 == 0 {
                    db.freeze().unwrap();
                    if let Some(new) = db.checkpoint_job() {
                        job = Some(scope.spawn(move || new.run()));
                    }
                    let (syncer, wanted) = (syncer.clone(), db.written_lsn());
                    syncing = Some(scope.spawn(move || assert!(syncer.sync().unwrap() >= wanted)));
                }
                if job.as_ref().is_some_and(|job| job.is_finished()) {
                    let done = job.take().unwrap().join().unwrap().unwrap();
                    db.install(done).remove().unwrap();
                    checkpoints += 1;
                }
            }
            drop(syncing);
            // On a busy machine, the last write may come before the end of every checkpoint.
            if let Some(job) = job {
                db.install(job.join().unwrap().unwrap()).remove().unwrap();
                checkpoints += 1;
            }
        });
        assert!(checkpoints > 0);
        assert!(db.durable_lsn() <= db.written_lsn());
    }
    let disk = Arc::new(RealDisk::open(&folder).unwrap());
    let (db, recovered) = Db::open(disk, options).unwrap();
    assert_eq!(recovered.last_lsn, Lsn(total));
    assert_eq!(recovered.epoch, babu::Epoch(2));
    let mut expected = 0;
    for entry in db.prefix(&[7; 17]) {
        let (found, value) = entry.unwrap();
        assert_eq!(&*found, &key(expected)[..]);
        assert_eq!(&*value, &expected.to_le_bytes()[..]);
        expected += 1;
    }
    assert_eq!(expected, total);
    drop(db);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn many_groups_take_one_write_and_all_of_them_one_sync() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    let before = disk.counters();
    for _ in 0..10 {
        db.apply(&batch, b"");
    }
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(disk.counters(), before, "applying touches no disk");
    assert_eq!(db.write().unwrap(), Lsn(10));
    assert_eq!(disk.counters().writes, before.writes + 1);
    assert_eq!(db.durable_lsn(), Lsn(0));
    assert_eq!(db.syncer().sync().unwrap(), Lsn(10));
    assert_eq!(disk.counters().syncs, before.syncs + 1);
    assert_eq!(db.syncer().sync().unwrap(), Lsn(10));
    assert_eq!(disk.counters().syncs, before.syncs + 1, "nothing new");
}

#[test]
fn a_sync_after_a_freeze_covers_the_old_log_and_the_new_one() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    for number in 0..3u8 {
        batch.clear();
        batch.put(&[number], b"value");
        db.apply(&batch, b"");
        db.freeze().unwrap();
    }
    db.apply(&batch, b"");
    db.write().unwrap();
    assert_eq!(db.syncer().sync().unwrap(), Lsn(4));
    let expected = contents(&db).unwrap();
    // Drop all that is not synced.
    let disk = disk.crash_power(&mut || 0);
    let (db, recovered) = open(&disk).unwrap();
    assert_eq!(recovered.last_lsn, Lsn(4));
    assert_eq!(contents(&db).unwrap(), expected);
}

#[test]
fn a_dropped_job_or_result_can_be_followed_by_another() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    db.apply(&batch, b"");
    assert!(db.checkpoint_job().is_none(), "nothing is frozen");
    assert!(db.freeze().unwrap());
    assert!(!db.freeze().unwrap(), "nothing to freeze");
    let job = db.checkpoint_job().unwrap();
    assert!(db.checkpoint_job().is_none(), "one at a time");
    drop(job);
    drop(db.checkpoint_job().unwrap().run().unwrap());
    let done = db.checkpoint_job().unwrap().run().unwrap();
    assert_eq!(done.entries(), 1);
    db.install(done).remove().unwrap();
    assert!(db.checkpoint_job().is_none());
    assert_eq!(db.stats().frozen_count, 0);
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    let (db, _) = open(&disk.crash_process()).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn the_longest_keys_and_long_values_pass_through_log_and_index() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    let mut batch = Batch::new();
    let long = vec![b'k'; babu::MAX_KEY_BYTES];
    let value = vec![7; 3 << 20];
    batch.put(&long, &value);
    batch.put(&long[1..], b"");
    batch.put(b"", &value);
    db.apply(&batch, &value);
    db.write().unwrap();
    let mut disk = disk;
    for _ in 0..2 {
        disk = disk.crash_process();
        let (mut db, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.last_lsn, Lsn(1));
        assert_eq!(db.get(&long).unwrap().as_deref(), Some(&value[..]));
        assert_eq!(db.get(&long[1..]).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(db.get(b"").unwrap().as_deref(), Some(&value[..]));
        assert!(db.get(&long[2..]).unwrap().is_none());
        assert_eq!(db.scan(b"", None).count(), 3);
        db.checkpoint().unwrap();
        assert_eq!(db.scan(b"", None).count(), 3);
    }
}

/// The filter of the frozen tree is replaced during the checkpoint.
#[test]
fn a_large_frozen_tree_answers_the_same_before_beside_and_after_its_checkpoint() {
    let key = |number: u64| {
        let mut key = [(number % 40) as u8; 24];
        key[16..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    };
    let (mut db, _) = Db::open(Arc::new(MemDisk::new()), Options::default()).unwrap();
    let count = 30_000;
    let mut batch = Batch::new();
    for number in 0..count {
        batch.clear();
        batch.put(&key(number), &number.to_le_bytes());
        db.apply(&batch, b"");
    }
    let check = |db: &Db, numbers: std::ops::Range<u64>| {
        for number in numbers {
            let value = db.get(&key(number)).unwrap();
            assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "{number}");
            assert!(db.get(&key(number + count)).unwrap().is_none(), "{number}");
        }
    };
    db.freeze().unwrap();
    check(&db, 0..count);
    let job = db.checkpoint_job().unwrap();
    let done = std::thread::scope(|scope| {
        let job = scope.spawn(|| job.run());
        let mut from = 0;
        while !job.is_finished() {
            check(&db, from..from + 100);
            from = (from + 100) % count;
        }
        job.join().unwrap().unwrap()
    });
    check(&db, 0..count);
    drop(db.install(done));
    check(&db, 0..count);
}

#[test]
fn handles_go_to_other_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>() {}
    assert_send_sync::<Db>();
    assert_send_sync::<babu::Syncer>();
    assert_send_sync::<MemDisk>();
    assert_send::<babu::CheckpointJob>();
    assert_send::<babu::CheckpointDone>();
    assert_send::<babu::Retired>();
}
