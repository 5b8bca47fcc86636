//! Why a store fails, and whether it has room.

use std::fmt;

/// The store has failed for good, or could not be opened. Names the folder and the file, and says
/// why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreError {
    /// The error in words.
    pub what: String,
    /// Whether bytes on disk differ from those that were written. Otherwise the disk has refused
    /// something.
    pub is_damage: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StoreError {}

/// Whether there is room for a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Room {
    /// There is room.
    Enough,
    /// The disk is full.
    Full,
    /// The store has failed.
    Failed(String),
}
