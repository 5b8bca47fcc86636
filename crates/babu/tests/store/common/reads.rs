//! Random operations on a database, compared with a sorted map.

use babu::MemDisk;
use fastrand::Rng;

use super::{Run, open, some_key, world};

fn compare_reads(run: &mut Run, rng: &mut Rng) {
    run.db.settle();
    let run = &*run;
    let model = run.model();
    assert_eq!(&world(&run.db).unwrap(), run.world(), "all that is read");
    for _ in 0..5 {
        let key = some_key(rng);
        let found = run.db.get(&key).unwrap();
        assert_eq!(found.as_deref(), model.get(&key).map(|v| &v[..]), "read of {key:?}");
        let (a, b) = (some_key(rng), some_key(rng));
        let (from, to) = (a.clone().min(b.clone()), a.max(b));
        let scanned: Vec<_> =
            run.db.scan(&from, Some(&to)).map(|entry| entry.unwrap().0.to_vec()).collect();
        let expected: Vec<_> =
            model.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
        assert_eq!(scanned, expected, "scan of {from:?}..{to:?}");
        let prefix = &from[..rng.usize(..from.len() + 1)];
        let scanned = run.db.prefix(prefix).count();
        let expected = model.keys().filter(|key| key.starts_with(prefix)).count();
        assert_eq!(scanned, expected, "{prefix:?}");
        let next = run.db.scan(&from, None).next().map(|e| e.unwrap().0.to_vec());
        assert_eq!(next.as_ref(), model.range(from..).next().map(|(key, _)| key));
    }
}

/// Asserts that reads agree with the map, whichever layer holds the key.
pub fn agree(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut disk = MemDisk::new();
    let mut run = Run::new(open(&disk).unwrap().0);
    for step in 0..150 {
        run.step(&mut rng).unwrap();
        if rng.usize(..60) == 0 {
            // A restart keeps all that was written.
            let written = run.db.write().unwrap();
            let expected = run.world().clone();
            let batches = run.batches.clone();
            let states = run.states.clone();
            disk = disk.crash_process();
            let (db, recovered) = open(&disk).unwrap();
            assert_eq!(recovered.last_lsn, written);
            assert_eq!(recovered.torn, None);
            run = Run::new(db);
            run.batches = batches;
            run.states = states;
            assert_eq!(run.world(), &expected);
        }
        if step % 10 == 9 {
            compare_reads(&mut run, &mut rng);
        }
    }
    run.db.write().unwrap();
    let report = babu::check_deep(&disk).unwrap();
    assert!(report.is_clean(), "{report:?}");
}
