//! The workload: how many files, clients and directories, and in which order.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::names::{CLIENTS_MAX, FILES_MAX};

/// One pass over all files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Makes every file, which must be new.
    Create,
    /// Asks for the attributes of every file.
    Stat,
    /// Every client lists its directory once. An operation is one listed entry.
    Readdir,
    /// Removes every file.
    Unlink,
}

impl Phase {
    /// All phases in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Create, Self::Stat, Self::Readdir, Self::Unlink];

    /// Name of the phase.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Readdir => "readdir",
            Self::Unlink => "unlink",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which directories clients use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// All clients use one directory.
    Shared,
    /// Each client has a directory of its own.
    Unique,
}

/// The order in which a client visits its files. It is drawn anew for each phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Shuffled with the seed.
    Random,
    /// By file number.
    Sequential,
}

/// Parameters of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Number of clients. They are processes on a mount, or sessions of the library. Above 0.
    pub clients: u32,
    /// Number of files of all clients together.
    pub files: u64,
    /// Directories above each file, including the run's own. With [`Layout::Unique`], the last is
    /// the client's own.
    pub depth: u32,
    /// Which directories the clients use.
    pub layout: Layout,
    /// Phases to run: ascending, each once, starting with [`Phase::Create`].
    pub phases: Vec<Phase>,
    /// The order in which a client visits its files.
    pub order: Order,
    /// Seed of the random order.
    pub seed: u64,
}

impl Workload {
    /// The most directories above a file. Paths stay shorter than `PATH_MAX`, even if the mount
    /// itself is deep.
    pub const DEPTH_MAX: u32 = 512;

    /// Fails if the workload cannot run, and says why.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: String| Err(BenchError::Workload(why));
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            return refuse(format!(
                "1 to {CLIENTS_MAX} clients are possible, not {}",
                self.clients
            ));
        }
        let files_max = FILES_MAX * u64::from(self.clients);
        if self.files < u64::from(self.clients) || self.files > files_max {
            return refuse(format!(
                "{} clients can share {} to {files_max} files, not {}",
                self.clients, self.clients, self.files
            ));
        }
        let depth_min = match self.layout {
            Layout::Shared => 1,
            Layout::Unique => 2,
        };
        if self.depth < depth_min || self.depth > Self::DEPTH_MAX {
            return refuse(format!(
                "depth {} is not possible: with this layout it is {depth_min} to {}, the first directory being the run's own{}",
                self.depth,
                Self::DEPTH_MAX,
                if depth_min == 2 { " and the last each client's" } else { "" }
            ));
        }
        if self.phases.first() != Some(&Phase::Create) {
            return refuse("the first phase must be create: there is nothing before it".to_owned());
        }
        if !self.phases.is_sorted_by(|one, next| one < next) {
            let names: Vec<&str> = Phase::ALL.iter().map(|phase| phase.name()).collect();
            return refuse(format!("phases come once each, in this order: {}", names.join(", ")));
        }
        Ok(())
    }

    /// Number of files of `client`. Clients differ by at most one.
    #[must_use]
    pub fn files_of(&self, client: u32) -> u64 {
        let clients = u64::from(self.clients);
        self.files / clients + u64::from(u64::from(client) < self.files % clients)
    }

    /// Clients whose files are in the directory of `client`.
    #[must_use]
    pub fn neighbours(&self, client: u32) -> Range<u32> {
        match self.layout {
            Layout::Shared => 0..self.clients,
            Layout::Unique => client..client + 1,
        }
    }

    /// Number of entries in the directory of `client` when all files exist.
    #[must_use]
    pub fn listed_by(&self, client: u32) -> u64 {
        self.neighbours(client).map(|neighbour| self.files_of(neighbour)).sum()
    }

    /// One client for each directory with files.
    #[must_use]
    pub fn directories(&self) -> Range<u32> {
        match self.layout {
            Layout::Shared => 0..1,
            Layout::Unique => 0..self.clients,
        }
    }

    /// Number of directories between the run's own and those with files, or the clients' own.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        match self.layout {
            Layout::Shared => self.depth - 1,
            Layout::Unique => self.depth - 2,
        }
    }

    /// Number of operations of one phase.
    #[must_use]
    pub fn operations(&self, phase: Phase) -> u64 {
        match (phase, self.layout) {
            (Phase::Readdir, Layout::Shared) => self.files * u64::from(self.clients),
            _ => self.files,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        Workload {
            clients: 3,
            files: 10,
            depth: 2,
            layout: Layout::Unique,
            phases: Phase::ALL.to_vec(),
            order: Order::Random,
            seed: 0,
        }
    }

    #[test]
    fn files_are_shared_out_to_the_last() {
        let workload = workload();
        assert_eq!((0..3).map(|client| workload.files_of(client)).collect::<Vec<_>>(), [4, 3, 3]);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_a_reason() {
        assert!(workload().check().is_ok());
        type Spoil = fn(&mut Workload);
        let cases: [(Spoil, &str); 6] = [
            (|workload| workload.clients = 0, "clients"),
            (|workload| workload.files = 2, "3 to"),
            (|workload| workload.depth = 1, "depth 1"),
            (|workload| workload.depth = 513, "depth 513"),
            (|workload| workload.phases = vec![Phase::Stat], "must be create"),
            (|workload| workload.phases.swap(1, 2), "in this order"),
        ];
        for (spoil, word) in cases {
            let mut workload = workload();
            spoil(&mut workload);
            let error = workload.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
