//! A database that an earlier version wrote. Every later version must open it.
//!
//! `BABU_WRITE_FIXTURE=FOLDER cargo test -p babu --test store fixture` writes a new one. Committed
//! fixtures are never written again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use babu::{Db, MemDisk, Options};
use fastrand::Rng;

use crate::common::{Model, Run, World, small_options, world};

/// File with the content of the fixture, a line for each entry.
const EXPECTED: &str = "expected.txt";

fn options() -> Options {
    Options { log_chunk_bytes: 4096, reserve_bytes: 0, file_bytes: 600, ..small_options() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(world: &World) -> String {
    let mut text = String::new();
    let mut add = |of: &str, models: &[Model]| {
        for (position, model) in models.iter().enumerate() {
            for (key, value) in model {
                text.push_str(&format!("{of} {position} {} {}\n", hex(key), hex(value)));
            }
        }
    };
    add("present", &world.indices);
    for (name, models) in &world.snapshots {
        add(name, models);
    }
    text
}

fn write(folder: &Path) {
    let disk = MemDisk::new();
    let mut rng = Rng::with_seed(2026);
    let mut run = Run::new(Db::open(Arc::new(disk.clone()), options()).unwrap().0);
    let is_done = |run: &Run| {
        let stats = run.db.stats();
        let made = run.db.snapshots().filter(|(_, snapshot)| snapshot.is_made()).count();
        let files: u64 = stats.levels.iter().map(|level| level.files).sum();
        run.world().indices.len() == 2
            && stats.levels.len() >= 2
            && stats.levels[1].tombstones > 0
            && made >= 2
            && run.db.snapshots().count() == 3
            && stats.file_count > files + 2
            && stats.active_bytes > 0
    };
    while !is_done(&run) {
        run.step(&mut rng).unwrap();
    }
    run.db.write().unwrap();
    run.db.syncer().sync().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(EXPECTED), lines(run.world())).unwrap();
    for (name, bytes) in disk.files() {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn a_database_written_by_format_version_2_is_read_and_goes_on() {
    if let Some(folder) = std::env::var_os("BABU_WRITE_FIXTURE") {
        write(Path::new(&folder));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-2");
    let mut files: BTreeMap<String, Vec<u8>> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    let expected = String::from_utf8(files.remove(EXPECTED).unwrap()).unwrap();
    for kind in ["MANIFEST", "log-", "idx-"] {
        assert!(files.keys().any(|name| name.starts_with(kind)), "{kind}");
    }
    let disk = MemDisk::with_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])));
    let report = babu::check_deep(&disk).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let (mut db, recovered) = Db::open(Arc::new(disk.clone()), options()).unwrap();
    assert!(recovered.groups_replayed > 0);
    assert!(db.stats().levels.len() >= 2);
    assert_eq!(lines(&world(&db).unwrap()), expected);
    db.checkpoint().unwrap();
    assert_eq!(lines(&world(&db).unwrap()), expected);
    let (db, _) = Db::open(Arc::new(disk.crash_process()), options()).unwrap();
    assert_eq!(lines(&world(&db).unwrap()), expected);
    assert!(babu::check_deep(&disk.crash_process()).unwrap().is_clean());
    drop(db);
}
