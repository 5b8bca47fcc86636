//! Crashes at every operation that changes something on disk.
//!
//! A first run counts the changes. Then a run for each change stops there, and the database is
//! opened again. A process crash must lose nothing that was written. A loss of power must lose
//! nothing that was durable. In both cases the state is exactly that after some group. All tests
//! run on disks without and with an [`babu::Appender`].

use babu::{Batch, MemDisk};
use fastrand::Rng;

use crate::common::crashes::{self, End, Kind, Promises, STEPS, assert_recovers, burst, work};
use crate::common::{Run, World, open, some_batch, world};

/// Seeds from `first` on. On request there are many more.
fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let times = if std::env::var_os("PANDO_LONG").is_some() { 20 } else { 1 };
    first..first + count * times
}

fn crash_everywhere(seeds: std::ops::Range<u64>, end: End, kind: Kind) {
    let (mut lost, mut appends) = (0, 0);
    for seed in seeds {
        let (more, by_appender) = crashes::crash_everywhere(seed, end, kind);
        lost += more;
        appends += by_appender;
    }
    assert!(lost > 0, "some crash must have lost something");
    assert_eq!(appends > 1000, kind == Kind::Appending, "{appends}");
}

#[test]
fn a_process_crash_at_any_change_keeps_every_written_group_and_no_part_of_one() {
    crash_everywhere(seeds(0, 120), End::Process, Kind::Plain);
    crash_everywhere(seeds(0, 6), End::Process, Kind::Appending);
}

#[test]
fn a_power_loss_at_any_change_keeps_every_durable_group_and_no_part_of_one() {
    crash_everywhere(seeds(10_000, 150), End::Power, Kind::Plain);
    crash_everywhere(seeds(10_000, 10), End::Power, Kind::Appending);
}

#[test]
fn what_an_opening_brings_back_is_durable_from_then_on() {
    for seed in 0..200 {
        let kind = [Kind::Plain, Kind::Appending][seed as usize / 2 % 2];
        let disk = kind.disk();
        let promises = work(open(&disk).unwrap().0, &mut Rng::with_seed(seed), kind);
        let disk = disk.crash_process();
        let (db, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.last_lsn.0, promises.written);
        assert_eq!(db.durable_lsn(), recovered.last_lsn);
        drop(db);
        // A loss of power takes all that is not synced, or, for other seeds, a part of it.
        let mut rng = Rng::with_seed(seed);
        let disk = disk.crash_power(&mut || if seed % 2 == 0 { 0 } else { rng.u64(..) });
        let context = format!("seed {seed}");
        assert_recovers(&disk, &promises, promises.written, &context);
    }
}

#[test]
fn an_installed_checkpoint_survives_any_loss_of_power() {
    (0..200).for_each(crashes::lose_power_after_checkpoint);
}

/// The files and content of a database with some levels and a snapshot. Its log has news of every
/// kind.
fn deep_database(seed: u64) -> (std::collections::BTreeMap<String, Vec<u8>>, World) {
    let mut rng = Rng::with_seed(seed);
    let disk = MemDisk::new();
    let mut run = Run::new(open(&disk).unwrap().0);
    let is_deep = |run: &Run| {
        let stats = run.db.stats();
        stats.levels.len() >= 2 && stats.levels[1].files > 0 && run.world().indices.len() == 2
    };
    while !is_deep(&run) {
        run.step(&mut rng).unwrap();
    }
    run.drop_jobs();
    run.db.checkpoint().unwrap();
    for _ in 0..30 {
        run.step_change(&mut rng).unwrap();
    }
    run.db.write().unwrap();
    run.db.syncer().sync().unwrap();
    (disk.files(), run.world().clone())
}

