//! The scrub: it finds damage within one pass, tells it once, and meets changes of the files.

use babu::{Batch, Definition, MemDisk};
use fastrand::Rng;

use crate::common::scrubs::{finds, flip, index_files, open, pass, put, step};

#[test]
fn damage_is_found_within_one_pass_whatever_checkpoints_and_merges_do() {
    let seeds = if std::env::var_os("PANDO_LONG").is_some() { 500 } else { 40 };
    let found: usize = (0..seeds).map(finds).sum();
    assert!(found > 40, "{found}");
}

#[test]
fn a_pass_reads_every_file_once_and_finds_any_altered_byte() {
    let mut rng = Rng::with_seed(1);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, &mut rng, 0..40);
    db.checkpoint().unwrap();
    let [name] = &index_files(&disk)[..] else { panic!("more than one file") };
    let len = disk.files()[name].len() as u64;
    for bytes in [1, 700, 1 << 20] {
        let mut read = 0;
        loop {
            let step = step(&mut db, bytes).unwrap();
            read += step.bytes;
            if step.has_ended {
                break;
            }
            let stats = db.scrub_stats();
            assert_eq!((stats.read_bytes, stats.left_bytes), (read, len - 32 - read));
        }
        // The header is read, too, and does not count.
        assert_eq!(read, len - 32);
    }
    for at in 0..len {
        flip(&disk, name, at);
        let known = db.scrub_findings().count();
        assert_eq!(known, 0, "mended damage is forgotten");
        let found = pass(&mut db, 1000);
        assert_eq!(found.len(), 1, "{at}: {found:?}");
        assert_eq!(&found[0].file, name);
        assert_eq!(db.scrub_stats().damaged, 1);
        assert!(found[0].to_string().contains("affected are the keys from"), "{}", found[0]);
        assert!(pass(&mut db, 1000).is_empty(), "told twice");
        assert_eq!(db.scrub_findings().count(), 1);
        flip(&disk, name, at);
        pass(&mut db, 1000);
    }
}

#[test]
fn a_scrub_takes_no_block_into_the_cache_and_none_out_of_it() {
    let mut rng = Rng::with_seed(2);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, &mut rng, 0..2000);
    db.checkpoint().unwrap();
    for number in 0..300u32 {
        db.get(&number.to_be_bytes()).unwrap();
    }
    let before = db.stats();
    assert!(before.cache_bytes > 0);
    assert!(pass(&mut db, 4096).is_empty());
    let after = db.stats();
    assert_eq!(before.cache_bytes, after.cache_bytes);
    assert_eq!(before.reads, after.reads);
}

#[test]
fn files_of_snapshots_are_read_and_findings_go_with_their_file() {
    let mut rng = Rng::with_seed(3);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, &mut rng, 0..500);
    db.snapshot("s", Definition::default()).unwrap();
    db.checkpoint().unwrap();
    let old = index_files(&disk);
    put(&mut db, &mut rng, 0..500);
    db.checkpoint().unwrap();
    flip(&disk, &old[0], 50);
    let found = pass(&mut db, 9000);
    assert_eq!(found.iter().map(|damage| &damage.file).collect::<Vec<_>>(), [&old[0]]);
    assert_eq!(db.passed_over().count(), 0, "the scrub only tells");
    db.drop_snapshot("s").unwrap();
    db.checkpoint().unwrap();
    assert!(!index_files(&disk).contains(&old[0]));
    assert!(pass(&mut db, 9000).is_empty());
    assert_eq!(db.scrub_findings().count(), 0);
}

#[test]
fn a_pass_ends_although_files_are_made_all_the_time_and_goes_on_after_an_opening() {
    let mut rng = Rng::with_seed(4);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    assert!(step(&mut db, 1).is_none(), "there is nothing to read");
    put(&mut db, &mut rng, 0..2000);
    db.checkpoint().unwrap();
    let total = db.scrub_bytes();
    let mut read = 0;
    for round in 0.. {
        // More is written than is read.
        put(&mut db, &mut rng, 0..100);
        db.checkpoint().unwrap();
        let step = step(&mut db, 2000).unwrap();
        read += step.bytes;
        if step.has_ended {
            break;
        }
        if round == 3 {
            assert_eq!(db.scrub_mark(), 0);
            db.scrub_note(1).write().unwrap();
            db.scrub_note(7).write().unwrap();
            drop(db);
            db = open(&disk);
            assert_eq!((db.scrub_stats().read_bytes, db.scrub_mark()), (read, 7));
        }
    }
    assert!(read > 0 && read <= total, "{read} of {total}");
    assert_eq!(db.scrub_stats().passes, 1);
    // A note that is damaged, or of another database, is as good as none.
    db.scrub_note(9).write().unwrap();
    drop(db);
    flip(&disk, "SCRUB", 48);
    assert_eq!(open(&disk).scrub_mark(), 0);
}

#[test]
fn a_pass_whose_last_files_go_has_ended() {
    let mut rng = Rng::with_seed(5);
    let disk = MemDisk::new();
    let mut db = open(&disk);
    put(&mut db, &mut rng, 0..500);
    db.checkpoint().unwrap();
    assert!(!step(&mut db, 1000).unwrap().has_ended);
    let mut batch = Batch::new();
    batch.delete_range(&[], &[0xff; 5]);
    db.apply(&batch, b"");
    db.checkpoint().unwrap();
    assert!(step(&mut db, 1000).is_none());
    assert_eq!(db.scrub_stats().passes, 1);
    put(&mut db, &mut rng, 0..10);
    db.checkpoint().unwrap();
    assert!(step(&mut db, 1 << 20).unwrap().has_ended);
}
