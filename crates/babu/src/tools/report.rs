//! What checks find.

use crate::log::recover::TornTail;
use crate::types::error::{Damage, ReadError};

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of index files and logs that were read.
    pub files: u64,
    /// Number of intact index blocks.
    pub blocks: u64,
    /// Number of entries in these blocks.
    pub entries: u64,
    /// Number of intact log groups.
    pub groups: u64,
    /// The unfinished end of the log, which the next opening cuts. It is no damage.
    pub torn: Option<TornTail>,
    /// Everything that has changed since it was written, or cannot be read.
    pub damage: Vec<Damage>,
}

impl Report {
    /// True if the check found no damage.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }

    /// Notes what cannot be read. A place is noted once.
    pub(crate) fn note<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        let damage = match result {
            Ok(value) => return Some(value),
            Err(ReadError::Damaged(damage)) => damage,
            Err(ReadError::Io(failure)) => Damage::new(&failure.file, 0, failure.to_string()),
            Err(error @ ReadError::Version { .. }) => {
                let what = error.to_string();
                let ReadError::Version { file, .. } = error else {
                    return None;
                };
                Damage::new(&file, 0, what)
            }
        };
        let known = |other: &Damage| other.file == damage.file && other.offset == damage.offset;
        if !self.damage.iter().any(known) {
            self.damage.push(damage);
        }
        None
    }

    /// Notes what does not fit together.
    pub(crate) fn note_deep(&mut self, file: &str, what: String) {
        let damage = Damage::new(file, 0, what);
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }
}
