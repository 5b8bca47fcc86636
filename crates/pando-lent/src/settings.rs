//! What a holder must know of the volume, and its limits.

use std::sync::Arc;

use pando_placement::{ClusterMap, Secrets};
use pando_types::op::AccessMask;

use crate::journal::Notebook;
use crate::objects::Objects;

/// Nanoseconds of a millisecond.
pub(crate) const MILLIS: u64 = 1_000_000;
/// Elements that may wait for their shard at a time.
pub(crate) const UNSENT_MAX: usize = 256;
/// Elements that are sent at once, however new.
pub(crate) const BATCH: usize = 32;
/// How long an element waits for others, nanoseconds.
pub(crate) const LINGER: u64 = 2 * MILLIS;
/// Age of an element that its shard has not acknowledged, at which no further change is answered,
/// nanoseconds.
pub(crate) const OLDEST: u64 = 1_000 * MILLIS;
/// Bytes of rows that are here at most before a further part is borrowed.
pub(crate) const ROWS_MAX: usize = 128 << 20;
/// A part that is not used for so long is returned, nanoseconds.
pub(crate) const IDLE: u64 = 5_000 * MILLIS;
/// Pause before something is sent again that was lost, nanoseconds.
pub(crate) const AGAIN: u64 = 20 * MILLIS;

/// How long coordinators may take to answer before others are asked, nanoseconds.
pub(crate) const ASK_WITHIN: u64 = 500 * MILLIS;

/// How long requests of a directory that is to be lent wait for those under way, nanoseconds.
pub(crate) const STILL_WITHIN: u64 = 50 * MILLIS;

/// What a holder must know of the volume.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The secrets of its hashes.
    pub secrets: Secrets,
    /// Its shards, and the owners of hash slots.
    pub map: ClusterMap,
    /// Number of changes of a directory after which it is borrowed.
    pub eager_after: u32,
    /// By which accesses files may be opened here, as owner and mode say. `None`: the shards judge
    /// the session's key otherwise, by another user or not at all.
    pub opens: Option<AccessMask>,
    /// Where what was answered is noted. `None`: nowhere, so it ends with the process.
    pub notes: Option<Arc<dyn Notebook>>,
    /// Where the objects are that writes name. `None`: they are durable before they are named.
    pub objects: Option<Arc<dyn Objects>>,
}
