//! The phases of a run, as one worker does them.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// One phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// `open(O_CREAT | O_EXCL | O_WRONLY)` and `close` of every file.
    Create,
    /// `stat` of every file.
    Stat,
    /// `unlink` of every file.
    Unlink,
}

impl Phase {
    /// In the order they run.
    pub const ALL: [Self; 3] = [Self::Create, Self::Stat, Self::Unlink];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::Unlink => "unlink",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.word() == word)
    }
}

/// What one worker works on.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub directory: PathBuf,
    pub worker: u32,
    pub files: u64,
}

impl Task {
    pub(super) fn run(&self, phase: Phase) -> io::Result<()> {
        for index in 0..self.files {
            let path = self.directory.join(format!("file.{}.{index}", self.worker));
            let result = match phase {
                Phase::Create => {
                    fs::OpenOptions::new().write(true).create_new(true).open(&path).map(drop)
                }
                Phase::Stat => fs::symlink_metadata(&path).map(drop),
                Phase::Unlink => fs::remove_file(&path),
            };
            result.map_err(|error| {
                let text = format!("{} {}: {error}", phase.word(), path.display());
                io::Error::new(error.kind(), text)
            })?;
        }
        Ok(())
    }
}
