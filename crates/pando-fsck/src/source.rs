//! Where rows and objects come from, and where repairs go. The caller has the stores or the
//! network.

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
    /// What comes next cannot be read. There are no rows then, and it is not the last page.
    pub gap: Option<Gap>,
}

/// Keys of which nothing is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Which; the first may be before those that were asked for.
    pub keys: Range<Vec<u8>>,
    /// Why, for people, with the name of the file.
    pub why: String,
}

/// The stores of all shards, to read.
pub trait Rows {
    /// Rows from key `from` on, about `bytes` of them: at least one, if there is one, and none left
    /// out. Each page is consistent in itself; pages are not among each other while the volume
    /// runs. Errors are for people.
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String>;
}

/// The stores of all shards of a stopped volume, to repair.
pub trait Repairs: Rows {
    /// Applies `writes` to one shard as one insert group, durably.
    fn write(&mut self, shard: ShardIndex, writes: Vec<Write>) -> Result<(), String>;
}

/// An object as its store lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Which.
    pub id: ObjectId,
    /// Bytes it takes in the store, whatever the store adds to the content included.
    pub bytes: u64,
}

/// The object store.
pub trait Objects {
    /// Objects with ids above `after` (`None`: from the first), ascending, at most `most`. None:
    /// that was all.
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String>;
    /// Bytes one object takes; `None`: it is not there.
    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String>;
    /// Bytes that an object with `content` bytes in it takes.
    fn size_for(&self, content: u64) -> u64;
    /// Deletes an object; that it is not there is no error.
    fn delete(&mut self, id: ObjectId) -> Result<(), String>;
}

/// How far a check is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// This shard is being read; so many rows of all shards have been.
    Sweep {
        /// Which shard.
        shard: ShardIndex,
        /// Rows read.
        rows: u64,
    },
    /// Objects are listed; so many were.
    Objects(u64),
    /// So many suspicions are looked at closely.
    Suspects(u64),
}

/// Who watches a check.
pub trait Watch {
    /// Called now and then.
    fn progress(&mut self, _progress: Progress) {}
    /// Returns after operations that are under way have had time to come to their end (seconds; a
    /// transaction is sent again after 0.2 s). Called only for running volumes.
    fn pause(&mut self) {}
}

/// Nobody watches.
pub struct Unwatched;

impl Watch for Unwatched {}
