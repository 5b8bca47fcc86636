//! The paper's promises, a test for each (Stender, Kolbeck, Högqvist: *BabuDB*, 2010). Other tests
//! check that they hold together, under crashes and beside all other work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use babu::{Batch, Db, Definition, IndexId, MemDisk, Options, Part, Pattern, Selection};

use crate::common::small_options;

/// Everything in one file and one level, in blocks of a few records.
fn options() -> Options {
    Options { block_bytes: 256, file_bytes: 1 << 20, cache_bytes: 0, ..small_options() }
}

fn open(disk: &MemDisk) -> (Db, babu::Recovered) {
    Db::open(Arc::new(disk.clone()), options()).unwrap()
}

/// The key of a name in a directory (§III.A: all entries of a directory have a common prefix).
fn key(directory: u8, name: u32) -> Vec<u8> {
    [&[directory; 16][..], &name.to_be_bytes()].concat()
}

fn put(db: &mut Db, directory: u8, names: impl IntoIterator<Item = u32>, value: &[u8]) {
    for name in names {
        let mut batch = Batch::new();
        batch.put(&key(directory, name), value);
        db.apply(&batch, b"");
    }
}

fn delete(db: &mut Db, directory: u8, name: u32) {
    let mut batch = Batch::new();
    batch.delete(&key(directory, name));
    db.apply(&batch, b"");
}

fn get(db: &Db, directory: u8, name: u32) -> Option<Vec<u8>> {
    db.get(&key(directory, name)).unwrap().map(|value| value.to_vec())
}

/// Names and values in a directory.
fn list(db: &Db, directory: u8) -> Vec<(u32, Vec<u8>)> {
    let entry = |entry: Result<(babu::Key, babu::Value<'_>), _>| {
        let (key, value) = entry.unwrap();
        (u32::from_be_bytes(key[16..].try_into().unwrap()), value.to_vec())
    };
    db.prefix(&[directory; 16]).map(entry).collect()
}

#[test]
fn a_lookup_goes_from_the_newest_tree_to_the_index_on_disk_and_the_newest_record_wins() {
    // §II.A, "Overview", figure 1.
    let (mut db, _) = open(&MemDisk::new());
    put(&mut db, 1, 0..4, b"on disk");
    db.checkpoint().unwrap();
    put(&mut db, 1, 1..4, b"frozen first");
    db.freeze().unwrap();
    put(&mut db, 1, 2..4, b"frozen last");
    db.freeze().unwrap();
    put(&mut db, 1, 3..4, b"active");
    assert_eq!((db.stats().frozen_count, db.stats().file_count), (2, 1));
    let found: Vec<_> = (0..5).map(|name| get(&db, 1, name)).collect();
    let expected =
        [Some("on disk"), Some("frozen first"), Some("frozen last"), Some("active"), None];
    assert_eq!(found, expected.map(|value| value.map(|value| value.as_bytes().to_vec())));
}

#[test]
fn a_tombstone_hides_older_records_and_ends_the_lookup() {
    // §II.A, "Record Deletion".
    let (mut db, _) = open(&MemDisk::new());
    put(&mut db, 1, 0..3, b"on disk");
    db.checkpoint().unwrap();
    put(&mut db, 1, [1], b"frozen");
    delete(&mut db, 1, 0);
    db.freeze().unwrap();
    delete(&mut db, 1, 1);
    let asked = db.stats().reads;
    assert_eq!((get(&db, 1, 0), get(&db, 1, 1)), (None, None));
    assert_eq!(db.stats().reads, asked, "a tombstone in memory is the answer: no file is asked");
    assert_eq!(list(&db, 1), [(2, b"on disk".to_vec())]);
    // A record that is newer than the tombstone is found.
    put(&mut db, 1, [1], b"again");
    assert_eq!(get(&db, 1, 1).as_deref(), Some(&b"again"[..]));
    // A tombstone that hides nothing is not kept.
    db.checkpoint().unwrap();
    assert_eq!(db.stats().index_entries, 2);
}

