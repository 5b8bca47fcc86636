//! Shows the calls one after the other: changes, reads, a snapshot, a checkpoint, an ingested run,
//! a restart.
//!
//! Argument: FOLDER (default: a temporary one, removed in the end).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use babu::{Batch, Db, Definition, Options, Priority, RealDisk, RunError, Selection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let folder = given
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("babu-tour-{}", std::process::id())));
    tour(&folder)?;
    if given.is_none() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Runs the whole tour in a folder.
pub fn tour(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (mut db, recovered) = Db::open(Arc::new(RealDisk::open(folder)?), Options::default())?;
    println!("opened {}: epoch {}", folder.display(), recovered.epoch);

    // An insert group goes to reserved log space, to memory, to the kernel, then to the disk.
    let mut batch = Batch::new();
    batch.put(b"fruit/apple", b"red");
    batch.put(b"fruit/pear", b"green");
    batch.put(b"stone/opal", b"milky");
    db.reserve(batch.log_bytes(0), Priority::Normal)?;
    db.apply(&batch, b"");
    let lsn = db.write()?;
    db.syncer().sync_to(lsn)?;

    // A snapshot of a part, then a change.
    if db.find_snapshot("fruit").is_none() {
        let part = Definition { selection: Selection::prefix(b"fruit/"), ..Definition::all() };
        db.snapshot("fruit", part)?;
    }
    batch.clear();
    batch.delete_range(b"fruit/", b"fruit0");
    db.apply(&batch, b"");
    for entry in db.prefix(b"fruit/") {
        println!("not to be seen: {:?}", entry?);
    }

    // A checkpoint in the background.
    db.freeze()?;
    if let Some(job) = db.checkpoint_job() {
        let done =
            std::thread::spawn(move || job.run()).join().map_err(|_| "the job panicked")??;
        println!("checkpoint of {} entries", done.entries());
        db.install(done).remove()?;
    }

    // Many entries at once, into another index.
    let numbers = db.index("numbers")?;
    let run = db.ingestion().write(|files| {
        (0..1000u32).try_for_each(|number| files.put(&number.to_be_bytes(), b"value"))?;
        Ok::<_, RunError>(())
    })?;
    db.ingest(numbers, run, b"")?;
    db.write()?;
    drop(db);

    let (db, recovered) = Db::open(Arc::new(RealDisk::open(folder)?), Options::default())?;
    println!("opened again: {} groups replayed", recovered.groups_replayed);
    println!("{} numbers", db.scan_in(numbers, b"", None).count());
    let snapshot = db.find_snapshot("fruit").ok_or("the snapshot is gone")?;
    for entry in snapshot.view().scan(b"", None) {
        let (key, value) = entry?;
        println!("in the snapshot: {} is {}", key.escape_ascii(), value.escape_ascii());
    }
    Ok(())
}
