//! Measures how long creates take beside a checkpoint (BabuDB §IV.B, table I), with babu alone.
//! First come creates into an empty tree, with nothing beside them. Then come as many into the next
//! tree, while a checkpoint of the first runs. Prints a JSON object.
//!
//! Arguments: FOLDER (default: a temporary one), number of creates before the checkpoint (default
//! 1,000,000), and what runs beside the later creates. This is `job` (default), `sleep` or `none`.
//! With `sleep`, a thread sleeps about as long as the job would take. What is left is the cost of
//! the frozen tree alone. With `none`, the creates go on in the same tree.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use babu::{Batch, Db, Options, RealDisk};

const VALUE_BYTES: usize = 80;
const PER_DIRECTORY: u64 = 1000;
/// Odd, so that the multiplication gives each name once, in random order.
const FACTOR: u64 = 0x9e37_79b1;

type Failure = Box<dyn std::error::Error>;

fn scatter(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Directory id (16, scattered) ‖ kind ‖ order (8, scattered).
fn key(number: u64) -> [u8; 25] {
    let mut key = [4; 25];
    let directory = number / PER_DIRECTORY;
    key[..8].copy_from_slice(&scatter(directory).to_be_bytes());
    key[8..16].copy_from_slice(&scatter(!directory).to_be_bytes());
    key[17..].copy_from_slice(&scatter(number).to_be_bytes());
    key
}

/// A value that is half noise and half zeros, as the numbers and names of an inode are.
fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    for (position, bytes) in value.chunks_exact_mut(16).enumerate() {
        bytes[..8].copy_from_slice(&scatter(number * 31 + position as u64).to_be_bytes());
    }
    value
}

/// Times of single creates in nanoseconds, and of the three steps of each create.
#[derive(Default)]
struct Times {
    all: Vec<u64>,
    steps: [Vec<u64>; 3],
}

struct Load {
    db: Db,
    batch: Batch,
    names: u64,
    count: u64,
    has_steps: bool,
}

impl Load {
    fn create(&mut self, times: &mut Times) -> Result<(), Failure> {
        let number = self.count * FACTOR % self.names;
        let start = Instant::now();
        let key = key(number);
        if self.db.get(&key)?.is_some() {
            return Err("a key is there already: use an empty folder".into());
        }
        let looked = self.has_steps.then(Instant::now);
        self.batch.clear();
        self.batch.put(&key, &value(number));
        self.db.apply(&self.batch, b"");
        let applied = self.has_steps.then(Instant::now);
        self.db.write()?;
        let end = Instant::now();
        times.all.push((end - start).as_nanos() as u64);
        if let (Some(looked), Some(applied)) = (looked, applied) {
            let steps = [looked - start, applied - looked, end - applied];
            for (times, step) in times.steps.iter_mut().zip(steps) {
                times.push(step.as_nanos() as u64);
            }
        }
        self.count += 1;
        Ok(())
    }
}

fn percentile(times: &mut [u64], percent: f64) -> f64 {
    let last = times.len().saturating_sub(1);
    let position = ((last as f64) * percent / 100.0).round() as usize;
    *times.select_nth_unstable(position.min(last)).1 as f64 / 1e3
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().filter(|path| path != "-").map_or_else(
        || std::env::temp_dir().join(format!("babu-pauses-{}", std::process::id())),
        PathBuf::from,
    );
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let beside = arguments.next().unwrap_or_else(|| "job".to_owned());
    let has_steps = arguments.next().is_some_and(|word| word == "steps");
    let options = Options { filter_prefix_bytes: 25, ..Options::default() };
    let (db, _) = Db::open(Arc::new(RealDisk::open(&folder)?), options)?;
    let names = (count * 4).next_power_of_two();
    let mut load = Load { db, batch: Batch::new(), names, count: 0, has_steps };
    let new_times = |room: u64| Times {
        all: Vec::with_capacity(room as usize),
        steps: [(); 3].map(|()| Vec::with_capacity(if has_steps { room as usize } else { 0 })),
    };
    let mut quiet = new_times(count);
    for _ in 0..count {
        load.create(&mut quiet)?;
    }

    let mut busy = new_times(names);
    let start = Instant::now();
    let mut job = None;
    let sleep = Duration::from_nanos(count * 1000);
    if beside != "none" {
        load.db.freeze()?;
        job = load.db.checkpoint_job();
    }
    let thread = if beside == "job" {
        let job = job.take();
        std::thread::spawn(move || job.map(|job| job.run()).transpose())
    } else {
        std::thread::spawn(move || {
            std::thread::sleep(sleep);
            Ok(None)
        })
    };
    busy.all.push(start.elapsed().as_nanos() as u64);
    while !thread.is_finished() && load.count < names {
        load.create(&mut busy)?;
    }
    let done = thread.join().map_err(|_| "the job panicked")??;
    let installing = Instant::now();
    if let Some(done) = done {
        let retired = load.db.install(done);
        std::thread::spawn(|| retired.remove());
    }
    busy.all.push(installing.elapsed().as_nanos() as u64);
    let seconds = start.elapsed().as_secs_f64();

    let creates = busy.all.len();
    let longest = percentile(&mut busy.all.clone(), 100.0) / 1e3;
    // Compare equal numbers of creates, so that the trees are equally large.
    let compared = creates.min(quiet.all.len());
    for times in [&mut quiet, &mut busy] {
        times.all.truncate(compared);
        times.steps.iter_mut().for_each(|step| step.truncate(compared));
    }
    print!(
        "{{\"count\":{count},\"beside\":\"{beside}\",\"creates\":{creates},\"seconds\":{seconds:.3},\"longest_ms\":{longest:.2}"
    );
    for percent in [50.0, 90.0, 99.0, 99.9] {
        let (quiet, busy) =
            (percentile(&mut quiet.all, percent), percentile(&mut busy.all, percent));
        print!(",\"p{percent}\":[{quiet:.2},{busy:.2},{:.2}]", busy / quiet);
    }
    if has_steps {
        for (name, step) in [("get", 0), ("apply", 1), ("write", 2)] {
            let (quiet, busy) = (&mut quiet.steps[step], &mut busy.steps[step]);
            print!(
                ",\"{name}\":[{:.2},{:.2},{:.2},{:.2}]",
                percentile(quiet, 50.0),
                percentile(busy, 50.0),
                percentile(quiet, 99.0),
                percentile(busy, 99.0)
            );
        }
    }
    println!("}}");
    drop(load);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
