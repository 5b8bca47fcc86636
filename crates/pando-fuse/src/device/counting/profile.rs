//! Which programs ask for what: counted only while a profile runs. Without one, a request costs
//! one load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use crate::protocol::abi::opcode;

/// Rows and threads that a profile remembers. What comes beyond them is one row of its own.
const ROWS_MAX: usize = 10_000;
/// Longest name of a program that the kernel tells, bytes.
const NAME_MAX: usize = 64;

/// The caller of a request: its user, and its thread; 0 if the kernel cannot tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
}

/// What one process has asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The user, as the mount's process sees users.
    pub uid: u32,
    /// Number of the process. 0: the kernel itself, or a process that this one cannot see.
    pub pid: u32,
    /// The process's name, as in `/proc/PID/comm`. `None` if it could not be read.
    pub command: Option<String>,
    /// The kernel's name of the operation.
    pub operation: &'static str,
    /// Number of requests.
    pub count: u64,
    /// Sum of the times from their reading to their answers, nanoseconds.
    pub nanos: u64,
}

/// What a profile has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profiled {
    /// How long it ran.
    pub took: Duration,
    /// In no order.
    pub rows: Vec<Row>,
    /// Number of requests that found no room in the rows, and their time in nanoseconds.
    pub beyond: (u64, u64),
}

/// The profile of a session, if one runs.
#[derive(Default)]
pub(crate) struct Profile {
    is_on: AtomicBool,
    table: Mutex<Option<Table>>,
}

struct Table {
    /// Which profile it is.
    number: u64,
    began: Instant,
    until: Instant,
    /// Process and name of each thread, as they were when its first request was noted.
    threads: HashMap<u32, (u32, Option<String>), RandomState>,
    rows: HashMap<(u32, u32, u32), (u64, u64), RandomState>,
    beyond: (u64, u64),
}

impl Profile {
    fn lock(&self) -> MutexGuard<'_, Option<Table>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a profile may run.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Begins a profile that ends by itself after `limit`, even if its result is never asked for.
    /// `number` is its own, to end it with. The error is the time that another profile has left.
    pub(crate) fn begin(&self, number: u64, limit: Duration) -> Result<(), Duration> {
        let mut table = self.lock();
        let began = Instant::now();
        let left = table.as_ref().map(|table| table.until.saturating_duration_since(began));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Err(left);
        }
        let (threads, rows) = (HashMap::default(), HashMap::default());
        let until = began + limit;
        *table = Some(Table { number, began, until, threads, rows, beyond: (0, 0) });
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the profile of this number. `None`: it is not there any more.
    pub(crate) fn end(&self, number: u64) -> Option<Profiled> {
        let mut table = self.lock();
        table.as_ref().filter(|table| table.number == number)?;
        self.is_on.store(false, Ordering::Relaxed);
        table.take().map(Table::into_profiled)
    }

    /// Counts a request. Its caller still waits, so `/proc` has its thread.
    pub(crate) fn note(&self, asker: Asker, code: u32, nanos: u64) {
        let mut held = self.lock();
        let Some(table) = held.as_mut() else { return };
        if Instant::now() >= table.until {
            // The result stays until it is fetched, or until another profile begins.
            self.is_on.store(false, Ordering::Relaxed);
            return;
        }
        table.note(asker, code, nanos);
    }
}

impl Table {
    fn note(&mut self, asker: Asker, code: u32, nanos: u64) {
        let is_known = self.threads.contains_key(&asker.pid);
        let pid = if is_known || self.threads.len() < ROWS_MAX {
            self.threads.entry(asker.pid).or_insert_with(|| process_of(asker.pid)).0
        } else {
            return self.add_beyond(nanos);
        };
        let key = (asker.uid, pid, code);
        if !self.rows.contains_key(&key) && self.rows.len() >= ROWS_MAX {
            return self.add_beyond(nanos);
        }
        let (count, sum) = self.rows.entry(key).or_default();
        *count += 1;
        *sum = sum.saturating_add(nanos);
    }

