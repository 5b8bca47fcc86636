//! Log that is kept for readers: across checkpoints, openings and crashes, and given back.

use babu::{Batch, Db, KeepLogError, LogReadError, Lsn, MemDisk};
use fastrand::Rng;

use crate::common::{Run, open};

fn put(db: &mut Db, number: u64) {
    let mut batch = Batch::new();
    batch.put(&number.to_be_bytes(), &[7; 100]);
    assert_eq!(db.apply(&batch, b""), Lsn(number));
    db.write().unwrap();
}

fn logs(disk: &MemDisk) -> Vec<String> {
    disk.files().into_keys().filter(|name| name.starts_with("log-")).collect()
}

fn lsns(db: &Db, from: u64) -> Vec<u64> {
    db.log_groups_from(Lsn(from)).unwrap().map(|group| group.unwrap().lsn.0).collect()
}

fn keep(db: &mut Db, from: Option<u64>) {
    db.keep_log_from(from.map(Lsn)).unwrap().remove().unwrap();
    assert_eq!(db.log_kept_from(), from.map(Lsn));
}

#[test]
fn kept_log_is_read_across_checkpoints_openings_and_a_crash_and_given_back() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    for number in 1..=10 {
        put(&mut db, number);
        if number == 4 {
            db.checkpoint().unwrap();
            keep(&mut db, Some(6));
        }
        if number % 4 == 3 {
            db.checkpoint().unwrap();
        }
    }
    // Group 5 is in the log file that group 6 is in.
    assert_eq!(db.oldest_log_lsn(), Lsn(5));
    let error = db.log_groups_from(Lsn(4)).map(|_| ()).unwrap_err();
    assert!(matches!(error, LogReadError::Gone { oldest: 5 }), "{error}");
    assert_eq!(lsns(&db, 6), [6, 7, 8, 9, 10]);
    db.syncer().sync().unwrap();
    put(&mut db, 11);

    // A loss of power takes the group that was never durable. Another group takes its number.
    let disk = disk.crash_power(&mut || 0);
    let (mut db, _) = open(&disk).unwrap();
    assert_eq!(db.log_kept_from(), Some(Lsn(6)));
    for number in 11..=13 {
        put(&mut db, number);
    }
    db.checkpoint().unwrap();
    let disk = disk.crash_process();
    let (mut db, recovered) = open(&disk).unwrap();
    assert_eq!((recovered.groups_replayed, db.oldest_log_lsn()), (0, Lsn(5)));
    let epochs: Vec<_> = db.log_groups_from(Lsn(6)).unwrap().map(|g| g.unwrap().epoch.0).collect();
    assert_eq!(epochs, [1, 1, 1, 1, 1, 2, 2, 2]);
    assert_eq!(lsns(&db, 6), (6..=13).collect::<Vec<_>>());
    assert!(babu::check_deep(&disk).unwrap().is_clean());

    // Log that is no longer wanted is given back at once, and does not return.
    let before = logs(&disk).len();
    keep(&mut db, Some(9));
    assert_eq!(logs(&disk).len(), before - 1);
    assert_eq!(db.oldest_log_lsn(), Lsn(8));
    let error = db.keep_log_from(Some(Lsn(7))).map(|_| ()).unwrap_err();
    assert!(matches!(error, KeepLogError::Gone { oldest: 8 }), "{error}");
    keep(&mut db, None);
    assert_eq!(logs(&disk).len(), 1, "the active one");
    assert_eq!(db.oldest_log_lsn(), Lsn(14));
    let disk = disk.crash_power(&mut || 0);
    let (db, _) = open(&disk).unwrap();
    assert_eq!(db.log_kept_from(), None);
    assert_eq!(disk.files()["MANIFEST"][8], 2, "as a database that never kept anything");
}

#[test]
fn a_checkpoint_under_way_and_a_choice_meet_in_any_order() {
    for (first, second) in
        [(None, Some(3)), (Some(3), None), (Some(3), Some(7)), (Some(1), Some(3))]
    {
        for moment in 0..3 {
            let disk = MemDisk::new();
            let (mut db, _) = open(&disk).unwrap();
            keep(&mut db, first);
            for number in 1..=6 {
                put(&mut db, number);
                if number % 2 == 0 {
                    db.freeze().unwrap();
                }
            }
            let choose = |db: &mut Db, now| {
                if moment == now {
                    keep(db, second);
                }
            };
            let job = db.checkpoint_job().unwrap();
            choose(&mut db, 0);
            let done = job.run().unwrap();
            choose(&mut db, 1);
            let retired = db.install(done);
            if moment < 2 || first.is_some() {
                choose(&mut db, 2);
            }
            retired.remove().unwrap();
            let context = format!("{first:?} to {second:?} at {moment}");
            let oldest = if moment == 2 && first.is_none() { first } else { second };
            let expected = oldest.map_or(7, |from: u64| (from - 1) / 2 * 2 + 1);
            assert_eq!(db.oldest_log_lsn(), Lsn(expected), "{context}");
            assert_eq!(lsns(&db, expected), (expected..=6).collect::<Vec<_>>(), "{context}");
            assert_eq!(logs(&disk).len() as u64, 1 + (7 - expected) / 2, "{context}");
            let disk = disk.crash_process();
            assert!(babu::check_deep(&disk).unwrap().is_clean(), "{context}");
            let (db, _) = open(&disk).unwrap();
            assert_eq!(lsns(&db, expected), (expected..=6).collect::<Vec<_>>(), "{context}");
        }
    }
}

