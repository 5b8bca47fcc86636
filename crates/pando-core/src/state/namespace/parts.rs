//! The part of a shard that holds names and inodes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;
use pando_types::{Name, Order};

use crate::records::record::{Shred, Stat};
use crate::state::lookup_cache::LookupCache;
use crate::state::namespace::headers::Dirs;
use crate::state::namespace::opens::Opens;
use crate::state::namespace::program_locks::Locked;
use crate::state::namespace::shreds::Stuck;

/// What a shard remembers of names, inodes and opens.
#[derive(Default)]
pub struct Namespace {
    pub(crate) dirs: Dirs,
    pub(crate) opens: Opens,
    /// Index of the files of which a session has program locks here.
    pub(crate) program_locks: Locked,
    /// Removed files that lose their slices in steps, by the common prefix of the slices' keys.
    pub(crate) shreds: BTreeMap<Vec<u8>, Shred>,
    /// Removals in `shreds` that have slices which could not be read.
    pub(crate) stuck: BTreeMap<Vec<u8>, Stuck>,
    /// No step of `shreds` runs before this time, nanoseconds.
    pub(crate) shreds_until: u64,
    /// Lookup cache: what the last lookups of names found.
    pub(crate) lookup_cache: LookupCache,
    /// The name that was hashed last, and its order.
    pub(crate) last_order: Cell<Option<(Name, Order)>>,
    pub(crate) stat: Stat,
}
