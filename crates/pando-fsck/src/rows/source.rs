//! The interfaces to rows and objects, and to repairs. The caller has the stores or the network.

use std::ops::Range;

use pando_core::Write;
use pando_types::ShardIndex;
use pando_types::op::ObjectId;

/// A key with its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Some rows of a shard, ascending by key, as they were at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// Whether nothing comes after them.
    pub is_last: bool,
    /// A range that cannot be read and comes next. Then the page has no rows and is not the last.
    pub gap: Option<Gap>,
}

/// A range of keys that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The keys. The range may begin before the key that was asked for.
    pub keys: Range<Vec<u8>>,
    /// The reason, for people, with the name of the file.
    pub why: String,
}

/// Read access to the stores of all shards.
pub trait Rows {
    /// Rows from key `from` on, about `bytes` bytes of them. At least one row, if there is one, and
    /// none left out. Each page is consistent in itself. While the volume runs, pages are not
    /// consistent with each other. Errors are texts for people.
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String>;
}

/// Write access to the stores of a stopped volume, for repairs.
pub trait Repairs: Rows {
    /// Applies `writes` to one shard as one insert group, durably.
    fn write(&mut self, shard: ShardIndex, writes: Vec<Write>) -> Result<(), String>;
}

/// An object as its store lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Id of the object.
    pub id: ObjectId,
    /// Bytes that it takes in the store, with all that the store adds to the content.
    pub bytes: u64,
}

/// The object store.
pub trait Objects {
    /// Objects with ids above `after` (`None`: from the first), ascending, at most `most`. An empty
    /// list means the end.
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String>;
    /// Bytes that an object takes; `None` if it does not exist.
    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String>;
    /// Bytes that an object with `content` bytes of content takes.
    fn size_for(&self, content: u64) -> u64;
    /// Deletes an object. A missing object is no error.
    fn delete(&mut self, id: ObjectId) -> Result<(), String>;
}

/// Progress of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A shard is being read.
    Sweep {
        /// The shard.
        shard: ShardIndex,
        /// Number of rows read so far, of all shards.
        rows: u64,
    },
    /// Objects are being listed; their number so far.
    Objects(u64),
    /// Suspicions are being looked at; their number so far.
    Suspects(u64),
}

/// Observes the progress of a check.
pub trait Watch {
    /// Called from time to time.
    fn progress(&mut self, _progress: Progress) {}
    /// Waits some seconds, so that unfinished operations can end. (A transaction is sent again
    /// after 0.2 s.) Called only for running volumes.
    fn pause(&mut self) {}
}

/// Observes nothing.
pub struct Unwatched;

impl Watch for Unwatched {}
