//! Which partitions of which directories this shard owns: a cache of header records. It answers
//! whether this shard may answer for a name.

use alloc::vec::Vec;
use pando_placement::DirMap;
use pando_types::reply::{Refusal, SplitHistory};
use pando_types::{DirId, DirRef, Errno, Order, PartitionIndex, ShardIndex};

use crate::contract::Halt;
use crate::records::keys::{self, Kind};
use crate::records::record::{Content, Header, Record};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::namespace::headers::history;
use crate::state::shard::Shard;
use crate::state::stop::{Stop, broken};

impl Shard {
    /// Headers of `dir` on this shard, with this input's changes.
    pub(crate) fn headers(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<Vec<Header>, Halt> {
        let headers = self.namespace.dirs.headers(ctx, dir)?.iter();
        let now = headers.filter(|h| !ctx.is_dropped(dir, h.range().start));
        Ok(now.map(|h| ctx.header(dir, h.range().start).unwrap_or(h).clone()).collect())
    }

    /// The answer for a directory of which no partition is served here: `ESTALE` from its home, a
    /// redirect to the home from any other shard.
    pub(crate) fn elsewhere(&self, dir: DirRef) -> Stop {
        if !self.is_home(dir.id) {
            return self.not_owner(dir.id.hash_slot());
        }
        // The directory's mkdir may have been answered already, while the decision is on its way
        // here.
        match self.locks.hold(LockKey::Home(dir.id)) {
            None | Some((_, Hold::Read)) => Errno::ESTALE.into(),
            Some(_) => Stop::Wait(LockKey::Home(dir.id)),
        }
    }

    /// Whether this shard is the home of `dir`.
    pub(crate) fn is_home(&self, dir: DirId) -> bool {
        self.config.map.home(dir) == self.config.shard
    }

    /// The header of the partition that holds `order`, if this shard may answer for it now. Waits
    /// while the partition is arriving, leaving, sealed, lent, or held for a change of permissions.
    pub(crate) fn own(&mut self, ctx: &Ctx<'_>, dir: DirRef, order: Order) -> Result<Header, Stop> {
        let header = self.find_header(ctx, dir, order)?;
        // A hash slot with lent parts is not frozen, and an element must pass before it is.
        if header.partition.0 == 0
            && !ctx.runs_element()
            && let Some(key) = self.closed_hash_slot(dir.id.hash_slot())
        {
            return Err(Stop::Wait(key));
        }
        let key = LockKey::Partition(dir.id, header.partition);
        match self.locks.hold(key) {
            // Held for a change of permissions, which may be answered already.
            Some((_, Hold::Plain | Hold::Seal)) => Err(Stop::Wait(key)),
            Some((grant, Hold::Lent)) if !ctx.is_of_grant(grant) => {
                #[cfg(feature = "planted")]
                if self.is_planted(crate::Planted::RecallNotAwaited) {
                    return Ok(header);
                }
                Err(Stop::Wait(key))
            }
            Some((_, Hold::Read)) if !self.passes_readers(ctx, key) => Err(Stop::Wait(key)),
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
        let headers = self.namespace.dirs.headers(ctx, dir.id)?;
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
    /// was handed over, the answer names the hash slot's owner.
    fn astray(&self, dir: DirId, order: Order, history: SplitHistory) -> Stop {
        let mut map = DirMap::new();
        map.merge(&history);
        let is_first = map.locate(order).0 == PartitionIndex(0);
        match is_first && !self.is_home(dir) {
            true if self.config.map.news(dir.hash_slot()).is_some() => {
                self.not_owner(dir.hash_slot())
            }
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
            return Err(self.not_owner(dir.id.hash_slot()));
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
        Ok(history(self.config.shard, self.namespace.dirs.headers(ctx, dir)?))
    }

    /// The shard to ask for an order of a directory, as far as this shard knows.
    pub(crate) fn route(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirId,
        order: Order,
    ) -> Result<ShardIndex, Halt> {
        let headers = self.namespace.dirs.headers(ctx, dir)?;
        if headers.iter().any(|h| h.range().contains(&order.0)) {
            return Ok(self.config.shard);
        }
        let history = history(self.config.shard, headers);
        let mut map = self.namespace.dirs.hint(dir).cloned().unwrap_or_default();
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