#[test]
fn a_prefix_lookup_merges_all_trees_in_ascending_order_and_the_newest_record_wins() {
    // §II.A, "Prefix Lookups".
    let (mut db, _) = open(&MemDisk::new());
    put(&mut db, 1, (0..100).step_by(3), b"old");
    put(&mut db, 0, 0..10, b"before");
    db.checkpoint().unwrap();
    put(&mut db, 1, (0..100).step_by(2), b"frozen");
    put(&mut db, 2, 0..10, b"behind");
    db.freeze().unwrap();
    put(&mut db, 1, (0..100).step_by(5), b"new");
    delete(&mut db, 1, 6);
    let expected: Vec<_> = (0..100u32)
        .filter(|&name| name != 6)
        .filter_map(|name| {
            let value: &[u8] = match name {
                _ if name % 5 == 0 => b"new",
                _ if name % 2 == 0 => b"frozen",
                _ if name % 3 == 0 => b"old",
                _ => return None,
            };
            Some((name, value.to_vec()))
        })
        .collect();
    assert_eq!(list(&db, 1), expected);
}

#[test]
fn the_list_of_blocks_is_in_memory_so_that_a_cold_lookup_is_one_read() {
    // §II.A, "On-Disk Index", figure 2: "each lookup requires at most one disk seek".
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    put(&mut db, 1, 0..5000, b"value");
    db.checkpoint().unwrap();
    drop(db);
    let (db, _) = open(&disk);
    assert!(db.stats().resident_bytes > 0);
    let before = db.stats().reads;
    for name in (0..5000).step_by(7) {
        let reads = db.stats().reads.block_reads;
        assert_eq!(get(&db, 1, name).as_deref(), Some(&b"value"[..]));
        assert!(db.stats().reads.block_reads <= reads + 1, "name {name}");
    }
    let after = db.stats().reads;
    let (lookups, reads) = (5000u64.div_ceil(7), after.block_reads - before.block_reads);
    assert!(reads > 0 && reads + after.block_hits - before.block_hits == lookups);
    let bytes = after.block_read_bytes - before.block_read_bytes;
    assert!(bytes <= reads * 512, "{bytes} in {reads} reads: each of one small block");
}

#[test]
fn changes_and_reads_go_on_during_a_checkpoint_and_the_log_is_cut_after_it() {
    // §II.B: checkpoints "are initiated without interfering with regular database operations"; "to
    // truncate the operations log".
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    put(&mut db, 1, 0..2000, b"before");
    db.write().unwrap();
    let log = db.log_bytes();
    db.freeze().unwrap();
    let job = db.checkpoint_job().unwrap();
    put(&mut db, 1, [7, 5000], b"meanwhile");
    delete(&mut db, 1, 8);
    let done = std::thread::spawn(move || job.run()).join().unwrap().unwrap();
    put(&mut db, 1, [9], b"meanwhile");
    assert_eq!(get(&db, 1, 10).as_deref(), Some(&b"before"[..]));
    db.install(done).remove().unwrap();
    let check = |db: &Db| {
        let found = [7, 8, 9, 10, 5000].map(|name| get(db, 1, name));
        let expected =
            [Some("meanwhile"), None, Some("meanwhile"), Some("before"), Some("meanwhile")];
        assert_eq!(found, expected.map(|value| value.map(|value| value.as_bytes().to_vec())));
    };
    check(&db);
    db.write().unwrap();
    assert!(db.log_bytes() < log / 10, "{} of {log} bytes", db.log_bytes());
    drop(db);
    let (db, recovered) = open(&disk.crash_process());
    assert_eq!(recovered.groups_replayed, 4, "only what came after the snapshot is replayed");
    check(&db);
}

