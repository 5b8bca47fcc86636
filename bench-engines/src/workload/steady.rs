//! A steady load. Random files are changed, created and deleted in a database that is much larger
//! than the write buffers. It measures the cost in writes, in space, and in later reads.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::Writes;
use crate::data::{ENTRY, KEY_BYTES, Key, MAX_VALUE_BYTES, Records, key, scatter};
use crate::job::{Job, Outcome};
use crate::process;
use crate::store::{Setup, Store};

/// The least and the most rounds. A round has as many changes as there are records.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=10;
/// A load has settled if its cost changes by at most this part from one round to the next.
const TOLERANCE: f64 = 0.1;
/// Changes between two checks of the time.
const STRETCH: u64 = 1024;

/// The files that exist after a number of changes. They are equal for all engines, and for the
/// process that reads them later.
struct Files {
    count: u64,
    directories: u64,
    alive: Vec<u32>,
    created: u64,
    changes: u64,
}

/// Bytes written and bytes changed so far.
#[derive(Clone, Copy, Default)]
struct Mark {
    written: u64,
    changed: u64,
}

impl Mark {
    fn amplification(self, before: Mark) -> f64 {
        (self.written - before.written) as f64 / (self.changed - before.changed).max(1) as f64
    }
}

/// Bytes written for each byte changed, by round, oldest first.
fn amplifications(marks: &[Mark]) -> Vec<f64> {
    marks.windows(2).map(|marks| marks[1].amplification(marks[0])).collect()
}

fn is_settled(rounds: &[f64]) -> bool {
    match rounds {
        [.., before, last] if rounds.len() >= *ROUNDS.start() => {
            (last - before).abs() <= TOLERANCE * last
        }
        _ => false,
    }
}

enum Change {
    Set(u64),
    Delete(u64),
}

impl Files {
    fn new(job: &Job, records: &Records) -> Files {
        Files {
            count: job.count,
            directories: job.count.div_ceil(records.per_directory()),
            alive: (0..job.count as u32).collect(),
            created: job.count,
            changes: 0,
        }
    }

    /// The next change. Of four changes, one creates a file, one deletes one, and two change other
    /// files.
    fn change(&mut self) -> Change {
        let change = self.changes;
        self.changes += 1;
        let position = (scatter(change | 1 << 58) % self.alive.len() as u64) as usize;
        match change % 4 {
            0 => {
                self.alive.push(self.created as u32);
                self.created += 1;
                Change::Set(self.created - 1)
            }
            1 => Change::Delete(self.alive.swap_remove(position).into()),
            _ => Change::Set(self.alive[position].into()),
        }
    }

    /// The key of a file. New names are in existing directories.
    fn key(&self, records: &Records, number: u64) -> Key {
        match number < self.count {
            true => records.key(number),
            false => key(number % self.directories, ENTRY, number),
        }
    }

    /// Bytes of the keys and values of all existing files.
    fn bytes(&self, records: &Records) -> u64 {
        let mut value = [0; MAX_VALUE_BYTES];
        let len = |&number: &u32| KEY_BYTES + records.value(number.into(), 0, &mut value).len();
        self.alive.iter().map(len).sum::<usize>() as u64
    }
}

