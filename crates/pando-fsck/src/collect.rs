//! Collects objects that no file names, in a running volume (docs/design/collecting.md).
//!
//! Nothing is deleted if rows could not be read, if a shard restarted in between, or if the volume
//! grew.

use std::collections::BTreeSet;

use pando_core::keys;
use pando_core::record::Record;
use pando_types::op::ObjectId;
use pando_types::reply::Slice;
use pando_types::watch::{Settled, Watching};
use pando_types::{SessionId, ShardIndex};

use crate::rows::source::{Objects, Rows, Stored};

/// Number of objects checked in one round, which takes 48 MiB of memory. Each round reads all rows
/// once.
const ROUND: usize = 1 << 20;
/// Number of objects listed at a time.
const LISTED: usize = 4096;
/// Bytes of rows asked for at a time.
const PAGE: usize = 256 << 10;
const _: () = assert!(LISTED <= ROUND);

/// A running volume. Errors are texts for people.
pub trait Watched: Rows {
    /// Makes a shard watch which objects files come to name. `id` is the number of the collection.
    fn watch(&mut self, shard: ShardIndex, id: u64) -> Result<Watching, String>;
    /// Asks a shard which objects it has seen, from object `first` on.
    fn settle(&mut self, shard: ShardIndex, id: u64, first: ObjectId) -> Result<Settled, String>;
    /// Makes durable all that this shard has done until now.
    fn sync(&mut self, shard: ShardIndex) -> Result<(), String>;
    /// Waits a moment, so that transactions can end. Fails if the collection waits for too long.
    fn pause(&mut self) -> Result<(), String>;
    /// Called often, at points where the collection can stop. An error ends it.
    fn go_on(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Result of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Collected {
    /// Number of objects that were listed.
    pub objects: u64,
    /// Number of listed objects that belong to living sessions. They are left alone.
    pub of_the_living: u64,
    /// Number of objects that were deleted, or would be in a trial.
    pub collected: u64,
    /// Bytes that these objects took.
    pub bytes: u64,
}

/// What a collection does with objects that no file names and none will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unneeded {
    /// It deletes them.
    Delete,
    /// It only counts them: a trial.
    Count,
}

/// Finds all objects that no file names and none will. `ids` yields numbers that no other
/// collection has.
pub fn collect(
    volume: &mut dyn Watched,
    shards: u16,
    objects: &mut dyn Objects,
    mut ids: impl FnMut() -> u64,
    unneeded: Unneeded,
) -> Result<Collected, String> {
    let mut collected = Collected::default();
    let mut after = None;
    loop {
        // The list is made before any shard says which sessions live. So the session that made one
        // of these objects had begun before that.
        let mut candidates = Candidates::list(objects, after)?;
        let Some((last, _)) = candidates.0.last() else { return Ok(collected) };
        after = Some(last.id);
        collected.objects += candidates.0.len() as u64;
        let mut round = Round { volume, shards, id: ids() };
        let living = round.begin()?;
        let before = candidates.0.len();
        candidates.0.retain(|(stored, _)| !living.contains(&stored.id.session()));
        collected.of_the_living += (before - candidates.0.len()) as u64;
        if candidates.0.is_empty() {
            continue;
        }
        round.read(&mut candidates)?;
        round.settle(&mut candidates)?;
        round.make_durable()?;
        for stored in candidates.unneeded() {
            if unneeded == Unneeded::Delete {
                round.volume.go_on()?;
                objects.delete(stored.id)?;
            }
            collected.collected += 1;
            collected.bytes += stored.bytes;
        }
    }
}

/// Objects in ascending order, each with whether it is needed.
struct Candidates(Vec<(Stored, bool)>);

impl Candidates {
    fn list(objects: &mut dyn Objects, mut after: Option<ObjectId>) -> Result<Self, String> {
        let begins_after = after;
        let mut listed: Vec<(Stored, bool)> = Vec::new();
        while listed.len() <= ROUND - LISTED {
            let page = objects.list(after, LISTED)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            listed.extend(page.into_iter().map(|stored| (stored, false)));
        }
        // A folder that changes may list an object twice. Without this, only one of the two would
        // be marked as needed.
        listed.sort_unstable_by_key(|(stored, _)| stored.id);
        listed.dedup_by_key(|(stored, _)| stored.id);
        match listed.first() {
            Some((first, _)) if begins_after.is_some_and(|last| first.id <= last) => {
                Err(format!("object {:032x} is listed behind its place", first.id.0))
            }
            _ => Ok(Self(listed)),
        }
    }