#[test]
fn a_snapshot_in_memory_is_there_at_once_and_never_changes() {
    // §II.A, "Snapshots": the active tree is made immutable, and a new one takes its place.
    let (mut db, _) = open(&MemDisk::new());
    put(&mut db, 1, 0..100, b"then");
    let written = db.stats().writes;
    let view = db.view();
    assert_eq!(db.stats().writes, written, "it costs no write");
    put(&mut db, 1, 50..150, b"now");
    delete(&mut db, 1, 0);
    db.checkpoint().unwrap();
    let seen: Vec<_> = view.prefix(&[1; 16]).map(|entry| entry.unwrap().1.to_vec()).collect();
    assert_eq!(seen, vec![b"then".to_vec(); 100]);
    assert_eq!((list(&db, 1).len(), get(&db, 1, 50)), (149, Some(b"now".to_vec())));
}

#[test]
fn a_persistent_snapshot_survives_checkpoints_and_restarts_also_one_before_its_checkpoint() {
    // §II.C: "a log entry recording the snapshot creation is appended to the operations log".
    let mut disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    put(&mut db, 1, 0..50, b"monday");
    db.snapshot("monday", Definition::all()).unwrap();
    put(&mut db, 1, 0..10, b"tuesday");
    db.write().unwrap();
    let check = |db: &Db| {
        let snapshot = db.find_snapshot("monday").unwrap();
        let seen: Vec<_> =
            snapshot.view().prefix(&[1; 16]).map(|entry| entry.unwrap().1.to_vec()).collect();
        assert_eq!(seen, vec![b"monday".to_vec(); 50]);
        assert_eq!(get(db, 1, 0).as_deref(), Some(&b"tuesday"[..]));
    };
    drop(db);
    // Restart between snapshot and checkpoint first, then after checkpoints.
    for _ in 0..3 {
        disk = disk.crash_process();
        let (mut db, _) = open(&disk);
        check(&db);
        db.checkpoint().unwrap();
        check(&db);
        put(&mut db, 2, 0..10, b"more");
        db.write().unwrap();
    }
}

#[test]
fn a_partial_snapshot_has_only_what_its_prefixes_or_patterns_match() {
    // §II.C, §III.D: "snapshots of single directories can be easily created".
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    (0..10).for_each(|directory| put(&mut db, directory, 0..100, &[directory; 40]));
    let one = Selection::prefix(&[3; 16]);
    db.snapshot("a directory", Definition { selection: one, ..Definition::all() }).unwrap();
    let pattern = Pattern::parts([Part::Any(16), Part::Bytes(vec![0, 0, 0, 7])]);
    let name = Selection::of([pattern]);
    db.snapshot("a name", Definition { selection: name, ..Definition::all() }).unwrap();
    db.checkpoint().unwrap();
    let whole = db.stats().index_bytes;
    let kept = db.stats().file_bytes - whole;
    assert!(kept < whole / 5, "{kept} beside {whole}: only what matches is written");
    drop(db);
    let (db, _) = open(&disk.crash_process());
    let keys = |snapshot: &str| -> Vec<Vec<u8>> {
        let view = db.find_snapshot(snapshot).unwrap().view();
        view.scan(b"", None).map(|entry| entry.unwrap().0.to_vec()).collect()
    };
    assert_eq!(keys("a directory"), (0..100).map(|name| key(3, name)).collect::<Vec<_>>());
    assert_eq!(keys("a name"), (0..10).map(|directory| key(directory, 7)).collect::<Vec<_>>());
}

