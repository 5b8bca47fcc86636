//! Measures the tree in memory alone: creates (absent lookup, then put), lookups, scans, groups of
//! three records, deletions, short-lived files, memory. Prints a JSON object for each shape:
//! directories of 1,000 entries, and one directory with all entries. Keys come in random order.
//!
//! The log is written to a temporary folder, 64 groups at a time. `TMPDIR=/dev/shm` takes the disk
//! out of the figures. Rates are millions a second, by the clock and by CPU time outside of the
//! kernel. CPU time says more on a busy machine.
//!
//! Arguments: number of records (default 1,000,000), records per directory (default: 1,000, then
//! all).

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use babu::{Batch, Db, Options, RealDisk};

const VALUE_BYTES: usize = 80;
const KEY_BYTES: usize = 25;
const PROBES: u64 = 1_000_000;
const GROUPS_PER_WRITE: u64 = 64;

type Failure = Box<dyn std::error::Error>;

fn scatter(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The keys of one shape.
#[derive(Clone, Copy)]
struct Shape {
    count: u64,
    per_directory: u64,
}

impl Shape {
    fn directories(self) -> u64 {
        self.count.div_ceil(self.per_directory)
    }

    /// Directory id (16, scattered) ‖ kind ‖ order (8, scattered). Consecutive numbers go to
    /// consecutive directories.
    fn key(self, number: u64) -> [u8; KEY_BYTES] {
        let mut key = [4; KEY_BYTES];
        key[..16].copy_from_slice(&directory(number % self.directories()));
        key[17..].copy_from_slice(&scatter(number).to_be_bytes());
        key
    }

    /// Number of a record that exists.
    fn any(self, probe: u64) -> u64 {
        scatter(probe) % self.count
    }
}

fn directory(number: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&scatter(number).to_be_bytes());
    id[8..].copy_from_slice(&scatter(!number).to_be_bytes());
    id
}

/// The database under measurement, and its load.
struct Bench {
    db: Db,
    batch: Batch,
    groups: u64,
    value: [u8; VALUE_BYTES],
    shape: Shape,
}

impl Bench {
    fn commit(&mut self) -> Result<(), Failure> {
        self.db.apply(&self.batch, b"session, sequence");
        self.batch.clear();
        self.groups += 1;
        if self.groups.is_multiple_of(GROUPS_PER_WRITE) {
            self.db.write()?;
        }
        Ok(())
    }

    fn create(&mut self, key: &[u8]) -> Result<(), Failure> {
        if self.db.get(key)?.is_some() {
            return Err("a key is there already".into());
        }
        self.value[..8].copy_from_slice(&key[17..]);
        self.batch.put(key, &self.value);
        self.commit()
    }

    fn creates(&mut self) -> Result<(), Failure> {
        (0..self.shape.count).try_for_each(|number| self.create(&self.shape.key(number)))
    }

    fn present(&mut self) -> Result<(), Failure> {
        for probe in 0..PROBES {
            let value = self.db.get(&self.shape.key(self.shape.any(probe)))?;
            black_box(value.ok_or("a key is missing")?[0]);
        }
        Ok(())
    }

    /// Looks up absent names in directories that exist.
    fn absent(&mut self) -> Result<(), Failure> {
        for probe in 0..PROBES {
            let key = self.shape.key(self.shape.count + self.shape.any(probe));
            if self.db.get(&key)?.is_some() {
                return Err("a key is there that should not".into());
            }
        }
        Ok(())
    }

    fn visit_directories(&mut self) -> Result<(), Failure> {
        let mut entries = 0;
        let mut sum = 0u64;
        for number in 0..self.shape.directories() {
            let scan = self.db.prefix(&directory(scatter(number) % self.shape.directories()));
            scan.visit(|key, value| {
                entries += 1;
                sum += u64::from(key[24]) + u64::from(value[0]) + u64::from(value[79]);
                ControlFlow::Continue(())
            })?;
        }
        black_box(sum);
        self.shape.check(entries)
    }

    fn iterate_directories(&mut self) -> Result<(), Failure> {
        let mut entries = 0;
        let mut sum = 0u64;
        for number in 0..self.shape.directories() {
            for entry in self.db.prefix(&directory(scatter(number) % self.shape.directories())) {
                let (key, value) = entry?;
                entries += 1;
                sum += u64::from(key[24]) + u64::from(value[0]) + u64::from(value[79]);
            }
        }
        black_box(sum);
        self.shape.check(entries)
    }

