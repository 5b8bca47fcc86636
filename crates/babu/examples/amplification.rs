//! Measures the cost of a steady random load: bytes written for bytes changed, blocks read for a
//! lookup, bytes on disk for live bytes.
//!
//! Records are changed at random, all equally often, until the cost has settled. Arguments: FOLDER
//! (created, and removed in the end), RECORDS (default 1,000,000).

use std::sync::Arc;

use babu::{Batch, Db, Disk, Options, RealDisk};

type Error = Box<dyn std::error::Error>;

/// Results of the measurement.
#[derive(Debug)]
pub struct Figures {
    /// Changes for each record until the cost had settled.
    pub rounds: usize,
    /// Bytes written to log and index files for each byte changed, at the end.
    pub write: f64,
    /// Bytes of index files for each byte of live keys and values, at the end.
    pub space: f64,
    /// Blocks read from the disk for a lookup of a key that exists, with an empty cache.
    pub present: f64,
    /// Blocks read from the disk for a lookup of an absent key, with an empty cache.
    pub absent: f64,
    /// Memory of filters and block lists in bytes, for each record.
    pub resident: f64,
}

/// A pseudo-random number.
fn scatter(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 32
}

/// Directory (16 bytes) ‖ kind ‖ order (8 bytes), with a thousand names in each directory.
fn key(number: u64) -> [u8; 25] {
    let mut key = [b'e'; 25];
    let directory = scatter(number / 1000);
    key[..8].copy_from_slice(&directory.to_be_bytes());
    key[8..16].copy_from_slice(&scatter(directory).to_be_bytes());
    key[17..].copy_from_slice(&scatter(number | 1 << 60).to_be_bytes());
    key
}

/// A value of 64 to 100 bytes, half of which do not compress.
fn value(number: u64, change: u64, out: &mut Vec<u8>) {
    out.clear();
    let mut random = scatter(number ^ change << 32);
    out.resize(64 + (random % 37) as usize, 0);
    for piece in out.chunks_mut(16) {
        random = scatter(random);
        let len = piece.len().min(8);
        piece[..len].copy_from_slice(&random.to_le_bytes()[..len]);
    }
}

/// Changes each record once on average, with checkpoints as trees grow. Returns bytes written for
/// each byte changed.
fn round(db: &mut Db, records: u64, changes: &mut u64) -> Result<f64, Error> {
    let before = db.stats().writes;
    let (mut batch, mut bytes) = (Batch::new(), Vec::new());
    for _ in 0..records {
        *changes += 1;
        let number = scatter(*changes) % records;
        value(number, *changes, &mut bytes);
        batch.put(&key(number), &bytes);
        if batch.len() == 64 {
            db.apply(&batch, b"");
            db.write()?;
            batch.clear();
            // Checkpoint when the tree has a 16th of the data. A smaller tree would have to go
            // through more levels.
            if db.tree_bytes() as u64 >= records * 100 / 16 {
                db.checkpoint()?;
            }
        }
    }
    db.apply(&batch, b"");
    db.checkpoint()?;
    Ok(db.stats().writes.since(&before).amplification().unwrap_or_default())
}

fn options(records: u64, cache_bytes: usize) -> Options {
    // As many files as a database of many gigabytes has with default sizes.
    let file_bytes = (records * 100 / 64).clamp(64 << 10, 32 << 20);
    Options { file_bytes, filter_prefix_bytes: 25, cache_bytes, ..Options::default() }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Measures on an empty disk, which `reach` opens.
pub fn measure(
    reach: &dyn Fn() -> std::io::Result<Arc<dyn Disk>>,
    records: u64,
) -> Result<Figures, Error> {
    const WINDOW: usize = 4;
    const MAX_ROUNDS: usize = 60;
    let open = |cache_bytes| -> Result<Db, Error> {
        Ok(Db::open(reach()?, options(records, cache_bytes))?.0)
    };
    let mut db = open(64 << 20)?;
    let (mut batch, mut bytes) = (Batch::new(), Vec::new());
    for number in 0..records {
        value(number, 0, &mut bytes);
        batch.put(&key(number), &bytes);
        if batch.len() == 64 || number + 1 == records {
            db.apply(&batch, b"");
            db.write()?;
            batch.clear();
        }
    }
    db.checkpoint()?;
    let (mut writes, mut changes) = (Vec::new(), 0);
    let is_settled = |writes: &[f64]| {
        let Some(start) = writes.len().checked_sub(2 * WINDOW) else { return false };
        let (old, new) = writes[start..].split_at(WINDOW);
        (mean(old) / mean(new) - 1.0).abs() < 0.02
    };
    while !is_settled(&writes) && writes.len() < MAX_ROUNDS {
        writes.push(round(&mut db, records, &mut changes)?);
    }
    let mut live_bytes = 0;
    for entry in db.scan(b"", None) {
        let (key, value) = entry?;
        live_bytes += (key.len() + value.len()) as u64;
    }
    drop(db);
    let db = open(0)?;
    let stats = db.stats();
    let count = records.min(100_000);
    let reads = |present: bool| -> Result<f64, Error> {
        let before = db.stats().reads.block_reads;
        for probe in 0..count {
            let number = scatter(probe) % records + if present { 0 } else { records };
            let mut key = key(number);
            if !present {
                // An absent name in a directory that exists.
                key[..16].copy_from_slice(&self::key(number - records)[..16]);
            }
            if db.get(&key)?.is_some() != present {
                return Err("a lookup has the wrong answer".into());
            }
        }
        Ok((db.stats().reads.block_reads - before) as f64 / count as f64)
    };
    Ok(Figures {
        rounds: writes.len(),
        write: mean(&writes[writes.len().saturating_sub(WINDOW)..]),
        space: stats.file_bytes as f64 / live_bytes as f64,
        present: reads(true)?,
        absent: reads(false)?,
        resident: stats.resident_bytes as f64 / records as f64,
    })
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("arguments: FOLDER [RECORDS]")?;
    let records = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    std::fs::create_dir(&folder)?;
    let figures = measure(&|| Ok(Arc::new(RealDisk::open(&folder)?)), records);
    std::fs::remove_dir_all(&folder)?;
    let figures = figures?;
    println!("settled after {} changes of each record", figures.rounds);
    println!("bytes written for a byte changed:    {:.2}", figures.write);
    println!("index bytes for a live byte:         {:.2}", figures.space);
    println!("blocks read for a lookup, present:   {:.3}", figures.present);
    println!("blocks read for a lookup, absent:    {:.3}", figures.absent);
    println!("resident memory for a record, bytes: {:.2}", figures.resident);
    Ok(())
}