#[test]
fn a_crash_at_any_change_of_a_checkpoint_through_several_levels_loses_nothing() {
    let mut crashes = 0;
    for seed in seeds(0, 6) {
        let (files, expected) = deep_database(seed);
        let kind = [Kind::Plain, Kind::Appending][seed as usize % 2];
        let disk_of_files = || {
            let files = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
            kind.make(MemDisk::with_files(files))
        };
        let work = |disk: &MemDisk| -> Option<()> {
            let (mut db, _) = open(disk).ok()?;
            db.checkpoint().ok()?;
            db.drop_snapshot("first").ok();
            db.write().ok()?;
            db.syncer().sync().ok()?;
            Some(())
        };
        let disk = disk_of_files();
        work(&disk).unwrap();
        let changes = disk.counters().changes;
        for n in 1..=changes {
            for power in [false, true] {
                let disk = disk_of_files();
                disk.crash_at(n);
                assert_eq!(work(&disk), None);
                let mut rng = Rng::with_seed(seed * 10_000 + n);
                let disk = match power {
                    true => disk.crash_power(&mut || rng.u64(..)),
                    false => disk.crash_process(),
                };
                let context = format!("seed {seed}, change {n} of {changes}, power {power}");
                let report = babu::check_deep(&disk).unwrap();
                assert!(report.is_clean(), "{context}: {report:?}");
                let (mut db, _) = open(&disk).unwrap_or_else(|e| panic!("{context}: {e}"));
                let found = world(&db).unwrap();
                let mut without = expected.clone();
                without.snapshots.remove("first");
                assert!(found == expected || found == without, "{context}");
                db.checkpoint().unwrap();
                assert_eq!(world(&db).unwrap(), found, "{context}");
                let indexes = disk.files().into_keys().filter(|name| name.starts_with("idx-"));
                assert_eq!(indexes.count() as u64, db.stats().file_count, "{context}");
                crashes += 1;
            }
        }
    }
    assert!(crashes > 200, "{crashes}");
}

#[test]
fn after_a_failed_write_or_sync_nothing_is_accepted_and_reopening_recovers() {
    failing(0..100, Kind::Plain);
}

#[test]
fn pages_that_cannot_be_made_ready_and_other_failures_of_an_appending_disk_lose_nothing() {
    failing(0..20, Kind::Appending);
}

fn failing(seeds: std::ops::Range<u64>, kind: Kind) {
    let mut fatal = 0;
    for seed in seeds {
        let disk = kind.disk();
        work(open(&disk).unwrap().0, &mut Rng::with_seed(seed), kind);
        let changes = disk.counters().changes;
        for n in 1..=changes {
            let disk = kind.disk();
            disk.fail_at(n);
            let Ok((db, _)) = open(&disk) else {
                continue;
            };
            let mut run = Run::new(db);
            let mut rng = Rng::with_seed(seed);
            for _ in 0..STEPS {
                let is_burst = kind.is_burst(&mut rng);
                if is_burst && burst(&mut run, &mut rng).is_err() || run.step(&mut rng).is_err() {
                    break;
                }
            }
            let failed = run.db.fatal();
            if let Some(failed) = &failed {
                fatal += 1;
                assert!(failed.to_string().contains("simulated I/O error"), "{failed}");
                assert!(!failed.file().is_empty());
                let before = disk.counters();
                run.apply(&some_batch(&mut rng));
                assert_eq!(run.db.write().as_ref(), Err(failed));
                assert_eq!(run.db.syncer().sync().as_ref(), Err(failed));
                assert_eq!(run.db.freeze().err(), Some(failed.clone().into()));
                assert_eq!(disk.counters(), before, "nothing was tried");
            } else {
                // A failed checkpoint has no effect.
                run.job = None;
                run.done = None;
                run.db.checkpoint().unwrap();
            }
            let promises = Promises {
                written: run.db.written_lsn().0,
                durable: run.db.durable_lsn().0,
                states: run.states,
            };
            let at_least = promises.written;
            let context = format!("seed {seed}, change {n}");
            assert_recovers(&disk.crash_process(), &promises, at_least, &context);
        }
    }
    assert!(fatal > 100);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed| {
        let kind = if seed % 2 == 0 { Kind::Plain } else { Kind::Appending };
        let disk = kind.disk();
        work(open(&disk).unwrap().0, &mut Rng::with_seed(seed), kind);
        disk.files()
    };
    for seed in 0..10 {
        assert_eq!(bytes(seed), bytes(seed));
    }
}