    fn need(&mut self, object: ObjectId) {
        if let Ok(at) = self.0.binary_search_by_key(&object, |(stored, _)| stored.id) {
            self.0[at].1 = true;
        }
    }

    fn unneeded(&self) -> impl Iterator<Item = Stored> {
        self.0.iter().filter(|(_, is_needed)| !is_needed).map(|(stored, _)| *stored)
    }
}

struct Round<'a> {
    volume: &'a mut dyn Watched,
    shards: u16,
    id: u64,
}

impl Round<'_> {
    fn each(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.shards).map(ShardIndex)
    }

    fn must_know_all(&self, shard: ShardIndex, known: u16) -> Result<(), String> {
        if known == self.shards {
            return Ok(());
        }
        Err(format!("shard {shard} knows {known} shards, not {}: one is being added", self.shards))
    }

    /// Makes all shards watch. Returns the sessions that live on any shard. Shard 0 comes first and
    /// says how many ends it has heard. Every other shard must have heard as many before rows are
    /// read.
    fn begin(&mut self) -> Result<BTreeSet<SessionId>, String> {
        let mut living = BTreeSet::new();
        let mut over_at = 0;
        for shard in self.each() {
            loop {
                let Watching { sessions, heard, shards } = self.volume.watch(shard, self.id)?;
                self.must_know_all(shard, shards)?;
                if shard == ShardIndex(0) {
                    over_at = heard;
                }
                if heard >= over_at {
                    living.extend(sessions);
                    break;
                }
                self.volume.pause()?;
            }
        }
        Ok(living)
    }

    /// Finds slices that do not move, by reading all rows.
    fn read(&mut self, candidates: &mut Candidates) -> Result<(), String> {
        for shard in self.each() {
            let mut from = Vec::new();
            loop {
                self.volume.go_on()?;
                let page = self.volume.page(shard, &from, PAGE)?;
                if let Some(gap) = page.gap {
                    return Err(format!(
                        "shard {shard} has records that cannot be read: {}",
                        gap.why
                    ));
                }
                for (key, value) in page.rows.iter().filter(|(key, _)| keys::is_slice(key)) {
                    let slice = Slice::decode(value).map_err(|_| {
                        format!(
                            "shard {shard}: {} is no slice: run `pando fsck`",
                            key.escape_ascii()
                        )
                    })?;
                    candidates.need(slice.range.object);
                }
                if page.is_last {
                    break;
                }
                let Some((last, _)) = page.rows.last() else {
                    return Err(format!("shard {shard} has more rows but sent none"));
                };
                from = [last, &[0][..]].concat();
            }
        }
        Ok(())
    }

    /// Finds slices that move. The shard that a slice comes to has seen its object.
    fn settle(&mut self, candidates: &mut Candidates) -> Result<(), String> {
        for shard in self.each() {
            let mut first = ObjectId(0);
            loop {
                let (objects, is_last) = self.seen(shard, first)?;
                objects.iter().for_each(|object| candidates.need(*object));
                let Some(last) = objects.last().filter(|_| !is_last) else { break };
                first = ObjectId(last.0 + 1);
            }
        }
        Ok(())
    }

    fn seen(
        &mut self,
        shard: ShardIndex,
        first: ObjectId,
    ) -> Result<(Vec<ObjectId>, bool), String> {
        loop {
            match self.volume.settle(shard, self.id, first)? {
                Settled::Seen { objects, is_last, shards } => {
                    self.must_know_all(shard, shards)?;
                    return Ok((objects, is_last));
                }
                Settled::NotYet => self.volume.pause()?,
                Settled::TooMuch => {
                    return Err(format!("more moves on shard {shard} than it can remember"));
                }
                Settled::Forgotten => {
                    return Err(format!(
                        "shard {shard} restarted meanwhile, or another collection began"
                    ));
                }
            }
        }
    }

    /// Makes sure that no power loss brings back a slice of an object that is not needed now.
    fn make_durable(&mut self) -> Result<(), String> {
        for shard in self.each() {
            self.volume.sync(shard)?;
        }
        for shard in self.each() {
            // A shard that restarted since has not synced what it told. It does not know the watch
            // any more.
            self.seen(shard, ObjectId(u128::MAX))?;
        }
        Ok(())
    }
}
