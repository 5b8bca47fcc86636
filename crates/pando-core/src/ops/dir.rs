//! Attributes of directories, as their home and the owners of their partitions know them.

use alloc::string::String;
use alloc::vec::Vec;
use pando_types::op::AccessMask;
use pando_types::reply::{Body, DirAttr, Inspected, SplitHistory};
use pando_types::{Credentials, DirId, DirRef, FileKind, PartitionIndex};

use crate::namespace::perm;
use crate::records::record::{Content, Header};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::namespace::headers::history;
use crate::state::shard::Shard;
use crate::state::stop::Stop;

impl Shard {
    pub(crate) fn dir_getattr(&mut self, ctx: &Ctx<'_>, dir: DirRef) -> Result<Body, Stop> {
        self.content_is_settled(dir.id)?;
        let content = self.content(ctx, dir)?;
        Ok(Body::Dir(self.dir_attr(ctx, dir.id, content)?))
    }

    /// What the home tells of a directory's attributes.
    pub(crate) fn dir_attr(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirId,
        content: Content,
    ) -> Result<DirAttr, Stop> {
        let mut headers = self.headers(ctx, dir)?;
        if ctx.lent.is_some() {
            // The client asks a holder for its other parts one by one: each has a hold of its own.
            headers.retain(|header| header.partition == PartitionIndex(0));
        }
        for header in &headers {
            self.counts_are_here(ctx, dir, header)?;
            self.counts_are_settled(dir, header)?;
        }
        Ok(DirAttr {
            base: content.base,
            generation: content.generation,
            deltas: headers.iter().map(|h| h.delta(self.config.shard)).collect(),
            history: self.told_history(ctx, &headers),
        })
    }

    /// What these partitions tell of a directory. A holder does not know which others there are.
    fn told_history(&self, ctx: &Ctx<'_>, headers: &[Header]) -> SplitHistory {
        let whole = history(self.config.shard, headers);
        let of = whole.of.filter(|_| ctx.lent.is_none());
        SplitHistory { of, ..whole }
    }

    pub(crate) fn partition_stat(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        index: PartitionIndex,
    ) -> Result<Body, Stop> {
        let start = pando_placement::range(index, pando_types::Radix::MAX).start;
        let header = self.find_header(ctx, dir, pando_types::Order(start))?;
        if header.partition != index {
            let headers = self.headers(ctx, dir.id)?;
            let history = history(self.config.shard, &headers);
            return Err(pando_types::reply::Refusal::Redirect(history).into());
        }
        self.counts_are_here(ctx, dir.id, &header)?;
        self.counts_are_settled(dir.id, &header)?;
        Ok(Body::Delta(header.delta(self.config.shard)))
    }

    /// Waits until the counts of a partition are certain. A child may be coming back to the
    /// partition: its source may already say that it has the child no more. Transactions of other
    /// shards may be changing names in the partition: their callers may have been answered already.
    fn counts_are_settled(&self, dir: DirId, header: &Header) -> Result<(), Stop> {
        let key = LockKey::Partition(dir, header.partition);
        if let Some((_, Hold::Arrival { .. })) = self.locks.hold(key) {
            return Err(Stop::Wait(key));
        }
        match self.locks.name_of_others(dir, &header.range(), self.config.shard) {
            Some(name) => Err(Stop::Wait(name)),
            None => Ok(()),
        }
    }

    pub(crate) fn dir_access(
        &mut self,
        ctx: &Ctx<'_>,
        dir: DirRef,
        mask: AccessMask,
        credentials: &Credentials,
    ) -> Result<Body, Stop> {
        self.content_is_settled(dir.id)?;
        let base = self.content(ctx, dir)?.base;
        perm::check(FileKind::Directory, base.mode, base.uid, base.gid, credentials, mask)?;
        Ok(Body::Done)
    }

    pub(crate) fn parent(&mut self, ctx: &Ctx<'_>, dir: DirRef) -> Result<Body, Stop> {
        self.content_is_settled(dir.id)?;
        let content = self.content(ctx, dir)?;
        Ok(Body::Parent(content.parent, content.name))
    }

    pub(crate) fn inspect(&mut self, ctx: &Ctx<'_>, dir: DirId) -> Result<Body, Stop> {
        let headers = self.headers(ctx, dir)?;
        let state =
            |h: &Header| match self.locks.hold(LockKey::Partition(dir, h.partition)) {
                None => "owned",
                Some((_, Hold::Plain)) => "held",
                Some((_, Hold::Seal)) => "sealed",
                Some((_, Hold::Copy)) => "copying",
                Some((_, Hold::Closing { from } | Hold::Split { from })) => {
                    if from == h.range().start { "merging" } else { "splitting" }
                }
                Some((_, Hold::Arrival { .. })) => "merging",
                Some((_, Hold::Lent)) => "lent",
                Some((_, Hold::Read)) => "read",
            };
        let inspected: Vec<_> = headers
            .iter()
            .map(|h| Inspected { delta: h.delta(self.config.shard), state: String::from(state(h)) })
            .collect();
        Ok(Body::Inspected(inspected))
    }
}
