//! A load that goes on: files at random are changed, created and deleted in a database that is much
//! larger than the write buffers. What it costs in writes, in space, and afterwards in reads.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::Writes;
use crate::data::{ENTRY, KEY_BYTES, Key, MAX_VALUE_BYTES, Records, key, scatter};
use crate::job::{Job, Outcome};
use crate::process;
use crate::store::{Setup, Store};

/// Rounds, each of as many changes as there are records: at least so many, at most so many.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=10;
/// Settled is what differs by no more than this part from one round to the next.
const TOLERANCE: f64 = 0.1;
/// Changes between two looks at the clock.
const STRETCH: u64 = 1024;

/// Which files there are after so many changes: the same for all engines, and for the process that
/// looks at them afterwards.
struct Files {
    count: u64,
    directories: u64,
    alive: Vec<u32>,
    created: u64,
    changes: u64,
}

/// What has been written and changed, bytes.
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

/// Bytes written for each changed in the rounds, oldest first.
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

    /// In turn a new file, the end of one, and two changes of others.
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

    /// New names are in directories that were there.
    fn key(&self, records: &Records, number: u64) -> Key {
        match number < self.count {
            true => records.key(number),
            false => key(number % self.directories, ENTRY, number),
        }
    }

    /// Keys and values of the files there are.
    fn bytes(&self, records: &Records) -> u64 {
        let mut value = [0; MAX_VALUE_BYTES];
        let len = |&number: &u32| KEY_BYTES + records.value(number.into(), 0, &mut value).len();
        self.alive.iter().map(len).sum::<usize>() as u64
    }
}

/// The load, by rounds, until one costs what the last one did; then what it has left in memory goes
/// to files, and every engine does with these what it does by itself. As often as a write buffer's
/// worth has been changed, all files are synced: no engine may keep more than that from the disk.
///
/// Counts what the process makes the kernel write. A page that is changed twice between two syncs
/// counts once.
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
        // Without a whole round behind the first, in which files are still as they were prepared:
        // all there was.
        .with(
            "write_amplification",
            rounds.get(1..).and_then(<[f64]>::last).copied().unwrap_or(all),
        ))
}

/// Changes until there have been so many, or the time is over. Bytes changed.
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

/// Lookups in what the load has left, in a new process and with nothing of the files in memory: so
/// few that no block is asked for twice, for most of them, and behind as many that bring in what
/// every lookup needs.
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