    /// Changes two names and the directory's header in each group.
    fn groups_of_3(&mut self) -> Result<(), Failure> {
        for probe in 0..PROBES / 4 {
            let first = self.shape.key(self.shape.any(probe));
            let mut second = first;
            second[24] ^= 1;
            let mut header = first;
            header[16..].fill(0);
            self.batch.put(&first, &self.value);
            self.batch.put(&second, &self.value);
            self.batch.put(&header, &self.value);
            self.commit()?;
        }
        Ok(())
    }

    /// Creates, looks up and deletes each file. Ten files exist at a time.
    fn short_lived(&mut self) -> Result<(), Failure> {
        const ALIVE: u64 = 10;
        let key = |bench: &Self, file: u64| bench.shape.key(bench.shape.count * 2 + file);
        for file in 0..PROBES / 4 {
            self.create(&key(self, file))?;
            black_box(self.db.get(&key(self, file))?.ok_or("a key is missing")?[0]);
            if let Some(old) = file.checked_sub(ALIVE) {
                self.batch.delete(&key(self, old));
                self.commit()?;
            }
        }
        Ok(())
    }

    fn deletes(&mut self) -> Result<(), Failure> {
        for number in 0..self.shape.count {
            let key = self.shape.key(number);
            self.batch.delete(&key);
            self.commit()?;
        }
        Ok(())
    }

    fn delete_directories(&mut self) -> Result<(), Failure> {
        for number in 0..self.shape.directories() {
            let from = directory(number);
            let mut to = from;
            to[15] = to[15].wrapping_add(1);
            self.batch.delete_range(&from, &to);
            self.commit()?;
        }
        Ok(())
    }
}

impl Shape {
    /// Checks that a scan has found enough entries.
    fn check(self, entries: u64) -> Result<(), Failure> {
        // A directory may have been chosen repeatedly, and the last may be short.
        match entries >= self.count / 2 {
            true => Ok(()),
            false => Err("entries are missing".into()),
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let chosen = arguments.next().map(|text| text.parse()).transpose()?;
    for per_directory in chosen.map_or(vec![1000, count], |chosen| vec![chosen]) {
        run(Shape { count, per_directory })?;
    }
    Ok(())
}

fn run(shape: Shape) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("babu-tree-rate-{}", std::process::id()));
    let before = resident_bytes();
    let (db, _) = Db::open(Arc::new(RealDisk::open(&folder)?), Options::default())?;
    let value = [7; VALUE_BYTES];
    let mut bench = Bench { db, batch: Batch::new(), groups: 0, value, shape };
    print!("{{\"records\":{},\"per_directory\":{}", shape.count, shape.per_directory);
    measure("creates", shape.count, &mut bench, Bench::creates)?;
    let data = shape.count * (KEY_BYTES + VALUE_BYTES) as u64;
    let resident = resident_bytes().saturating_sub(before) as f64 / data as f64;
    let counted = bench.db.tree_bytes() as f64 / data as f64;
    print!(",\n \"resident_per_data\":{resident:.2}, \"counted_per_data\":{counted:.2}");
    measure("present", PROBES, &mut bench, Bench::present)?;
    measure("absent", PROBES, &mut bench, Bench::absent)?;
    measure("visited_entries", shape.count, &mut bench, Bench::visit_directories)?;
    measure("iterated_entries", shape.count, &mut bench, Bench::iterate_directories)?;
    measure("groups_of_3", PROBES / 4, &mut bench, Bench::groups_of_3)?;
    measure("short_lived_files", PROBES / 4, &mut bench, Bench::short_lived)?;
    measure("deletes", shape.count, &mut bench, Bench::deletes)?;
    bench.creates()?;
    measure("directory_deletes", shape.directories(), &mut bench, Bench::delete_directories)?;
    println!("}}");
    drop(bench);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Prints the rate of `work`, by the clock and by CPU time of this process outside of the kernel.
fn measure(
    name: &str,
    count: u64,
    bench: &mut Bench,
    work: impl FnOnce(&mut Bench) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (start, user) = (Instant::now(), user_time());
    work(bench)?;
    let (elapsed, user) = (start.elapsed(), user_time().saturating_sub(user));
    let rate = |time: Duration| count as f64 / time.as_secs_f64().max(1e-9) / 1e6;
    print!(",\n \"{name}\":{:.3}, \"{name}_by_user_time\":{:.2}", rate(elapsed), rate(user));
    Ok(())
}

fn proc_fields(file: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // The program's name, in parentheses, may contain spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.map(|field| field.parse().unwrap_or(0)).collect()
}

/// CPU time of this process outside of the kernel, in steps of 10 ms.
fn user_time() -> Duration {
    Duration::from_millis(10 * proc_fields("/proc/self/stat").get(11).copied().unwrap_or(0))
}

/// Memory of this process in bytes.
fn resident_bytes() -> u64 {
    4096 * proc_fields("/proc/self/statm").get(1).copied().unwrap_or(0)
}
