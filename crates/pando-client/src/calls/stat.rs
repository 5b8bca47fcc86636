//! `stat` of a directory: its content record, and the counts of all its partitions added up.
//!
//! That takes one message while the directory is unsplit. Else the client asks the home and all
//! known partitions at once. An answer that is deeper than expected leads to partitions that were
//! split off, until the answers tile the directory. A partition that is gone was given back to its
//! parent. If the parent has answered before, it is asked again.
//!
//! The sum is not atomic: each partition is counted at its own moment. But no entry is counted
//! twice, and none is left out. A partition that splits after it answered has answered for its
//! children. One that has taken another back answers for both.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_util::stream::{self, StreamExt};
use pando_placement::{DirMap, range};
use pando_types::op::Op;
use pando_types::reply::{Body, Delta, DirAttr, Refusal, SplitHistory};
use pando_types::{Attr, DirRef, Errno, PartitionIndex, Radix, ShardIndex, Timestamp};

use crate::cache::on_path::At;
use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::backoff::Backoff;
use crate::request::outcome::{stale, take};
use crate::request::pending::Via;
use crate::route::plan::Route;

/// Rounds that may pass without progress before the call fails with `EIO`.
const ROUNDS_MAX: u32 = 64;
/// Rounds with progress, after which further ones count as without progress.
const LEARNED_MAX: u32 = 48;
/// Most partitions asked at once.
const ASKED_MAX: usize = 128;

impl Client {
    /// Attributes of a directory. `ESTALE` if it is gone.
    pub(crate) async fn stat_dir(&self, at: At<'_>) -> Result<Attr, Errno> {
        let dir = at.dir;
        let elsewhere = self.routes.partitions_elsewhere(dir);
        if !elsewhere.is_empty() {
            return Box::pin(self.stat_split(at, elsewhere)).await;
        }
        let home = self.home_of(at).await?;
        self.complete(dir, home).await
    }

    /// The shards that have a part of a directory. Each has answered since the call began. `ESTALE`
    /// if the directory is gone.
    pub(crate) async fn shards_of_dir(&self, dir: DirRef) -> Result<BTreeSet<ShardIndex>, Errno> {
        let home = self.home_of(At { dir, on: None }).await?;
        let mut shards: BTreeSet<ShardIndex> = home.history.of.into_iter().collect();
        let mut fitting = self.begin_fitting_at(dir, home);
        self.ask_missing(&mut fitting).await?;
        shards.extend(fitting.tiles.0.into_values().map(|delta| delta.shard));
        Ok(shards)
    }

    async fn home_of(&self, at: At<'_>) -> Result<DirAttr, Errno> {
        let body = self.run_by(SYSTEM, &Op::DirGetAttr(at.dir), at.on).await.map_err(stale)?;
        take!(body, Body::Dir(home) => home)
    }

    /// Asks the home and all partitions known to be elsewhere, at once. It waits for another
    /// partition only if the home's answer, and the answers so far, need it.
    async fn stat_split(
        &self,
        at: At<'_>,
        elsewhere: Vec<(PartitionIndex, ShardIndex)>,
    ) -> Result<Attr, Errno> {
        let mut home = pin!(self.home_of(at));
        let mut others: Vec<_> = elsewhere
            .into_iter()
            .map(|(i, owner)| (i, Other::Asked(Box::pin(self.part(at.dir, i, owner)))))
            .collect();
        let mut fitting = None;
        let begun = poll_fn(|context| {
            if fitting.is_none()
                && let Poll::Ready(answer) = home.as_mut().poll(context)
            {
                match answer.map(|home| self.begin_fitting(at.dir, home)) {
                    Ok(Begun::Fitting(begun)) => fitting = Some(begun),
                    other => return Poll::Ready(other),
                }
            }
            for (_, other) in &mut others {
                if let Other::Asked(part) = other
                    && let Poll::Ready(answer) = part.as_mut().poll(context)
                {
                    *other = Other::Answered(answer);
                }
            }
            let Some(mut fits) = fitting.take() else { return Poll::Pending };
            for (_, other) in &mut others {
                if let Other::Answered(Ok(part)) = other {
                    self.fit_in(part, &mut fits);
                    *other = Other::Fitted;
                }
            }
            let missing = fits.missing();
            let needed = || others.iter().filter(|(i, _)| missing.contains(i));
            if needed().any(|(_, other)| matches!(other, Other::Asked(_))) {
                fitting = Some(fits);
                return Poll::Pending;
            }
            // After a failed request a partition is not asked again.
            let failed = needed().find_map(|(_, other)| match other {
                Other::Answered(Err(errno)) => Some(*errno),
                _ => None,
            });
            Poll::Ready(failed.map_or(Ok(Begun::Fitting(fits)), Err))
        });
        match begun.await? {
            Begun::Whole(attr) => Ok(attr),
            Begun::Fitting(fitting) => self.fit(fitting).await,
        }
    }

