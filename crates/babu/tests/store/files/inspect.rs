//! Inspections of a database that is not open.

use babu::{Inspection, MemDisk, OpenError, ReadError};
use fastrand::Rng;

use crate::common::{Run, open, world};

#[test]
fn an_inspection_sees_what_an_opening_would_and_changes_nothing() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let disk = MemDisk::new();
        let mut run = Run::new(open(&disk).unwrap().0);
        for _ in 0..150 {
            run.step(&mut rng).unwrap();
        }
        let disk = disk.crash_process();
        let before = (disk.files(), disk.counters());
        let inspection = Inspection::new(&disk, 1 << 20).unwrap();
        let found: Vec<usize> = inspection
            .indices()
            .map(|(index, _)| inspection.view().scan_in(index, b"", None).count())
            .collect();
        let facts = inspection.facts().clone();
        let snapshots: Vec<_> = inspection.snapshots().map(|(name, _)| name.to_owned()).collect();
        let (files, stats) = (inspection.files(), inspection.stats());
        assert_eq!(files.len() as u64, stats.levels.iter().map(|level| level.files).sum::<u64>());
        assert!(files.iter().all(|file| file.from < file.to && before.0.contains_key(&file.name)));
        assert_eq!((disk.files(), disk.counters()), before);

        let (db, recovered) = open(&disk).unwrap();
        let expected = world(&db).unwrap();
        assert_eq!(found, expected.indices.iter().map(|model| model.len()).collect::<Vec<_>>());
        assert_eq!(snapshots, expected.snapshots.into_keys().collect::<Vec<_>>());
        assert_eq!((facts.last, facts.checkpoint), (recovered.last_lsn, recovered.checkpoint_lsn));
        assert_eq!(facts.epoch.0 + 1, recovered.epoch.0);
    }
}

#[test]
fn where_there_is_no_database_an_inspection_says_so() {
    let Err(OpenError::Read(ReadError::Damaged(damage))) =
        Inspection::new(&MemDisk::new(), 0).map(|_| ())
    else {
        panic!("not noticed");
    };
    assert_eq!(damage.what, "there is no database here");
}
