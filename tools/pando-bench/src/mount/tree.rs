//! The directories of a run on a mounted file system: makes, lists and removes them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use crate::census::Census;
use crate::names;
use crate::{BenchError, Layout, Phase, Workload};

/// Paths of the directories.
pub(super) struct Tree {
    run: PathBuf,
    /// Directories with files: one for each client, or one for all, as the layout says.
    with_files: Vec<PathBuf>,
    layout: Layout,
}

impl Tree {
    /// Makes the directories, below a new directory in `target`.
    pub(super) fn make(target: &Path, workload: &Workload) -> Result<Self, BenchError> {
        let metadata = fs::metadata(target).map_err(BenchError::io("look at", target))?;
        if !metadata.is_dir() {
            let error = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(BenchError::io("work in", target)(error));
        }
        // The path must be absolute: a worker may have another current directory.
        let target = std::path::absolute(target).map_err(BenchError::io("find", target))?;
        let run = target.join(names::run_name());
        fs::create_dir(&run).map_err(BenchError::io("make", &run))?;
        let mut path = run.clone();
        path.extend((0..workload.steps()).map(|_| "d"));
        let with_files = match workload.layout {
            Layout::Shared => vec![path],
            Layout::Unique => {
                let own = workload.directories().map(|client| path.join(format!("c{client:04}")));
                own.collect()
            }
        };
        let tree = Self { run, with_files, layout: workload.layout };
        for path in &tree.with_files {
            if let Err(error) = fs::create_dir_all(path) {
                let _ = tree.clear();
                return Err(BenchError::io("make", path)(error));
            }
        }
        Ok(tree)
    }

    /// The run's own directory.
    pub(super) fn run_directory(&self) -> &Path {
        &self.run
    }

    /// The directory that holds the files of `client`.
    pub(super) fn of(&self, client: u32) -> &Path {
        match self.layout {
            Layout::Shared => &self.with_files[0],
            Layout::Unique => &self.with_files[client as usize],
        }
    }

    /// Lists all directories. Returns the files' inode numbers, by client.
    pub(super) fn census(
        &self,
        workload: &Workload,
        phase: Phase,
    ) -> Result<Vec<Vec<u64>>, BenchError> {
        let mut census = Census::new(workload, phase);
        for (path, owner) in self.with_files.iter().zip(0..) {
            let failed = || BenchError::io("list", path);
            for entry in fs::read_dir(path).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                census.see(owner, entry.file_name().as_bytes(), entry.ino())?;
                if !entry.file_type().map_err(failed())?.is_file() {
                    let what = format!("{} is not listed as a file", entry.path().display());
                    return Err(BenchError::Wrong { phase, what });
                }
            }
        }
        census.finish()
    }

    /// Removes the run's directory with everything in it.
    pub(super) fn clear(&self) -> Result<(), BenchError> {
        fs::remove_dir_all(&self.run).map_err(BenchError::io("remove", &self.run))
    }
}