#[test]
fn damage_in_kept_log_is_named_and_keeps_no_reader_from_the_data() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    keep(&mut db, Some(1));
    for number in 1..=6 {
        put(&mut db, number);
        if number == 3 {
            db.checkpoint().unwrap();
        }
    }
    db.checkpoint().unwrap();
    let files = disk.files();
    let first = "log-0000000000000001";
    for is_missing in [false, true] {
        let mut files = files.clone();
        match is_missing {
            true => drop(files.remove(first)),
            false => files.get_mut(first).unwrap()[4096 + 200] ^= 1,
        }
        let disk = MemDisk::with_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])));
        let report = babu::check_deep(&disk).unwrap();
        let expected = match is_missing {
            true => "the log is missing; affected are the groups from 1 to 3",
            false => "group 2 has a wrong checksum; affected are the groups from 2 to 3",
        };
        let [damage] = &report.damage[..] else { panic!("{report:?}") };
        assert_eq!((&damage.file[..], &damage.what[..]), (first, expected));
        let (mut db, _) = open(&disk).unwrap();
        assert_eq!(db.scan(b"", None).count(), 6);
        assert_eq!(lsns(&db, 4), [4, 5, 6]);
        let error = db.log_groups_from(Lsn(1)).unwrap().find_map(Result::err).unwrap();
        assert!(error.to_string().ends_with(expected), "{error}");
        keep(&mut db, Some(4));
        assert!(babu::check_deep(&disk).unwrap().is_clean());
        assert_eq!(lsns(&db, 4), [4, 5, 6]);
    }
}

#[test]
fn without_space_a_choice_is_refused_and_nothing_changes() {
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk).unwrap();
    put(&mut db, 1);
    disk.full_after(0);
    let KeepLogError::Io(failure) = db.keep_log_from(Some(Lsn(1))).map(|_| ()).unwrap_err() else {
        panic!("not refused");
    };
    assert!(failure.is_full());
    assert_eq!((db.log_kept_from(), db.fatal()), (None, None));
    disk.unlimited();
    keep(&mut db, Some(1));
    db.checkpoint().unwrap();
    assert_eq!(lsns(&db, 1), [1]);
}

/// The choice of kept log, as the tests know it.
struct Chosen {
    last: Option<Lsn>,
    /// A choice that a crash interrupted, so that it may be in force or not.
    attempt: Option<Option<Lsn>>,
}

fn work(run: &mut Run, rng: &mut Rng, chosen: &mut Chosen) {
    for _ in 0..60 {
        if rng.usize(..10) == 0 {
            let oldest = run.db.oldest_log_lsn().0;
            let span = (run.db.written_lsn().0 + 4 - oldest) as usize;
            let from = (rng.usize(..6) > 0).then(|| Lsn(oldest + rng.usize(..span) as u64));
            chosen.attempt = Some(from);
            let Ok(retired) = run.db.keep_log_from(from) else { return };
            chosen.last = from;
            chosen.attempt = None;
            if rng.usize(..4) > 0 && retired.remove().is_err() {
                return;
            }
        } else if run.step(rng).is_err() {
            return;
        }
        assert_kept(run, chosen.last);
    }
}

/// Asserts that all groups from `from` on are in the log, as far as they were written.
fn assert_kept(run: &Run, from: Option<Lsn>) {
    let next = run.db.written_lsn().next();
    let oldest = run.db.oldest_log_lsn();
    assert_eq!(run.db.log_kept_from(), from);
    assert!(from.is_none_or(|from| oldest <= from.min(next)), "{oldest}, {from:?}");
}

#[test]
fn choices_and_what_they_keep_survive_crashes_at_any_change() {
    let (mut crashes, mut read) = (0, 0);
    for seed in 0..if std::env::var_os("PANDO_LONG").is_some() { 2000 } else { 150 } {
        let mut rng = Rng::with_seed(seed);
        let mut disk = MemDisk::new();
        let mut run = Run::new(open(&disk).unwrap().0);
        let mut chosen = Chosen { last: None, attempt: None };
        for life in 0..6 {
            let context = format!("seed {seed}, life {life}");
            disk.crash_at(1 + rng.u64(..150));
            work(&mut run, &mut rng, &mut chosen);
            let (states, batches) = (run.states, run.batches);
            disk = match rng.usize(..2) {
                0 => disk.crash_process(),
                _ => disk.crash_power(&mut || rng.u64(..)),
            };
            // An opening that is interrupted does not change the choice.
            disk.crash_at(1 + rng.u64(..12));
            let _ = open(&disk);
            disk = disk.crash_process();
            let report = babu::check_deep(&disk).unwrap();
            assert!(report.is_clean(), "{context}: {report:?}");
            let (db, recovered) = open(&disk).unwrap();
            let found = db.log_kept_from();
            assert!(found == chosen.last || Some(found) == chosen.attempt, "{context}: {found:?}");
            chosen = Chosen { last: found, attempt: None };
            run = Run::new(db);
            run.states = states;
            run.batches = batches;
            run.states.truncate(recovered.last_lsn.0 as usize + 1);
            run.batches.truncate(recovered.last_lsn.0 as usize);
            assert_kept(&run, found);
            let oldest = run.db.oldest_log_lsn();
            assert_eq!(run.assert_log_from(oldest), recovered.last_lsn, "{context}");
            crashes += 1;
            read += recovered.last_lsn.0 + 1 - oldest.0;
        }
    }
    assert!(crashes > 800 && read > 10_000, "{crashes} {read}");
}
