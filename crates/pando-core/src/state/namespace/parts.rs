//! The part of a shard that holds names and inodes.

use core::cell::Cell;
use pando_types::{Name, Order};

use crate::records::record::Stat;
use crate::state::lookup_cache::LookupCache;
use crate::state::namespace::headers::Dirs;
use crate::state::namespace::opens::Opens;
use crate::state::namespace::program_locks::Locked;
use crate::state::namespace::shreds::Shreds;

/// What a shard remembers of names, inodes and opens.
#[derive(Default)]
pub struct Namespace {
    pub(crate) dirs: Dirs,
    pub(crate) opens: Opens,
    /// Index of the files of which a session has program locks here.
    pub(crate) program_locks: Locked,
    /// Removed files that lose their slices in steps.
    pub(crate) shreds: Shreds,
    /// Lookup cache: what the last lookups of names found.
    lookup_cache: LookupCache,
    /// The name that was hashed last, and its order.
    last_order: Cell<Option<(Name, Order)>>,
    stat: Stat,
}

impl Namespace {
    /// Loads the statistics from their record, at the start.
    pub(crate) fn load_stat(&mut self, stat: Stat) {
        self.stat = stat;
    }

    /// Inodes and bytes on this shard.
    pub(crate) fn stat(&self) -> Stat {
        self.stat
    }

    /// Adds to the inodes and bytes on this shard.
    pub(crate) fn add_stat(&mut self, (inodes, bytes): (i64, i64)) {
        self.stat.inodes = self.stat.inodes.saturating_add_signed(inodes);
        self.stat.bytes = self.stat.bytes.wrapping_add_signed(bytes);
    }

    /// Lends the lookup cache to an input.
    pub(crate) fn lend_lookup_cache(&mut self) -> LookupCache {
        core::mem::take(&mut self.lookup_cache)
    }

    /// Takes the lookup cache back, as an input leaves it.
    pub(crate) fn return_lookup_cache(&mut self, lookup_cache: LookupCache) {
        self.lookup_cache = lookup_cache;
    }

    /// The order of a name, which `hash` computes. Parts of one operation ask for the order of one
    /// name, so the last order is cached.
    pub(crate) fn order(&self, name: &Name, hash: impl FnOnce(&Name) -> Order) -> Order {
        let last = self.last_order.take();
        let order = match &last {
            Some((known, order)) if known == name => *order,
            _ => {
                let order = hash(name);
                self.last_order.set(Some((name.clone(), order)));
                return order;
            }
        };
        self.last_order.set(last);
        order
    }
}