/// Runs the load in rounds, until a round costs as much as the last one. Then it writes all records
/// in memory to files, and waits until the engine has finished its own work.
///
/// Whenever a write buffer's worth of data has changed, all files are synced. So no engine may
/// withhold more than that from the disk.
///
/// Bytes written are those that the process makes the kernel write. A page that changes twice
/// between two syncs counts once.
pub fn load<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let mut files = Files::new(job, records);
    let before = process::written_bytes()?;
    let start = Instant::now();
    let mut changed = 0;
    let mut marks = vec![Mark::default()];
    let mut rounds = Vec::new();
    let is_over = || start.elapsed().as_secs_f64() >= job.seconds;
    while !is_settled(&rounds) && rounds.len() < *ROUNDS.end() && !is_over() {
        let end = files.changes + job.count;
        changed += round(&mut store, job, records, &mut files, end, &is_over)?;
        process::sync(&job.folder)?;
        if files.changes >= end {
            marks.push(Mark { written: process::written_bytes()? - before, changed });
            rounds = amplifications(&marks);
        }
    }
    store.settle()?;
    process::sync(&job.folder)?;
    let seconds = start.elapsed().as_secs_f64();
    let written = process::written_bytes()? - before;
    let left = store.scan(b"")?.entries;
    let expected = files.alive.len() as u64;
    ensure!(left == expected, "{left} files are left instead of {expected}");
    let all = Mark { written, changed }.amplification(Mark::default());
    Ok(Outcome::new(files.changes, seconds)
        .with("changes_per_record", files.changes as f64 / job.count as f64)
        .with("is_settled", is_settled(&rounds))
        .with("changed_bytes", changed)
        .with("written_bytes", written)
        .with("live_bytes", files.bytes(records))
        // In the first round, files are still as they were prepared. If no later round is complete,
        // this is the figure of the whole load.
        .with(
            "write_amplification",
            rounds.get(1..).and_then(<[f64]>::last).copied().unwrap_or(all),
        ))
}

/// Makes changes until there are `end` of them, or the time is over. Returns the bytes changed.
fn round<S: Store>(
    store: &mut S,
    job: &Job,
    records: &Records,
    files: &mut Files,
    end: u64,
    is_over: &dyn Fn() -> bool,
) -> Result<u64> {
    let mut writes = Writes::new(job.batch);
    let mut value = [0; MAX_VALUE_BYTES];
    let (mut changed, mut synced) = (0, 0);
    while files.changes < end && !is_over() {
        for _ in 0..STRETCH {
            writes.begin(store)?;
            let generation = 1 + files.changes;
            match files.change() {
                Change::Set(number) => {
                    let value = records.value(number, generation, &mut value);
                    changed += (KEY_BYTES + value.len()) as u64;
                    store.put(&files.key(records, number), value)?;
                }
                Change::Delete(number) => {
                    changed += KEY_BYTES as u64;
                    store.delete(&files.key(records, number))?;
                }
            }
            writes.end_group(store)?;
        }
        writes.finish(store)?;
        store.tend()?;
        if changed - synced >= job.tree_bytes as u64 {
            process::sync(&job.folder)?;
            synced = changed;
        }
    }
    Ok(changed)
}

/// Measures lookups in what the load has left, in a new process with no file in memory. There are
/// so few that most blocks are read only once. An equal number goes before, unmeasured, and reads
/// the blocks that every lookup needs.
pub fn look<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut files = Files::new(job, records);
    while files.changes < job.changes {
        files.change();
    }
    let mut store = S::open(setup)?;
    let probes = (files.alive.len() as u64 / 500).clamp(100, 2000);
    let mut lookups = |probes: std::ops::Range<u64>| -> Result<()> {
        for probe in probes {
            let position = scatter(probe) % files.alive.len() as u64;
            let number = files.alive[position as usize].into();
            let glance = store.get(&files.key(records, number))?;
            ensure!(records.is(number, glance), "file {number} is not as it was left");
        }
        Ok(())
    };
    lookups(0..probes)?;
    let before = process::read_bytes()?;
    let start = Instant::now();
    lookups(probes..2 * probes)?;
    let seconds = start.elapsed().as_secs_f64();
    let read = process::read_bytes()? - before;
    Ok(Outcome::new(probes, seconds).with("read_bytes_per_lookup", read as f64 / probes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_is_what_costs_the_same_again() {
        let marks = |rounds: &[u64]| {
            let mut marks = vec![Mark::default()];
            for written in rounds {
                let last = marks[marks.len() - 1];
                let written = last.written + written;
                marks.push(Mark { written, changed: last.changed + 100 });
            }
            amplifications(&marks)
        };
        assert_eq!(marks(&[100, 300]), [1.0, 3.0]);
        assert!(!is_settled(&[]));
        assert!(!is_settled(&marks(&[300, 300])), "too few");
        assert!(!is_settled(&marks(&[100, 300, 400])));
        assert!(is_settled(&marks(&[100, 300, 400, 390])));
    }
}
