//! A metadata load: look an absent key up, put it, log it; then hits, misses and scans. Prints a
//! JSON object for each mode. In two modes everything is in the tree, with a log write for each
//! create, or for 64. In the third, checkpoints run beside the load, as in a server.
//!
//! Arguments: FOLDER (default: a temporary one), number of creates (default 1,000,000),
//! `checkpoints` for the third mode only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use babu::{Batch, CheckpointDone, CheckpointError, Db, Options, RealDisk};

const RECORDS_PER_DIRECTORY: u64 = 1000;
const VALUE_BYTES: usize = 80;
const PROBES: u64 = 200_000;
/// Size of the tree in bytes at which a checkpoint begins.
const CHECKPOINT_BYTES: usize = 64 << 20;

type Failure = Box<dyn std::error::Error>;

fn scatter(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// 'd' ‖ directory id (16, scattered) ‖ kind ‖ order (8, scattered), as a file system's keys are.
fn key(number: u64) -> [u8; 26] {
    let mut key = [b'd'; 26];
    key[1..17].copy_from_slice(&directory(number / RECORDS_PER_DIRECTORY));
    key[17] = 4;
    key[18..].copy_from_slice(&scatter(number).to_be_bytes());
    key
}

fn directory(number: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&scatter(number).to_be_bytes());
    id[8..].copy_from_slice(&scatter(!number).to_be_bytes());
    id
}

/// A value that is half noise and half zeros, as the numbers and names of an inode are.
fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (position, bytes) in value.chunks_exact_mut(16).enumerate() {
        bytes[..8].copy_from_slice(&scatter(number * 31 + position as u64).to_be_bytes());
    }
    value
}

struct Load {
    db: Db,
    job: Option<std::thread::JoinHandle<Result<CheckpointDone, CheckpointError>>>,
    longest_pause: f64,
}

impl Load {
    fn create(
        &mut self,
        count: u64,
        creates_per_write: u64,
        checkpoints: bool,
    ) -> Result<(), Failure> {
        let mut batch = Batch::new();
        for number in 0..count {
            let key = key(number);
            if self.db.get(&key)?.is_some() {
                return Err("a key is there already: use an empty folder".into());
            }
            batch.clear();
            batch.put(&key, &value(number));
            self.db.apply(&batch, b"session, sequence");
            if number % creates_per_write == creates_per_write - 1 {
                self.db.write()?;
            }
            if checkpoints && number % 1024 == 0 {
                let start = Instant::now();
                self.checkpoint()?;
                self.longest_pause = self.longest_pause.max(start.elapsed().as_secs_f64());
            }
        }
        self.db.write()?;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        if self.job.as_ref().is_some_and(|job| job.is_finished()) {
            self.finish()?;
        }
        if self.job.is_none() && self.db.tree_bytes() >= CHECKPOINT_BYTES {
            self.db.freeze()?;
            self.job = self.db.checkpoint_job().map(|job| std::thread::spawn(|| job.run()));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(job) = self.job.take() {
            let done = job.join().map_err(|_| "the job panicked")??;
            let retired = self.db.install(done);
            std::thread::spawn(|| retired.remove());
        }
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("babu-create-rate-{}", std::process::id())),
        PathBuf::from,
    );
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let is_last_only = arguments.next().is_some_and(|word| word == "checkpoints");
    for (creates_per_write, checkpoints) in [(1, false), (64, false), (64, true)] {
        if is_last_only && !checkpoints {
            continue;
        }
        run(&folder.join("store"), count, creates_per_write, checkpoints)?;
    }
    Ok(())
}

fn run(
    folder: &Path,
    count: u64,
    creates_per_write: u64,
    checkpoints: bool,
) -> Result<(), Failure> {
    let memory_before = resident_bytes();
    let options = Options { filter_prefix_bytes: 26, ..Options::default() };
    let (db, _) = Db::open(Arc::new(RealDisk::open(folder)?), options.clone())?;
    let mut load = Load { db, job: None, longest_pause: 0.0 };
    let start = Instant::now();
    load.create(count, creates_per_write, checkpoints)?;
    let create = rate(count, start);
    load.finish()?;
    let data_bytes = count * (26 + VALUE_BYTES as u64);
    let memory = resident_bytes().saturating_sub(memory_before) as f64 / data_bytes as f64;
    if checkpoints {
        load.db.checkpoint()?;
    }
    let stats = load.db.stats();
    let writes = stats.writes;
    let amplification = writes.index_bytes as f64 / data_bytes as f64;
    println!(
        "{{\"creates\":{count},\"creates_per_write\":{creates_per_write},\"checkpoints\":{checkpoints},\
         \"creates_per_second\":{create},\"memory_per_data\":{memory:.2},\"index_bytes\":{},\"index_bytes_written_per_data\":{amplification:.2},\
         \"levels\":{},\"files\":{},\"resident_bytes\":{},\"longest_pause_ms\":{:.1},",
        stats.index_bytes,
        stats.levels.len(),
        stats.file_count,
        stats.resident_bytes,
        load.longest_pause * 1e3,
    );
    reads(&load.db, count)?;

    let start = Instant::now();
    let mut batch = Batch::new();
    batch.delete_range(b"d", b"e");
    load.db.apply(&batch, b"");
    let delete = start.elapsed().as_secs_f64();
    let start = Instant::now();
    if load.db.scan(b"", None).next().is_some() {
        return Err("the range is not deleted".into());
    }
    let scan = start.elapsed().as_secs_f64();
    let start = Instant::now();
    load.db.checkpoint()?;
    println!(
        " \"range_delete_ms\":{:.2},\"scan_after_ms\":{:.3},\"checkpoint_after_ms\":{:.1}}}",
        delete * 1e3,
        scan * 1e3,
        start.elapsed().as_secs_f64() * 1e3
    );
    drop(load);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn reads(db: &Db, count: u64) -> Result<(), Failure> {
    let spread = |n: u64| scatter(n) % count;
    for name in ["hits", "warm_hits"] {
        let before = db.stats().reads;
        let start = Instant::now();
        for n in 0..PROBES {
            if db.get(&key(spread(n)))?.is_none() {
                return Err("a key is missing".into());
            }
        }
        let after = db.stats().reads;
        let reads = (after.block_reads - before.block_reads) as f64 / PROBES as f64;
        print!(" \"{name}_per_second\":{},\"{name}_block_reads\":{reads:.3},", rate(PROBES, start));
    }
    let start = Instant::now();
    for n in 0..PROBES {
        // Change the name, so that it is absent from a directory that exists.
        let mut key = key(spread(n));
        key[25] ^= 1;
        if db.get(&key)?.is_some() {
            return Err("a key is there that should not".into());
        }
    }
    print!(" \"misses_per_second\":{},", rate(PROBES, start));
    let start = Instant::now();
    let mut scanned = 0;
    for n in 0..300.min(count / RECORDS_PER_DIRECTORY) {
        let mut prefix = vec![b'd'];
        prefix.extend_from_slice(&directory(scatter(n) % (count / RECORDS_PER_DIRECTORY)));
        scanned += db.prefix(&prefix).count() as u64;
    }
    print!(" \"directory_entries_per_second\":{},", rate(scanned, start));
    let start = Instant::now();
    println!(" \"scanned_per_second\":{},", rate(db.scan(b"", None).count() as u64, start));
    Ok(())
}

/// Memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

fn rate(count: u64, start: Instant) -> u64 {
    (count as f64 / start.elapsed().as_secs_f64()) as u64
}
