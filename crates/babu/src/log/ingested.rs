//! Index files that a group of the log names.

use crate::index::format::facts::FileFacts;
use crate::index::format::header::index_name;

/// An ingested file, as the log names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestedFile {
    pub(crate) facts: FileFacts,
    pub(crate) digest: u128,
}

impl IngestedFile {
    /// Name of the file in the database's folder, where it stays as long as it is needed.
    pub fn name(&self) -> String {
        index_name(self.facts.number)
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.facts.len
    }

    /// Number of entries in the file.
    pub fn entries(&self) -> u64 {
        self.facts.entries
    }

    /// XXH3-128 of the file's bytes.
    pub fn digest(&self) -> u128 {
        self.digest
    }
}
