//! Which partitions of which directories this shard owns: a cache of header records. It answers
//! whether this shard may answer for a name.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hashbrown::HashMap;
use pando_placement::DirMap;
use pando_types::peer::Seen;
use pando_types::reply::{Refusal, SplitHistory};
use pando_types::{DirId, DirRef, Errno, Order, PartitionIndex, ShardIndex};

use crate::contract::{Halt, Write};
use crate::ctx::{Ctx, Stop, broken};
use crate::keys::{self, Kind};
use crate::locks::{Hold, LockKey};
use crate::record::{Content, Header, Record};
use crate::shard::Shard;

/// Directories that the cache holds at most. When it is full, it is emptied.
const REMEMBERED: usize = 1 << 16;

/// A hasher without randomness, so that equal inputs give equal runs. Directory ids are keyed
/// hashes, so a client cannot aim at collisions.
type FixedState = foldhash::fast::FixedState;

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
    fn headers(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<&[Header], Halt> {
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

impl Shard {
    /// Headers of `dir` on this shard, with this input's changes.
    pub(crate) fn headers(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<Vec<Header>, Halt> {
        let headers = self.dirs.headers(ctx, dir)?.iter();
        let now = headers.filter(|h| !ctx.is_dropped(dir, h.range().start));
        Ok(now.map(|h| ctx.header(dir, h.range().start).unwrap_or(h).clone()).collect())
    }

    /// The answer for a directory of which no partition is served here: `ESTALE` from its home, a
    /// redirect to the home from any other shard.
    pub(crate) fn elsewhere(&self, dir: DirRef) -> Stop {
        if !self.is_home(dir.id) {
            return self.not_owner(dir.id.slot());
        }
        // The directory's mkdir may have been answered already, while the decision is on its way
        // here.
        match self.locks.free(LockKey::Home(dir.id)) {
            Ok(()) => Errno::ESTALE.into(),
            Err(stop) => stop,
        }
    }

    /// Whether this shard is the home of `dir`.
    pub(crate) fn is_home(&self, dir: DirId) -> bool {
        self.config.map.home(dir) == self.config.shard
    }

    /// The header of the partition that holds `order`, if this shard may answer for it now. Waits
    /// while the partition is arriving, leaving, sealed or held for a change of permissions.
    pub(crate) fn own(&mut self, ctx: &Ctx<'_>, dir: DirRef, order: Order) -> Result<Header, Stop> {
        let header = self.find_header(ctx, dir, order)?;
        if header.partition.0 == 0
            && let Some(key) = self.closed_slot(dir.id.slot())
        {
            return Err(Stop::Wait(key));
        }
        let key = LockKey::Partition(dir.id, header.partition);
        match self.locks.hold(key) {
            // Held for a change of permissions, which may be answered already.
            Some((_, Hold::Plain | Hold::Seal)) => Err(Stop::Wait(key)),
            Some((_, Hold::Split { from } | Hold::Closing { from }))
                if order.0 >= from && !self.tail_unlocked(header.range().start == from) =>
            {
                Err(Stop::Wait(key))
            }
            _ => Ok(header),
        }
    }

    /// The header of the partition that holds `order`, however the partition is held. Waits while
    /// the partition is on its way here.
    pub(crate) fn find_header(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        order: Order,
    ) -> Result<Header, Stop> {
        let headers = self.dirs.headers(ctx, dir.id)?;
        match headers.first() {
            None => return Err(self.no_partition(dir, order)),
            Some(h) if h.ino != dir.ino => return Err(self.elsewhere(dir)),
            Some(_) => {}
        }
        let at = headers.partition_point(|h| h.range().start <= order.0);
        match at.checked_sub(1).map(|at| &headers[at]) {
            Some(h) if h.range().contains(&order.0) => {
                Ok(ctx.header(dir.id, h.range().start).unwrap_or(h).clone())
            }
            _ => {
                let history = history(self.config.shard, headers);
                match self.arrival(dir.id, order) {
                    Some(key) => Err(Stop::Wait(key)),
                    None => Err(self.astray(dir.id, order, history)),
                }
            }
        }
    }

    /// The answer for a name of a directory of which this shard has only other partitions. By
    /// default it tells these partitions. If they place the name in partition 0, and its hash slot
    /// was handed over, the answer names the slot's owner.
    fn astray(&self, dir: DirId, order: Order, history: SplitHistory) -> Stop {
        let mut map = DirMap::new();
        map.merge(&history);
        let is_first = map.locate(order).0 == PartitionIndex(0);
        match is_first && !self.is_home(dir) {
            true if self.config.map.news(dir.slot()).is_some() => self.not_owner(dir.slot()),
            _ => Refusal::Redirect(history).into(),
        }
    }

    fn no_partition(&self, dir: DirRef, order: Order) -> Stop {
        match self.arrival(dir.id, order) {
            Some(key) => Stop::Wait(key),
            None => self.elsewhere(dir),
        }
    }

    /// The lock of a partition on its way here that will hold `order`. Requests wait for it while
    /// the owner is in doubt.
    fn arrival(&self, dir: DirId, order: Order) -> Option<LockKey> {
        let (index, _) =
            self.locks.arrivals(dir).into_iter().find(|(_, range)| range.contains(&order.0))?;
        Some(LockKey::Partition(dir, index))
    }

    /// The content of a directory that has its home on this shard.
    pub(crate) fn content(&self, ctx: &Ctx<'_>, dir: DirRef) -> Result<Content, Stop> {
        if !self.is_home(dir.id) {
            return Err(self.not_owner(dir.id.slot()));
        }
        match ctx.load::<Content>(&keys::dir(dir.id, Kind::Content, 0))? {
            Some(content) if content.base.ino == dir.ino && !content.tombstone => Ok(content),
            _ => Err(self.elsewhere(dir)),
        }
    }

    pub(crate) fn put_content(&self, ctx: &mut Ctx<'_>, dir: DirId, content: &Content) {
        ctx.put(keys::dir(dir, Kind::Content, 0), content.encode());
    }

    /// Partitions of the directory that this home has. It need not be all: each partition knows its
    /// own children.
    pub(crate) fn history(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<SplitHistory, Halt> {
        Ok(history(self.config.shard, self.dirs.headers(ctx, dir)?))
    }

    /// The shard to ask for an order of a directory, as far as this shard knows.
    pub(crate) fn route(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirId,
        order: Order,
    ) -> Result<ShardIndex, Halt> {
        let headers = self.dirs.headers(ctx, dir)?;
        if headers.iter().any(|h| h.range().contains(&order.0)) {
            return Ok(self.config.shard);
        }
        let history = history(self.config.shard, headers);
        let mut map = self.dirs.hints.get(&dir).cloned().unwrap_or_default();
        map.learn(&history);
        let (index, _) = map.locate(order);
        Ok(map.shard(self.config.map.home(dir), index))
    }

    /// The header of a partition by its index, with this input's changes; `None`: it is not here.
    pub(crate) fn header_of(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirId,
        index: PartitionIndex,
    ) -> Result<Option<Header>, Halt> {
        Ok(self.headers(ctx, dir)?.into_iter().find(|h| h.partition == index))
    }

    /// The header of a partition that this transaction holds. Its absence is an error of the store.
    pub(crate) fn held_header(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<Header, Halt> {
        match self.header_of(ctx, dir.id, index)? {
            Some(header) if header.ino == dir.ino => Ok(header),
            _ => Err(broken("a held partition has no header")),
        }
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
