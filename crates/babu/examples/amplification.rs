//! Measures the cost of a steady random load: bytes written for bytes changed, blocks read for a
//! lookup, bytes on disk for live bytes.
//!
//! Records are changed at random, all equally often, until the cost has settled. Arguments: FOLDER
//! (created, and removed in the end), RECORDS (default 1,000,000), TIMES (data for each byte of
//! trees, default 10), GROUP (changes in a group, default 64).

use std::sync::Arc;

use babu::{Batch, Db, Disk, Options, RealDisk, WriteStats};

type Error = Box<dyn std::error::Error>;

/// Bytes of key and value of a record, on average.
const RECORD_BYTES: u64 = 107;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Number of records.
    pub records: u64,
    /// Bytes of records for each byte of the tree that a checkpoint takes over.
    pub times: u64,
    /// Changes in an insert group. Each log write has 64 changes.
    pub group: usize,
}

/// Results of the measurement.
#[derive(Debug)]
pub struct Figures {
    /// Changes for each record until the cost had settled.
    pub rounds: usize,
    /// Bytes written to log and index files for each byte changed, at the end.
    pub write: f64,
    /// Bytes of these that went to the log.
    pub log: f64,
    /// Most levels of files that there were, and that the lookups met.
    pub levels: usize,
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

/// A database under a random load.
struct Work {
    db: Db,
    load: Load,
    changes: u64,
    /// Most levels of files that were seen.
    most_levels: usize,
}

impl Work {
    /// Changes one record, and writes the log after every 64.
    fn change(&mut self, number: u64, batch: &mut Batch, bytes: &mut Vec<u8>) -> Result<(), Error> {
        value(number, self.changes, bytes);
        batch.put(&key(number), bytes);
        self.changes += 1;
        if batch.len() == self.load.group {
            self.db.apply(batch, b"");
            batch.clear();
        }
        if !self.changes.is_multiple_of(64) {
            return Ok(());
        }
        self.db.write()?;
        let memory = self.load.records * RECORD_BYTES / self.load.times;
        if self.db.tree_bytes() as u64 >= memory {
            self.db.checkpoint()?;
            self.most_levels = self.most_levels.max(self.levels());
        }
        Ok(())
    }

    fn levels(&self) -> usize {
        self.db.stats().levels.iter().filter(|level| level.files > 0).count()
    }

    /// Changes each record once on average, with checkpoints as trees grow.
    fn round(&mut self) -> Result<WriteStats, Error> {
        let before = self.db.stats().writes;
        let (mut batch, mut bytes) = (Batch::new(), Vec::new());
        for _ in 0..self.load.records {
            let number = scatter(self.changes) % self.load.records;
            self.change(number, &mut batch, &mut bytes)?;
        }
        self.db.apply(&batch, b"");
        self.db.write()?;
        Ok(self.db.stats().writes.since(&before))
    }

    /// Changes each record once to see how many levels there are at most, and goes on until there
    /// are as many, with nothing in memory.
    fn pile_up(&mut self) -> Result<(), Error> {
        self.most_levels = 0;
        self.round()?;
        let (mut batch, mut bytes) = (Batch::new(), Vec::new());
        let end = self.changes + 3 * self.load.records;
        while self.changes < end && (self.levels() < self.most_levels || self.db.tree_bytes() > 0) {
            let number = scatter(self.changes) % self.load.records;
            self.change(number, &mut batch, &mut bytes)?;
        }
        Ok(())
    }
}

fn options(records: u64, cache_bytes: usize) -> Options {
    // As many files as a database of many gigabytes has with default sizes.
    let file_bytes = (records * 100 / 64).clamp(64 << 10, 32 << 20);
    Options { file_bytes, filter_prefix_bytes: 25, cache_bytes, ..Options::default() }
}

fn mean(of: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = of.len() as f64;
    of.sum::<f64>() / count
}

/// Measures on an empty disk, which `reach` opens.
pub fn measure(
    reach: &dyn Fn() -> std::io::Result<Arc<dyn Disk>>,
    load: Load,
) -> Result<Figures, Error> {
    const WINDOW: usize = 4;
    const MAX_ROUNDS: usize = 60;
    let records = load.records;
    let open = |cache_bytes| -> Result<Db, Error> {
        Ok(Db::open(reach()?, options(records, cache_bytes))?.0)
    };
    let mut work = Work { db: open(64 << 20)?, load, changes: 0, most_levels: 0 };
    let (mut batch, mut bytes) = (Batch::new(), Vec::new());
    for number in 0..records {
        work.change(number, &mut batch, &mut bytes)?;
    }
    work.db.apply(&batch, b"");
    let mut writes: Vec<WriteStats> = Vec::new();
    let write = |writes: &[WriteStats]| -> f64 {
        mean(writes.iter().map(|round| round.amplification().unwrap_or_default()))
    };
    let is_settled = |writes: &[WriteStats]| {
        let Some(start) = writes.len().checked_sub(2 * WINDOW) else { return false };
        let (old, new) = writes[start..].split_at(WINDOW);
        (write(old) / write(new) - 1.0).abs() < 0.02
    };
    while !is_settled(&writes) && writes.len() < MAX_ROUNDS {
        writes.push(work.round()?);
    }
    work.pile_up()?;
    let Work { db, most_levels, .. } = work;
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
    let settled = &writes[writes.len().saturating_sub(WINDOW)..];
    let log = |round: &WriteStats| round.log_bytes as f64 / round.user_bytes as f64;
    Ok(Figures {
        rounds: writes.len(),
        write: write(settled),
        log: mean(settled.iter().map(log)),
        levels: most_levels,
        space: stats.file_bytes as f64 / live_bytes as f64,
        present: reads(true)?,
        absent: reads(false)?,
        resident: stats.resident_bytes as f64 / records as f64,
    })
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("arguments: FOLDER [RECORDS] [TIMES] [GROUP]")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |given| given.parse());
    let (records, times) = (number(1_000_000)?, number(10)?);
    let load = Load { records, times, group: number(64)? as usize };
    std::fs::create_dir(&folder)?;
    let figures = measure(&|| Ok(Arc::new(RealDisk::open(&folder)?)), load);
    std::fs::remove_dir_all(&folder)?;
    let figures = figures?;
    println!("settled after {} changes of each record", figures.rounds);
    println!("bytes written for a byte changed:    {:.2}", figures.write);
    println!("of these to the log:                 {:.2}", figures.log);
    println!("levels of files at most:             {}", figures.levels);
    println!("index bytes for a live byte:         {:.2}", figures.space);
    println!("blocks read for a lookup, present:   {:.3}", figures.present);
    println!("blocks read for a lookup, absent:    {:.3}", figures.absent);
    println!("resident memory for a record, bytes: {:.2}", figures.resident);
    Ok(())
}