    /// Adds the counts of the other partitions to the home's answer.
    pub(crate) async fn complete(&self, dir: DirRef, home: DirAttr) -> Result<Attr, Errno> {
        match self.begin_fitting(dir, home) {
            Begun::Whole(attr) => Ok(attr),
            Begun::Fitting(fitting) => Box::pin(self.fit(fitting)).await,
        }
    }

    fn begin_fitting(&self, dir: DirRef, home: DirAttr) -> Begun {
        if let [only] = home.deltas[..]
            && only.radix.0 == 0
        {
            self.routes.is_whole(dir);
            return Begun::Whole(merge(home.base, home.generation, [only]));
        }
        Begun::Fitting(self.begin_fitting_at(dir, home))
    }

    fn begin_fitting_at(&self, dir: DirRef, home: DirAttr) -> Fitting {
        self.routes.learn(dir, &home.history);
        let mut map = self.routes.map(dir);
        map.learn(&home.history);
        let mut tiles = Tiles::default();
        for delta in home.deltas {
            tiles.add(delta, &mut map);
        }
        Fitting { dir, base: home.base, generation: home.generation, map, tiles }
    }

    async fn fit(&self, mut fitting: Fitting) -> Result<Attr, Errno> {
        self.ask_missing(&mut fitting).await?;
        Ok(merge(fitting.base, fitting.generation, fitting.tiles.0.into_values()))
    }

    /// Asks until the answers tile the directory.
    async fn ask_missing(&self, fitting: &mut Fitting) -> Result<(), Errno> {
        let dir = fitting.dir;
        let mut backoff = Backoff::astray();
        let (mut fruitless, mut learned) = (0, 0);
        loop {
            let missing = fitting.missing();
            if missing.is_empty() {
                // Remembers how deep each partition is, so that the next call asks all at once.
                if fitting.map != self.routes.map(dir) {
                    self.routes.learn(dir, &fitting.map.history());
                }
                return Ok(());
            }
            let mut is_progress = false;
            let ask = |i| self.part(dir, i, self.routes.owner(dir, &fitting.map, i));
            let asked = stream::iter(missing.into_iter().map(ask)).buffered(ASKED_MAX);
            for part in asked.collect::<Vec<_>>().await {
                is_progress |= self.fit_in(&part?, fitting);
            }
            if is_progress && learned < LEARNED_MAX {
                learned += 1;
            } else {
                fruitless += 1;
                if fruitless >= ROUNDS_MAX {
                    return Err(Errno::EIO);
                }
                backoff.pause(self).await;
                // Was it removed meanwhile? Its home knows.
                self.run_plain(SYSTEM, Op::DirGetAttr(dir)).await.map_err(stale)?;
            }
        }
    }

    /// Takes in a partition's answer; true if that is progress.
    fn fit_in(&self, part: &Part, fitting: &mut Fitting) -> bool {
        match part {
            Part::Delta(delta) => {
                fitting.tiles.add(*delta, &mut fitting.map);
                true
            }
            Part::Elsewhere(history) => {
                self.routes.learn(fitting.dir, history);
                fitting.map.learn(history)
            }
        }
    }

