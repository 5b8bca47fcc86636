//! Creates per second: look a key up that is absent, put it, log it. Prints JSON.
//!
//! Arguments: FOLDER (default: a temporary one), number of creates (default 1,000,000).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use babu::{Batch, Db, Options, RealDisk};

const SYNCS: u64 = 2000;
const RECORDS_PER_DIRECTORY: u64 = 1000;

/// Directory id (16, scattered) ‖ kind ‖ order (8, scattered), as a file system's keys are.
fn key(number: u64) -> [u8; 25] {
    let scatter = |number: u64| {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let directory = number / RECORDS_PER_DIRECTORY;
    let mut key = [0; 25];
    key[..8].copy_from_slice(&scatter(directory).to_be_bytes());
    key[8..16].copy_from_slice(&scatter(!directory).to_be_bytes());
    key[16] = 1;
    key[17..].copy_from_slice(&scatter(number).to_be_bytes());
    key
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("babu-create-rate-{}", std::process::id())),
        PathBuf::from,
    );
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let value = [7u8; 80];
    let mut lines = Vec::new();
    for ops_per_write in [1u64, 64] {
        let folder = folder.join(format!("by-{ops_per_write}"));
        let disk = Arc::new(RealDisk::open(&folder)?);
        let (mut db, _) = Db::open(disk, Options::default())?;
        let mut batch = Batch::new();
        let start = Instant::now();
        for number in 0..count {
            let key = key(number);
            assert!(db.get(&key)?.is_none());
            batch.clear();
            batch.put(&key, &value);
            db.apply(&batch, b"session, sequence");
            if number % ops_per_write == ops_per_write - 1 {
                db.write()?;
            }
        }
        db.write()?;
        let create = rate(count, start);
        let tree_bytes = db.tree_bytes();

        let start = Instant::now();
        for number in 0..count {
            assert!(db.get(&key(number))?.is_some());
        }
        let hit = rate(count, start);
        let start = Instant::now();
        let scanned = db.scan(b"", None).count() as u64;
        let scan = rate(scanned, start);

        let syncer = db.syncer();
        syncer.sync()?;
        let start = Instant::now();
        for number in 0..SYNCS {
            batch.clear();
            batch.put(&key(count + number), &value);
            db.apply(&batch, b"session, sequence");
            db.write()?;
            syncer.sync()?;
        }
        let sync = rate(SYNCS, start);

        let start = Instant::now();
        db.checkpoint()?;
        let checkpoint = rate(count, start);
        let index_bytes = db.stats().index_bytes;
        let start = Instant::now();
        let scanned = db.scan(b"", None).count() as u64;
        let index_scan = rate(scanned, start);
        let start = Instant::now();
        for number in (0..count).step_by(10) {
            assert!(db.get(&key(number))?.is_some());
        }
        let index_hit = rate(count / 10, start);
        lines.push(format!(
            "{{\"ops_per_write\":{ops_per_write},\"creates\":{count},\"creates_per_second\":{create},\
             \"hits_per_second\":{hit},\"scanned_per_second\":{scan},\"syncs_per_second\":{sync},\"tree_bytes\":{tree_bytes},\
             \"checkpointed_per_second\":{checkpoint},\"index_bytes\":{index_bytes},\
             \"index_scanned_per_second\":{index_scan},\"index_hits_per_second\":{index_hit}}}"
        ));
        drop(db);
        std::fs::remove_dir_all(&folder)?;
    }
    println!("[{}]", lines.join(",\n "));
    Ok(())
}

fn rate(count: u64, start: Instant) -> u64 {
    (count as f64 / start.elapsed().as_secs_f64()) as u64
}
