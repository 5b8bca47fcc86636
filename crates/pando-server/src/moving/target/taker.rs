//! What a target needs of its process.

use pando_types::{Epoch, ShardIndex};
use pando_wire::{Hosting, MoveToken};

use crate::folder::place::Place;
use crate::store::error::StoreError;
use crate::store::records::Store;

/// What a target needs of its process.
pub trait Taker {
    /// Where copies and shards are kept.
    fn place(&self) -> &dyn Place;
    /// Opens the store of a copy, and makes it if there is none.
    fn open_copy(&self, shard: ShardIndex, epoch_at_least: u64) -> Result<Store, StoreError>;
    /// Makes a random token.
    fn token(&self) -> Result<MoveToken, String>;
    /// This process as the host of a shard.
    fn here(&self, shard: ShardIndex, epoch: Epoch) -> Hosting;
    /// Writes a line to the log.
    fn say(&self, what: &str);
}

/// How a shard is copied.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Size of a page of records, bytes. The source serves nothing else of the shard while it reads
    /// one.
    pub page_bytes: u32,
    /// Records that are copied in a second, bytes.
    pub rate: u64,
    /// Memory of the copy's tree at which a checkpoint is made, bytes.
    pub checkpoint_bytes: usize,
    /// The fault that a test plants.
    #[cfg(feature = "planted")]
    pub planted: Option<crate::common::planted::Planted>,
}
