//! Headers of partitions that were read before, and the leaves of a directory as they become known.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hashbrown::HashMap;
use pando_placement::DirMap;
use pando_types::peer::Seen;
use pando_types::reply::SplitHistory;
use pando_types::{DirId, PartitionIndex, ShardIndex};

use crate::contract::{Halt, Write};
use crate::records::keys::{self, Kind};
use crate::records::record::{Header, Record};
use crate::state::ctx::Ctx;

/// Directories that the cache holds at most. When it is full, it is emptied.
pub const REMEMBERED: usize = 1 << 16;

/// A hasher without randomness, so that equal inputs give equal runs. Directory ids are keyed
/// hashes, so a client cannot aim at collisions.
pub type FixedState = foldhash::fast::FixedState;

/// The cache of headers by directory, each list ascending by range.
#[derive(Default)]
pub struct Dirs {
    known: HashMap<DirId, Vec<Header>, FixedState>,
    /// What is known of where other shards have partitions of directories.
    hints: HashMap<DirId, DirMap, FixedState>,
    /// Split directories of which headers were read from the store since this list was last taken.
    loaded: Vec<DirId>,
}

impl Dirs {
    /// Headers of `dir` on this shard. The first call reads them from the store.
    pub(crate) fn headers(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<&[Header], Halt> {
        if !self.known.contains_key(&dir) {
            let mut headers = Vec::new();
            let mut bad = None;
            let (from, to) = keys::dir_range(dir, Kind::Header, &(0..u64::MAX));
            ctx.scan(&from, &to, &mut |_, value| match Header::decode(value) {
                Ok(header) => {
                    headers.push(header);
                    true
                }
                Err(halt) => {
                    bad = Some(halt);
                    false
                }
            })?;
            if let Some(halt) = bad {
                return Err(halt);
            }
            if self.known.len() >= REMEMBERED {
                self.known.clear();
            }
            if headers.is_empty() {
                return Ok(&[]);
            }
            if headers.iter().any(|header| header.partition.0 > 0) {
                self.loaded.push(dir);
            }
            self.known.insert(dir, headers);
        }
        Ok(&self.known[&dir])
    }

    /// Takes over the headers that an input changed or dropped.
    pub fn update(&mut self, changed: &[(DirId, Header)], dropped: &[(DirId, u64)]) {
        for (dir, start) in dropped {
            if let Some(headers) = self.known.get_mut(dir) {
                headers.retain(|h| h.range().start != *start);
                if headers.is_empty() {
                    self.known.remove(dir);
                }
            }
        }
        for (dir, header) in changed {
            // A directory that is not cached is read from the store, with this change, when it is
            // next needed.
            if let Some(headers) = self.known.get_mut(dir) {
                let start = header.range().start;
                match headers.binary_search_by_key(&start, |h| h.range().start) {
                    Ok(at) => headers[at] = header.clone(),
                    Err(at) => headers.insert(at, header.clone()),
                }
            }
        }
    }

    /// Whether `write` is known to lie outside its directory's partition 0, and that partition is
    /// here.
    pub fn is_beside_first(&self, write: &Write) -> bool {
        let (Write::Put(key, _) | Write::Delete(key)) = write else { return false };
        if keys::kind_of(key).is_none_or(|kind| kind < Kind::Header as u8) {
            return false;
        }
        let (Some(dir), Some(order)) = (keys::dir_of(key), keys::order_of(key)) else {
            return false;
        };
        let first = self.known.get(&dir).into_iter().flatten().find(|h| h.partition.0 == 0);
        first.is_some_and(|h| !h.range().contains(&order.0))
    }

    /// Headers of split directories that were read from the store since the last call.
    pub fn take_loaded(&mut self) -> Vec<(DirId, Header)> {
        if self.loaded.is_empty() {
            return Vec::new();
        }
        let of =
            |dir: DirId| self.known.get(&dir).into_iter().flatten().map(move |h| (dir, h.clone()));
        let headers = self.loaded.iter().flat_map(|dir| of(*dir)).collect();
        self.loaded.clear();
        headers
    }

    /// Learns from another shard which partitions it has, and which it has no more.
    pub fn learn(&mut self, dir: DirId, history: &SplitHistory) {
        if self.hints.len() >= REMEMBERED {
            self.hints.clear();
        }
        self.hints.entry(dir).or_default().learn(history);
    }

    /// What is known of where other shards have partitions of `dir`.
    pub fn hint(&self, dir: DirId) -> Option<&DirMap> {
        self.hints.get(&dir)
    }

    /// Forgets where other shards have partitions of `dir`.
    pub fn unlearn(&mut self, dir: DirId) {
        self.hints.remove(&dir);
    }
}

/// What a shard tells of a directory's partitions, from all headers that it has of the directory.
pub fn history(shard: ShardIndex, headers: &[Header]) -> SplitHistory {
    SplitHistory {
        of: Some(shard),
        spread: headers.first().and_then(|h| h.spread),
        leaves: headers.iter().map(|h| (h.partition, h.radix)).collect(),
    }
}

/// The leaves of a directory, as votes of its partitions reveal them. Leaves are only added: a
/// missed partition would be wrong, while a partition that is gone only votes `Busy`.
#[derive(Clone, Default, Debug)]
pub struct Leaves {
    map: DirMap,
    done: BTreeSet<PartitionIndex>,
}

impl Leaves {
    /// Takes in what a vote told, and marks the partition `index` as visited.
    pub fn voted(&mut self, index: Option<PartitionIndex>, seen: &Seen) {
        match seen {
            Seen::Home { history, .. } | Seen::Partition(history, _) => {
                self.map.merge(history);
            }
            _ => {}
        }
        self.done.extend(index);
    }

    /// A partition that has not been visited; `None`: all were.
    pub fn next(&self) -> Option<PartitionIndex> {
        let mut leaves = self.map.leaves().into_iter().map(|(index, _)| index);
        leaves.find(|index| !self.done.contains(index))
    }
}
