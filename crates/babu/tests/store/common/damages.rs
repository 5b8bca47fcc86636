//! Databases with damaged files.

use std::collections::BTreeMap;

use babu::{Batch, Db, MemDisk, OpenError, ReadError};
use fastrand::Rng;

use super::{Run, World, open, some_batch, some_value, world};

pub type Files = BTreeMap<String, Vec<u8>>;

pub fn disk_of(files: &Files) -> MemDisk {
    MemDisk::with_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
}

/// A durable database with an index file, a log of an earlier opening, and two logs of the last
/// one. Returns its files and its content.
pub fn database() -> (Files, World) {
    let mut rng = Rng::with_seed(5);
    let disk = MemDisk::new();
    let mut run = Run::new(open(&disk).unwrap().0);
    let work = |run: &mut Run, rng: &mut Rng, groups| {
        for _ in 0..groups {
            run.apply(&some_batch(rng));
            run.db.write().unwrap();
        }
        run.db.syncer().sync().unwrap();
    };
    let mut many = Batch::new();
    for number in 0..60u8 {
        many.put(&[b"many", &[number][..]].concat(), &some_value(&mut rng));
    }
    work(&mut run, &mut rng, 30);
    run.apply(&many);
    work(&mut run, &mut rng, 3);
    run.db.checkpoint().unwrap();
    work(&mut run, &mut rng, 5);
    let mut run = Run::new(open(&disk.crash_process()).unwrap().0);
    let disk = disk.crash_process();
    drop(run);
    run = Run::new(open(&disk).unwrap().0);
    work(&mut run, &mut rng, 5);
    // Two indices, snapshots with and without files, and an ingested run that waits for a
    // checkpoint.
    while run.world().indices.len() < 2 || run.world().snapshots.len() < 3 {
        run.step(&mut rng).unwrap();
    }
    run.drop_jobs();
    run.db.checkpoint().unwrap();
    let snapshots = run.db.snapshots().count();
    let ingested = run.db.stats().file_count;
    while run.db.snapshots().filter(|(_, snapshot)| !snapshot.is_made()).count() == 0
        || run.db.stats().file_count == ingested
    {
        run.step_records(&mut rng).unwrap();
    }
    run.db.write().unwrap();
    let disk = disk.crash_process();
    run = Run::new(open(&disk).unwrap().0);
    work(&mut run, &mut rng, 3);
    assert!(snapshots == 3 && run.db.snapshots().any(|(_, snapshot)| snapshot.is_made()));
    run.db.freeze().unwrap();
    work(&mut run, &mut rng, 5);
    let model = run.world().clone();
    let files = disk.files();
    let count = |prefix| files.keys().filter(|name| name.starts_with(prefix)).count();
    assert!(count("idx-") > 3);
    assert_eq!(count("log-"), 3);
    assert!(model.indices[0].len() > 20);
    (files, model)
}

pub enum Outcome {
    Refused(ReadError),
    Read(World),
}

pub fn read_all(disk: &MemDisk) -> Outcome {
    let opened = open(disk).map(|(db, _): (Db, _)| {
        let all = world(&db);
        // Lookups reach these blocks by another path.
        for key in all.iter().flat_map(|world| &world.indices[0]) {
            assert_eq!(db.get(key.0).unwrap().as_deref(), Some(&key.1[..]));
        }
        all
    });
    match opened {
        Err(OpenError::Read(error)) | Ok(Err(error)) => Outcome::Refused(error),
        Ok(Ok(model)) => Outcome::Read(model),
    }
}

/// Asserts that damage to the file `changed` is reported, or has no effect.
pub fn assert_found_or_harmless(files: &Files, model: &World, changed: &str, context: &str) {
    let disk = disk_of(files);
    let report = babu::check_deep(&disk).unwrap();
    match read_all(&disk) {
        Outcome::Read(found) => {
            assert!(&found == model, "{context}: a wrong answer");
        }
        Outcome::Refused(ReadError::Damaged(damage)) => {
            assert_eq!(damage.file, changed, "{context}: {damage}");
            assert!(!report.is_clean(), "{context}: {damage}, but the check found nothing");
            assert!(report.damage.iter().any(|d| d.file == changed), "{context}");
        }
        Outcome::Refused(error) => panic!("{context}: {error}"),
    }
}
