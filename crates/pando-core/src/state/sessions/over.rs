//! A session that is over, and what it has left here.

use alloc::vec::Vec;
use pando_types::{Ino, KeyId};

/// A session that is over here, and has left something or is not known to be over everywhere.
#[derive(Clone, Debug)]
pub struct Over {
    /// The key to which the session belonged, if it is known.
    pub key: Option<KeyId>,
    /// Position of the session's end.
    pub at: u64,
    /// Inodes that the session had open when cleaning began, and that are not cleaned yet. `None`:
    /// cleaning has not begun.
    pub(super) opens: Option<Vec<Ino>>,
    /// Inodes that could not be read.
    pub(super) stuck: Vec<Ino>,
}

impl Over {
    pub const fn new(key: Option<KeyId>, at: u64) -> Self {
        Self { key, at, opens: None, stuck: Vec::new() }
    }
}