#[test]
fn promises_hold_through_many_crashes_of_both_kinds() {
    let (mut lives, mut openings_cut_short) = (0, 0);
    for seed in seeds(0, 300) {
        let mut rng = Rng::with_seed(seed);
        let kind = [Kind::Plain, Kind::Appending][seed as usize % 2];
        let mut disk = kind.disk();
        let mut promises = Promises { written: 0, durable: 0, states: vec![World::new()] };
        for life in 0..15 {
            disk.crash_at(1 + rng.u64(..80));
            match open(&disk) {
                Err(_) => openings_cut_short += 1,
                Ok((db, recovered)) => {
                    lives += 1;
                    let last = recovered.last_lsn.0;
                    let context = format!("seed {seed}, life {life}");
                    assert!(last >= promises.written, "{context}: {last}");
                    promises.states.truncate(last as usize + 1);
                    promises.written = last;
                    promises.durable = last;
                    // The machine may stop during this read.
                    if let Ok(found) = world(&db) {
                        assert_eq!(&found, promises.states.last().unwrap(), "{context}");
                        let mut run = Run::new(db);
                        run.states = promises.states;
                        let mut go_on = true;
                        while go_on {
                            let is_burst = kind.is_burst(&mut rng);
                            go_on = !(is_burst && burst(&mut run, &mut rng).is_err())
                                && run.step(&mut rng).is_ok();
                        }
                        promises.written = run.db.written_lsn().0;
                        promises.durable = run.db.durable_lsn().0;
                        promises.states = run.states;
                    }
                }
            }
            if rng.bool() {
                disk = disk.crash_process();
            } else {
                disk = disk.crash_power(&mut || rng.u64(..));
                promises.written = promises.durable;
            }
            let report = babu::check_deep(&disk).unwrap();
            assert!(report.is_clean(), "seed {seed}, life {life}: {report:?}");
        }
        assert_recovers(&disk, &promises, promises.written, &format!("seed {seed}, the end"));
    }
    assert!(lives > 1000 && openings_cut_short > 100, "{lives}, {openings_cut_short}");
}

/// After a failed sync the kernel takes unwritten pages for written, and later syncs do not write
/// them either.
#[test]
fn what_a_failed_sync_left_behind_is_durable_after_the_next_opening() {
    for seed in 0..100 {
        let kind = [Kind::Plain, Kind::Appending][seed as usize % 2];
        let disk = kind.disk();
        let mut rng = Rng::with_seed(seed);
        let mut run = Run::new(open(&disk).unwrap().0);
        let syncer = run.db.syncer();
        for step in 0..30 {
            let mut batch = some_batch(&mut rng);
            batch.put(b"last", &[step]);
            run.apply(&batch);
            run.db.write().unwrap();
            if rng.usize(..8) == 0 {
                syncer.sync().unwrap();
            }
        }
        let mut batch = Batch::new();
        batch.put(b"not synced", b"");
        run.apply(&batch);
        run.db.write().unwrap();
        disk.fail_sync();
        syncer.sync().unwrap_err();
        let written = run.db.written_lsn().0;
        let promises = Promises { written, durable: written, states: run.states.clone() };
        drop(run);
        // The machine continues, with what it has in memory.
        let disk = disk.crash_process();
        let (db, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.last_lsn.0, written);
        drop(db);
        let disk = disk.crash_power(&mut || 0);
        assert_recovers(&disk, &promises, written, &format!("seed {seed}"));
    }
}
