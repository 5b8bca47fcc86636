//! Checks listings: every file is listed once, no foreign name is listed, and no file is missing.

use crate::names::parse;
use crate::{BenchError, Phase, Workload};

/// The listings of one run's directories, when all files exist or when all are removed.
pub struct Census<'a> {
    workload: &'a Workload,
    phase: Phase,
    /// Inode number of each file of each client; 0 if it was not listed yet.
    inos: Vec<Vec<u64>>,
}

impl<'a> Census<'a> {
    /// An empty census. The `phase` that ran last determines which files must exist.
    #[must_use]
    pub fn new(workload: &'a Workload, phase: Phase) -> Self {
        let of = |client| if phase == Phase::Unlink { 0 } else { workload.files_of(client) };
        let inos = (0..workload.clients).map(|client| vec![0; of(client) as usize]).collect();
        Self { workload, phase, inos }
    }

    /// Checks one entry of the directory of `client`, and notes it.
    pub fn see(&mut self, client: u32, name: &[u8], ino: u64) -> Result<(), BenchError> {
        let wrong = |what: &str| {
            let what = format!("the listing has {} {what}", name.escape_ascii());
            Err(BenchError::Wrong { phase: self.phase, what })
        };
        let Some((owner, file)) = parse(name) else { return wrong("which nobody made") };
        if !self.workload.neighbours(client).contains(&owner) {
            return wrong("which belongs to another directory");
        }
        let seen = self.inos.get_mut(owner as usize).and_then(|of| of.get_mut(file as usize));
        match seen {
            None => wrong("which should not be there"),
            Some(_) if ino == 0 => wrong("with inode number 0"),
            Some(seen @ 0) => {
                *seen = ino;
                Ok(())
            }
            Some(_) => wrong("twice"),
        }
    }

    /// Ends the census, once all directories were listed. Returns the files' inode numbers, by
    /// client.
    pub fn finish(self) -> Result<Vec<Vec<u64>>, BenchError> {
        let missing: usize =
            self.inos.iter().map(|of| of.iter().filter(|ino| **ino == 0).count()).sum();
        if missing > 0 {
            let what =
                format!("{missing} of {} files are missing in the listing", self.workload.files);
            return Err(BenchError::Wrong { phase: self.phase, what });
        }
        Ok(self.inos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Order};

    fn workload() -> Workload {
        Workload {
            clients: 2,
            files: 3,
            depth: 2,
            layout: Layout::Unique,
            phases: vec![Phase::Create],
            order: Order::Sequential,
            seed: 0,
        }
    }

    #[test]
    fn every_name_is_wanted_once() {
        let workload = workload();
        let mut census = Census::new(&workload, Phase::Create);
        census.see(0, b"c0000-00000000", 5).unwrap();
        census.see(0, b"c0000-00000001", 6).unwrap();
        census.see(1, b"c0001-00000000", 7).unwrap();
        for (directory, name, word) in [
            (0, &b"c0000-00000001"[..], "twice"),
            (0, b"c0000-00000002", "should not"),
            (0, b"c0001-00000000", "another directory"),
            (0, b"thesis.tex", "nobody made"),
        ] {
            let error = census.see(directory, name, 9).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(census.finish().unwrap(), [vec![5, 6], vec![7]]);
    }

    #[test]
    fn what_is_missing_and_what_is_left_is_noticed() {
        let workload = workload();
        let error = Census::new(&workload, Phase::Create).finish().unwrap_err().to_string();
        assert!(error.contains("3 of 3"), "{error}");
        let mut census = Census::new(&workload, Phase::Unlink);
        assert!(census.see(0, b"c0000-00000001", 6).is_err());
        assert!(census.finish().is_ok());
    }
}