    fn add_beyond(&mut self, nanos: u64) {
        self.beyond.0 += 1;
        self.beyond.1 = self.beyond.1.saturating_add(nanos);
    }

    fn into_profiled(self) -> Profiled {
        let names: HashMap<u32, Option<String>> = self.threads.into_values().collect();
        let row = |((uid, pid, code), (count, nanos))| {
            let named = opcode::NAMES.iter().find(|(known, _)| *known == code);
            let operation = named.map_or("OTHER", |(_, name)| name);
            let command = names.get(&pid).cloned().flatten();
            Row { uid, pid, command, operation, count, nanos }
        };
        let took = self.began.elapsed().min(self.until - self.began);
        Profiled { took, rows: self.rows.into_iter().map(row).collect(), beyond: self.beyond }
    }
}

/// The process of a thread, and the process's name. A thread that `/proc` does not show stands for
/// itself.
fn process_of(thread: u32) -> (u32, Option<String>) {
    if thread == 0 {
        return (0, None);
    }
    let read = |pid: u32, name: &str| std::fs::read(format!("/proc/{pid}/{name}")).ok();
    let process = read(thread, "status").and_then(|status| {
        let status = String::from_utf8_lossy(&status).into_owned();
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    });
    let process = process.unwrap_or(thread);
    let name = read(process, "comm").map(|mut name| {
        name.truncate(NAME_MAX);
        String::from_utf8_lossy(&name).trim_end().to_owned()
    });
    (process, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn threads_count_as_their_process_and_nothing_counts_without_a_profile() {
        let profile = Profile::default();
        let pid = std::process::id();
        let asker = |pid| Asker { uid: 7, pid };
        profile.note(asker(pid), opcode::LOOKUP, 5);
        assert!(!profile.is_on());
        profile.begin(1, LONG).unwrap();
        assert!(profile.is_on());
        profile.note(asker(pid), opcode::LOOKUP, 5);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
                assert_ne!(thread, pid);
                profile.note(asker(thread), opcode::LOOKUP, 6);
            });
        });
        profile.note(asker(0), opcode::WRITE, 9);
        let Profiled { mut rows, beyond, .. } = profile.end(1).unwrap();
        rows.sort_by_key(|row| row.pid);
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned();
        let row = |pid, command, operation, count, nanos| Row {
            uid: 7,
            pid,
            command,
            operation,
            count,
            nanos,
        };
        assert_eq!(rows, [row(0, None, "WRITE", 1, 9), row(pid, Some(comm), "LOOKUP", 2, 11)]);
        assert_eq!((beyond, profile.is_on()), ((0, 0), false));
    }

    #[test]
    fn one_profile_at_a_time_and_each_ends_by_itself() {
        let profile = Profile::default();
        profile.begin(1, LONG).unwrap();
        assert!(profile.begin(2, LONG).unwrap_err() > Duration::ZERO);
        assert!(profile.end(2).is_none() && profile.is_on());
        assert!(profile.end(1).is_some() && profile.end(1).is_none());
        // One whose time is over turns itself off, and is in nobody's way.
        profile.begin(3, Duration::ZERO).unwrap();
        profile.note(Asker { uid: 0, pid: 0 }, opcode::READ, 1);
        assert!(!profile.is_on());
        profile.begin(4, LONG).unwrap();
        assert!(profile.end(3).is_none());
    }

    #[test]
    fn however_many_ask_memory_is_bounded() {
        let profile = Profile::default();
        profile.begin(1, LONG).unwrap();
        for uid in 0..ROWS_MAX as u32 + 3 {
            profile.note(Asker { uid, pid: 0 }, opcode::READ, 2);
        }
        let Profiled { rows, beyond, .. } = profile.end(1).unwrap();
        assert_eq!((rows.len(), beyond), (ROWS_MAX, (3, 6)));
    }
}