    /// Asks one partition, which `owner` owns if it exists.
    async fn part(&self, dir: DirRef, i: PartitionIndex, owner: ShardIndex) -> Result<Part, Errno> {
        let op = Op::PartitionStat(dir, i);
        // Not by the shared routes: these may have forgotten that the directory ever split, and the
        // home does not correct what is elsewhere.
        let mut pending = self.pending(SYSTEM, (&op).into(), Route::Shard(owner), self.reading());
        pending.deadline = self.deadline(Via::Current);
        let reply = self.send(&pending, &mut false).await;
        match reply.map_err(Errno::from)?.result {
            Ok(body) => take!(body, Body::Delta(delta) => Part::Delta(delta)),
            Err(Refusal::Redirect(history)) => {
                self.counters.redirected();
                Ok(Part::Elsewhere(history))
            }
            // The partition was given back, and the shard has no other.
            Err(Refusal::AskHome) => {
                self.counters.redirected();
                Ok(Part::Elsewhere(none_at(owner)))
            }
            Err(Refusal::HashSlot(news)) => {
                self.counters.redirected();
                self.routes.learn_hash_slot(news);
                let is_first = i == PartitionIndex(0);
                Ok(Part::Elsewhere(if is_first { SplitHistory::default() } else { none_at(owner) }))
            }
            Err(Refusal::Errno(errno)) => Err(stale(errno)),
            Err(_) => Err(Errno::EIO),
        }
    }
}

/// What follows from the home's answer.
enum Begun {
    /// The one partition is all of the directory.
    Whole(Attr),
    Fitting(Fitting),
}

/// The answers so far.
struct Fitting {
    dir: DirRef,
    base: Attr,
    generation: u64,
    /// The partitions, as far as known.
    map: DirMap,
    tiles: Tiles,
}

impl Fitting {
    fn missing(&self) -> Vec<PartitionIndex> {
        self.tiles.missing(&self.map)
    }
}

/// A partition that is asked at the same time as the home.
enum Other<F> {
    Asked(Pin<Box<F>>),
    Answered(Result<Part, Errno>),
    /// Its answer is taken in.
    Fitted,
}

/// The history of a shard that has no partition but, perhaps, the first.
fn none_at(shard: ShardIndex) -> SplitHistory {
    SplitHistory { of: Some(shard), ..SplitHistory::default() }
}

/// A partition's answer.
enum Part {
    Delta(Delta),
    /// It is not there: any more, or not yet.
    Elsewhere(SplitHistory),
}

/// Answers by the beginning of the range that each stands for. The ranges are disjoint.
#[derive(Default)]
struct Tiles(BTreeMap<u64, Delta>);

impl Tiles {
    /// Adds an answer, and its depth to `map`. Ranges of partitions are disjoint or one is within
    /// the other. Of these the wider answer counts, as it stands for both.
    fn add(&mut self, delta: Delta, map: &mut DirMap) {
        map.merge_leaf(delta.partition, delta.radix);
        let new = range(delta.partition, delta.radix);
        if self.tile_at(new.start).is_some_and(|tile| tile.radix < delta.radix) {
            return;
        }
        self.0.retain(|start, _| !new.contains(start));
        self.0.insert(new.start, delta);
    }

    /// The answer that stands for `order`.
    fn tile_at(&self, order: u64) -> Option<&Delta> {
        let (_, delta) = self.0.range(..=order).next_back()?;
        range(delta.partition, delta.radix).contains(&order).then_some(delta)
    }

    /// Partitions without an answer that stands for all of them.
    fn missing(&self, map: &DirMap) -> Vec<PartitionIndex> {
        let is_missing = |(i, r): &(PartitionIndex, Radix)| {
            self.tile_at(range(*i, *r).start).is_none_or(|tile| tile.radix > *r)
        };
        map.leaves().into_iter().filter(is_missing).map(|(i, _)| i).collect()
    }
}

/// Adds counts up. A change of names in this generation of times, or a later one, decides the
/// times, whatever was set before.
fn merge(base: Attr, generation: u64, deltas: impl IntoIterator<Item = Delta>) -> Attr {
    let mut attr = base;
    let mut subdirs = 0_u64;
    let mut newest = Timestamp::default();
    for delta in deltas {
        attr.size += delta.entries;
        subdirs += delta.subdirs;
        attr.change = attr.change.wrapping_add(delta.change);
        if delta.generation >= generation {
            newest = newest.max(delta.mtime);
        }
    }
    if newest != Timestamp::default() {
        attr.mtime = newest;
        attr.ctime = attr.ctime.max(newest);
    }
    attr.nlink = attr.nlink.saturating_add(u32::try_from(subdirs).unwrap_or(u32::MAX));
    attr
}

#[cfg(test)]
mod tests;
