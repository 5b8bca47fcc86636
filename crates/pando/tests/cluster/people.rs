//! Users who run programs on a mount, one after the other, until the test stops them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::all;
use crate::common::programs::{self, Program};
use crate::station::Station;

pub struct People {
    station: Arc<Station>,
    number: u8,
    local: PathBuf,
    less: u32,
    stop: AtomicBool,
    /// Number of runs begun.
    begun: AtomicU64,
    /// Number of runs that succeeded, for each program.
    passed: [AtomicU64; programs::ALL.len()],
}

impl People {
    /// Users of a mount. `local` and `less` are those of [`programs`].
    pub fn new(station: Arc<Station>, number: u8, local: &Path, less: u32) -> Self {
        let (stop, begun, passed) = Default::default();
        Self { station, number, local: local.to_owned(), less, stop, begun, passed }
    }

    /// Runs all programs again and again. The users of each mount begin with another program.
    pub fn work(&self) -> Result<(), String> {
        let programs = programs::ALL.iter().zip(&self.passed).cycle();
        for (program, passed) in programs.skip(usize::from(self.number) * programs::ALL.len() / 2) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.station.work(|mount| self.run(*program, mount))?;
            passed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn run(&self, program: Program, mount: &Path) -> Result<(), String> {
        let run = self.begun.fetch_add(1, Ordering::Relaxed);
        let folder = mount.join(format!("people-{}-{run}", self.number));
        let back = self.local.join(format!("back-{}", self.number));
        let failed = |what: &str| format!("{} in {}: {what}", program.name, folder.display());
        let _ = fs::remove_dir_all(&back);
        fs::create_dir(&back).unwrap();
        fs::create_dir(&folder).map_err(|error| failed(&error.to_string()))?;
        let command = program.command(&folder, &self.local, &back, self.less);
        let output = self.station.run(command).map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            return Err(failed(&all(&output)));
        }
        fs::remove_dir_all(&folder).map_err(|error| failed(&error.to_string()))
    }

    /// Whether a program has succeeded at least once.
    pub fn have_done(&self, program: usize) -> bool {
        self.passed[program].load(Ordering::Relaxed) > 0
    }

    /// Removes the folders that killed runs have left behind.
    pub fn remove_all(&self) {
        for run in 0..self.begun.load(Ordering::Relaxed) {
            let folder = self.station.mount().join(format!("people-{}-{run}", self.number));
            if folder.exists() {
                fs::remove_dir_all(folder).unwrap();
            }
        }
    }
}

/// How often each program succeeded.
impl fmt::Display for People {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut passed = 0;
        for (program, count) in programs::ALL.iter().zip(&self.passed) {
            let count = count.load(Ordering::Relaxed);
            passed += count;
            write!(f, "{} {count}, ", program.name)?;
        }
        let begun = self.begun.load(Ordering::Relaxed);
        write!(f, "{} undone by kills of the mount", begun - passed)
    }
}

/// Work on the mounts. Dropping it ends the work, or breaks it off if it is not done.
pub struct Work<'a> {
    pub people: &'a [People],
    pub stations: &'a [Arc<Station>],
    pub is_done: bool,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.people.iter().for_each(|people| people.stop.store(true, Ordering::Relaxed));
        if !self.is_done {
            self.stations.iter().for_each(|station| station.break_off());
        }
    }
}
