//! Which partitions of which directories this shard owns: a cache of header records, and the one
//! question asked of it: may I answer for this name?

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

/// Directories remembered; beyond it the cache starts afresh.
const REMEMBERED: usize = 1 << 16;

/// A hasher without randomness: the same inputs give the same run. Directory ids are keyed hashes
/// already, so nobody can aim at it.
type FixedState = foldhash::fast::FixedState;

/// Headers by directory, each list ascending by range.
#[derive(Default)]
pub struct Dirs {
    known: HashMap<DirId, Vec<Header>, FixedState>,
    /// What is known of directories whose partitions are elsewhere.
    hints: HashMap<DirId, DirMap, FixedState>,
    /// Split directories whose headers were read from the store since this was last taken.
    loaded: Vec<DirId>,
}

impl Dirs {
    /// Headers of `dir` on this shard, from the store at first.
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

    /// Takes over what an input changed.
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
            // A directory that is not cached is read from the store, change included, when next
            // asked for.
            if let Some(headers) = self.known.get_mut(dir) {
                let start = header.range().start;
                match headers.binary_search_by_key(&start, |h| h.range().start) {
                    Ok(at) => headers[at] = header.clone(),
                    Err(at) => headers.insert(at, header.clone()),
                }
            }
        }
    }

    /// Whether a row is known not to be of its directory's first partition, which is here.
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

    /// Headers that were read from the store since this was last asked.
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

    /// Learns where partitions are, and where they are no more.
    pub fn learn(&mut self, dir: DirId, history: &SplitHistory) {
        if self.hints.len() >= REMEMBERED {
            self.hints.clear();
        }
        self.hints.entry(dir).or_default().learn(history);
    }

    /// Forgets where partitions are.
    pub fn unlearn(&mut self, dir: DirId) {
        self.hints.remove(&dir);
    }
}

/// What a shard tells about a directory, from all headers that it has of it.
pub fn history(shard: ShardIndex, headers: &[Header]) -> SplitHistory {
    SplitHistory {
        of: Some(shard),
        spread: headers.first().and_then(|h| h.spread),
        leaves: headers.iter().map(|h| (h.partition, h.radix)).collect(),
    }
}

impl Shard {
    /// Headers of `dir` on this shard, this input's changes included.
    pub(crate) fn headers(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<Vec<Header>, Halt> {
        let headers = self.dirs.headers(ctx, dir)?.iter();
        let now = headers.filter(|h| !ctx.is_dropped(dir, h.range().start));
        Ok(now.map(|h| ctx.header(dir, h.range().start).unwrap_or(h).clone()).collect())
    }

    /// Whether `dir` is (still) to be served here at all: `ESTALE` from its home, "ask the home"
    /// from others.
    pub(crate) fn elsewhere(&self, dir: DirRef) -> Stop {
        if !self.is_home(dir.id) {
            return self.not_owner(dir.id.slot());
        }
        // Its mkdir may have been answered while the word of it is still on its way here.
        match self.locks.free(LockKey::Home(dir.id)) {
            Ok(()) => Errno::ESTALE.into(),
            Err(stop) => stop,
        }
    }

    /// Whether this shard is the home of `dir`.
    pub(crate) fn is_home(&self, dir: DirId) -> bool {
        self.config.map.home(dir) == self.config.shard
    }

    /// The header of the partition that holds `order`, if it is this shard's to answer now. Waits
    /// for a partition on its way, and for a sealed one.
    pub(crate) fn own(&mut self, ctx: &Ctx<'_>, dir: DirRef, order: Order) -> Result<Header, Stop> {
        let header = self.find_header(ctx, dir, order)?;
        if header.partition.0 == 0
            && let Some(key) = self.closed_slot(dir.id.slot())
        {
            return Err(Stop::Wait(key));
        }
        let key = LockKey::Partition(dir.id, header.partition);
        match self.locks.hold(key) {
            // Held for a change of its permissions, which may be answered already.
            Some((_, Hold::Plain | Hold::Seal)) => Err(Stop::Wait(key)),
            Some((_, Hold::Split { from } | Hold::Closing { from }))
                if order.0 >= from && !self.tail_unlocked(header.range().start == from) =>
            {
                Err(Stop::Wait(key))
            }
            _ => Ok(header),
        }
    }

    /// The same, however the partition is held.
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

    /// What is said of a name of a directory of which other partitions are here. If, as far as they
    /// tell, it is in partition 0, which is not here since its slot was handed over, then where
    /// that is; else what they tell.
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

    /// The lock of a partition on its way here that will hold `order`: while its owner is in doubt,
    /// requests wait.
    fn arrival(&self, dir: DirId, order: Order) -> Option<LockKey> {
        let (index, _) =
            self.locks.arrivals(dir).into_iter().find(|(_, range)| range.contains(&order.0))?;
        Some(LockKey::Partition(dir, index))
    }

    /// The content of a directory whose home this is.
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

    /// All that this home knows of where the directory's partitions are. Not all that there are:
    /// each partition knows its own children.
    pub(crate) fn history(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<SplitHistory, Halt> {
        Ok(history(self.config.shard, self.dirs.headers(ctx, dir)?))
    }

    /// Which shard to ask for an order, as far as is known here.
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

    /// A header by its partition's index.
    pub(crate) fn header_of(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirId,
        index: PartitionIndex,
    ) -> Result<Option<Header>, Halt> {
        Ok(self.headers(ctx, dir)?.into_iter().find(|h| h.partition == index))
    }

    /// A header that must be there, since this transaction holds it.
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

/// The leaves of a directory, as the votes of its partitions reveal them. Nothing is ever taken
/// out: to miss a partition would be worse than to ask for one that is gone, whose vote is `Busy`.
#[derive(Clone, Default, Debug)]
pub struct Leaves {
    map: DirMap,
    done: BTreeSet<PartitionIndex>,
}

impl Leaves {
    /// Takes in what a vote told of the partition `index`.
    pub fn voted(&mut self, index: Option<PartitionIndex>, seen: &Seen) {
        match seen {
            Seen::Home { history, .. } | Seen::Partition(history, _) => {
                self.map.merge(history);
            }
            _ => {}
        }
        self.done.extend(index);
    }

    /// A partition not yet visited.
    pub fn next(&self) -> Option<PartitionIndex> {
        let mut leaves = self.map.leaves().into_iter().map(|(index, _)| index);
        leaves.find(|index| !self.done.contains(index))
    }
}