#[test]
fn many_readers_read_snapshots_while_one_writer_writes() {
    // §II.D: "lookups can be executed in parallel. Snapshots are immutable and can always be
    // accessed independently".
    let (mut db, _) = open(&MemDisk::new());
    put(&mut db, 1, 0..500, &0u32.to_be_bytes());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for round in 1..=20u32 {
            let view = db.view();
            let done = &done;
            readers.push(scope.spawn(move || {
                let mut reads = 0;
                // Read all at least once, then as long as the writer writes.
                while reads == 0 || !done.load(Ordering::Relaxed) && reads < 50 {
                    let expected = (round - 1).to_be_bytes();
                    let entries = view.prefix(&[1; 16]).map(|entry| entry.unwrap());
                    assert_eq!(entries.filter(|(_, value)| value[..] == expected).count(), 500);
                    reads += 1;
                }
            }));
            // A round is one group, so no reader sees a part of it.
            let mut batch = Batch::new();
            (0..500).for_each(|name| batch.put(&key(1, name), &round.to_be_bytes()));
            db.apply(&batch, b"");
            if round % 7 == 0 {
                db.checkpoint().unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn an_insert_group_is_one_entry_of_the_log_and_is_replayed_as_a_whole_or_not_at_all() {
    // §II.D, §III.C: a rename is an atomic deletion and insertion. It may span several indices.
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    let links = db.index("links").unwrap();
    put(&mut db, 1, [1], b"file");
    db.write().unwrap();
    let before = db.applied_lsn();
    let start = db.log_bytes();
    let mut batch = Batch::new();
    batch.delete(&key(1, 1));
    batch.put(&key(2, 9), b"link");
    batch.put_in(links, b"ino", b"file");
    let lsn = db.apply(&batch, b"");
    db.write().unwrap();
    assert_eq!(lsn.0, before.0 + 1, "one group, one entry");
    let end = db.log_bytes();
    let groups: Vec<_> = db.log_groups_from(lsn).unwrap().map(|group| group.unwrap().lsn).collect();
    assert_eq!(groups, [lsn]);
    drop(db);

    // After a loss of power, the log may end at any byte of the group.
    let files = disk.files();
    let (name, log) = files.iter().rfind(|(name, _)| name.starts_with("log-")).unwrap();
    let group = 4096 + start as usize;
    assert_eq!(log[group..group + 2], [0xBA, 0xB2]);
    let length = (end - start) as usize;
    assert!(length > 64 && group + length <= log.len());
    for cut in 0..=length {
        let mut torn = log.clone();
        torn[group + cut..].fill(0);
        let whole = log[group + cut..].iter().all(|&byte| byte == 0);
        let others = files.iter().filter(|(other, _)| *other != name);
        let all = others.map(|(name, bytes)| (name.as_str(), &bytes[..]));
        let disk = MemDisk::with_files(all.chain([(name.as_str(), &torn[..])]));
        let (db, _) = open(&disk);
        let link = db.get_in(links, b"ino").unwrap().map(|value| value.to_vec());
        let state = (get(&db, 1, 1), get(&db, 2, 9), link);
        let expected = match whole {
            true => (None, Some(b"link".to_vec()), Some(b"file".to_vec())),
            false => (Some(b"file".to_vec()), None, None),
        };
        assert_eq!(state, expected, "cut after {cut} of {length} bytes");
    }
}

#[test]
fn a_database_has_several_indices_which_do_not_see_each_other() {
    // §II.A: "a database consists of indices". §III.B keeps hard links in an index of their own.
    let disk = MemDisk::new();
    let (mut db, _) = open(&disk);
    let second = db.index("second").unwrap();
    let mut batch = Batch::new();
    batch.put(b"key", b"first");
    batch.put_in(second, b"key", b"second");
    batch.delete_range_in(second, b"a", b"b");
    db.apply(&batch, b"");
    let check = |db: &Db| {
        let of = |index: IndexId| db.get_in(index, b"key").unwrap().map(|value| value.to_vec());
        assert_eq!(of(IndexId::DEFAULT).as_deref(), Some(&b"first"[..]));
        assert_eq!(of(db.find_index("second").unwrap()).as_deref(), Some(&b"second"[..]));
    };
    check(&db);
    db.checkpoint().unwrap();
    check(&db);
    drop(db);
    let (mut db, _) = open(&disk.crash_process());
    check(&db);
    let mut batch = Batch::new();
    batch.delete_in(second, b"key");
    db.apply(&batch, b"");
    assert_eq!(db.scan_in(second, b"", None).count(), 0);
    assert_eq!(db.scan(b"", None).count(), 1);
}
