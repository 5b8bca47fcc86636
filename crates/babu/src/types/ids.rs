//! Numbers of the store: positions in its history, and its indices.

use std::fmt;

/// Log sequence number: the number of an insert group, counted since the database was created. The
/// first group is 1; 0 means "before every group".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position after this one.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of openings of the database. An epoch and an [`Lsn`] together name a group for ever. A
/// loss of power may make a later opening reuse the number of a group that was never durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of an index. A database has a default index, number 0, and those that
/// [`crate::Db::index`] has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IndexId(pub(crate) u16);

impl IndexId {
    /// The default index, which every database has.
    pub const DEFAULT: IndexId = IndexId(0);

    pub(crate) fn position(self) -> usize {
        usize::from(self.0)
    }
}
