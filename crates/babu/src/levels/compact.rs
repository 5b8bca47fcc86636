//! Merging news into levels. [`super::plan`] and [`super::shape`] decide what is done.
//!
//! Old files are never changed. So readers of a former version of the levels can go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::index::pool::{Access, Pool};
use crate::index::run::{FileMaker, RunWriter};
use crate::index::writer::Written;
use crate::levels::layer::{Layer, Reading, overlapping};
use crate::levels::merge::Merge;
use crate::levels::plan::{Group, groups};
use crate::levels::{Level, Levels, shape};
use crate::types::error::ReadError;
use crate::types::key::successor;
use crate::types::ranges::RangeSet;

/// On a full disk, files for news are smaller by this factor.
const THRIFTY_FILES: u64 = 16;

pub(crate) struct Merger<'a> {
    pub(crate) maker: FileMaker<'a>,
    pub(crate) pool: &'a Arc<Pool>,
    /// The disk is full. Only news are certain to be written. Levels are added for them, and files
    /// go down only as far as there is room.
    pub(crate) is_thrifty: bool,
}

impl<'a> Merger<'a> {
    fn file_bytes(&self) -> u64 {
        self.maker.sizes.file_bytes
    }

    fn reading(&self) -> Reading<'a> {
        Reading { pool: self.pool, access: Access::Direct }
    }

    /// Merges layers, the newest first, into the levels.
    pub(crate) fn bring(
        &mut self,
        levels: &mut Levels,
        news: &[Layer<'_>],
    ) -> Result<(), ReadError> {
        shape::deepen(levels, levels.bytes(), self.file_bytes());
        let sizes = self.maker.sizes;
        if self.is_thrifty {
            shape::add_level(levels);
            // Smaller files mean that less is rewritten when one of them goes down.
            self.maker.sizes.file_bytes /= THRIFTY_FILES;
        }
        let merged = self.lay_on_top(levels, news);
        self.maker.sizes = sizes;
        merged?;
        self.settle(levels)
    }

    /// Merges layers into the top level. If news meet a file there that is passed over, they go
    /// into a new level above it.
    fn lay_on_top(&mut self, levels: &mut Levels, news: &[Layer<'_>]) -> Result<(), ReadError> {
        let reading = self.reading();
        let lay = |merger: &mut Self, levels: &mut Levels| {
            let top = levels.0.first().into_iter().flatten();
            for file in top.filter(|file| file.damage().is_some()) {
                let (from, to) = (&file.facts().from, Some(&*file.facts().to));
                if has_news(news, reading, from, to)? {
                    levels.0.insert(0, Level::new());
                    break;
                }
            }
            merger.merge_into(levels, 0, news)
        };
        while !self.attempt(levels, &[], lay)? {}
        Ok(())
    }

    /// Takes over files that hold only values. Each goes as deep as it can without meeting an older
    /// file.
    pub(crate) fn adopt(&mut self, levels: &mut Levels, run: &Level) -> Result<(), ReadError> {
        shape::deepen(levels, levels.bytes(), self.file_bytes());
        for file in run {
            let news = [file.clone()];
            while !self.attempt(levels, &news, |merger, levels| merger.take_in(levels, &news))? {}
        }
        self.settle(levels)
    }

    fn take_in(
        &mut self,
        levels: &mut Levels,
        news: &[Arc<IndexFile>; 1],
    ) -> Result<(), ReadError> {
        let [file] = news;
        let (from, to) = (&*file.facts().from, Some(&*file.facts().to));
        let is_free = |level: &Level| overlapping(level, from, to).is_empty();
        match levels.0.iter().take_while(|level| is_free(level)).count() {
            0 if file.damage().is_some() || shape::rests_on_damage(&levels.0[0], file) => {
                levels.0.insert(0, news.to_vec());
            }
            0 => self.merge_into(levels, 0, &[Layer::Files(news)])?,
            free => insert(&mut levels.0[free - 1], file.clone()),
        }
        Ok(())
    }

    /// Takes a step. If the step meets an unreadable file, the levels stay unchanged, merges pass
    /// that file over from now on, and the answer is false.
    fn attempt(
        &mut self,
        levels: &mut Levels,
        news: &[Arc<IndexFile>],
        step: impl FnOnce(&mut Self, &mut Levels) -> Result<(), ReadError>,
    ) -> Result<bool, ReadError> {
        let (before, begun) = (levels.clone(), self.maker.made.len());
        let error = match step(self, levels) {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        let ReadError::Damaged(damage) = &error else { return Err(error) };
        // Damage to a file that this checkpoint has made fails the checkpoint. The content of that
        // file is still in the layers.
        let is_old = |file: &&Arc<IndexFile>| {
            file.name() == damage.file && !self.maker.made.contains(&file.number())
        };
        let is_known = before.files().chain(news).find(is_old);
        if !is_known.is_some_and(|file| file.pass_over(damage)) {
            return Err(error);
        }
        *levels = before;
        self.maker.discard(begun);
        Ok(false)
    }

    /// Moves files down until every level is within its budget.
    fn settle(&mut self, levels: &mut Levels) -> Result<(), ReadError> {
        let file_bytes = self.file_bytes();
        let budgets = shape::budgets(levels.0.len(), levels.bytes(), file_bytes);
        if self.is_thrifty {
            return self.settle_as_far_as_there_is_room(levels, &budgets);
        }
        for (level, &budget) in budgets.iter().enumerate() {
            while let Some(position) = shape::choose(levels, level, budget, file_bytes) {
                self.lower(levels, level, position)?;
            }
        }
        shape::flatten(levels, file_bytes);
        Ok(())
    }

    /// Moves files down while there is room. Begins with the lowest level, where merging frees the
    /// most space.
    fn settle_as_far_as_there_is_room(
        &mut self,
        levels: &mut Levels,
        budgets: &[u64],
    ) -> Result<(), ReadError> {
        let file_bytes = self.file_bytes();
        let first = self.maker.made.len();
        for (level, &budget) in budgets.iter().enumerate().rev() {
            while let Some(position) = shape::choose(levels, level, budget, file_bytes) {
                let before = levels.clone();
                let begun = self.maker.made.len();
                match self.lower(levels, level, position) {
                    Err(error) if error.is_full() => {
                        *levels = before;
                        self.maker.discard(begun);
                        return Ok(());
                    }
                    lowered => lowered?,
                }
                drop(before);
                // Removes files that this function has made and already replaced.
                let kept: BTreeSet<u64> = levels.files().map(|file| file.number()).collect();
                self.maker.discard_all_but(first, &kept);
            }
        }
        shape::flatten(levels, file_bytes);
        Ok(())
    }

    /// Moves a file into the level below. Does nothing if a file concerned turns out to be
    /// unreadable and is passed over.
    fn lower(
        &mut self,
        levels: &mut Levels,
        level: usize,
        position: usize,
    ) -> Result<(), ReadError> {
        let lower = |merger: &mut Self, levels: &mut Levels| {
            let file = levels.0[level].remove(position);
            merger.lower_file(levels, level + 1, file)
        };
        self.attempt(levels, &[], lower).map(drop)
    }

    fn lower_file(
        &mut self,
        levels: &mut Levels,
        target: usize,
        file: Arc<IndexFile>,
    ) -> Result<(), ReadError> {
        let facts = file.facts();
        let (from, to) = (&*facts.from, Some(&*facts.to));
        let hides = facts.tombstones > 0 || !file.ranges().is_empty();
        let meets = !overlapping(&levels.0[target], from, to).is_empty();
        if !meets && (!hides || levels.has_below(target, from, to)) {
            insert(&mut levels.0[target], file);
            return Ok(());
        }
        self.merge_into(levels, target, &[Layer::Files(&[file])])
    }

    /// Merges layers into the level `target`. Drops files in it and below if the layers hide the
    /// whole span of the file.
    fn merge_into(
        &mut self,
        levels: &mut Levels,
        target: usize,
        news: &[Layer<'_>],
    ) -> Result<(), ReadError> {
        let mut hidden = RangeSet::default();
        for layer in news {
            layer.add_ranges(&mut hidden);
        }
        for level in &mut levels.0[target..] {
            level.retain(|file| !hidden.covers(&file.facts().from, &file.facts().to));
        }
        let old = levels.0[target].clone();
        let reading = self.reading();
        let has_news = |from: &[u8], to: Option<&[u8]>| has_news(news, reading, from, to);
        let file_bytes = self.file_bytes();
        let groups = groups(
            old.len(),
            |gap| has_news(gap_start(&old, gap), gap_end(&old, gap)),
            |file| has_news(&old[file].facts().from, Some(&old[file].facts().to)),
            |file| shape::is_small(&old[file], file_bytes),
        )?;
        let mut level = Level::new();
        let mut kept = 0;
        for group in &groups {
            level.extend_from_slice(&old[kept..group.files.start]);
            kept = group.files.end;
            level.extend(self.merge_group(levels, target, news, &hidden, &old, group)?);
        }
        level.extend_from_slice(&old[kept..]);
        levels.0[target] = level;
        Ok(())
    }

    fn merge_group(
        &mut self,
        levels: &Levels,
        target: usize,
        news: &[Layer<'_>],
        hidden: &RangeSet,
        old: &Level,
        group: &Group,
    ) -> Result<Level, ReadError> {
        let from = match group.has_gap_before {
            true => gap_start(old, group.files.start),
            false => &old[group.files.start].facts().from,
        };
        let to = match group.has_gap_after {
            true => gap_end(old, group.files.end),
            false => Some(&*old[group.files.end - 1].facts().to),
        };
        let old = &old[group.files.clone()];
        let mut ranges = hidden.clipped(from, to);
        old.iter().for_each(|file| ranges.extend(file.ranges()));
        ranges.retain(|from, to| levels.has_below(target, from, Some(to)));
        let layers = news.iter().copied().chain([Layer::Files(old)]);
        let reading = Reading { pool: self.pool, access: Access::Direct };
        let mut merge = Merge::new(layers, reading, from, to);
        let mut run = RunWriter::new(&mut self.maker, ranges.clone());
        while let Some(entry) = merge.advance()? {
            let (key, value) = (entry.key(), entry.value());
            let is_needed = value.is_some()
                || (!is_planted!(TombstoneDropped)
                    && ranges.end_of(key).is_none()
                    && levels.has_below(target, key, Some(&successor(key))));
            if is_needed {
                run.push(key, value)?;
            }
        }
        let written = run.finish()?;
        open_all(&self.maker, written)
    }
}

/// Opens files that were just written.
pub(crate) fn open_all(maker: &FileMaker<'_>, written: Vec<Written>) -> Result<Level, ReadError> {
    let open = |written: Written| {
        IndexFile::open(maker.disk, maker.database_id, written.facts).map(Arc::new)
    };
    written.into_iter().map(open).collect()
}

fn insert(level: &mut Level, file: Arc<IndexFile>) {
    let position = level.partition_point(|other| other.facts().from < file.facts().from);
    level.insert(position, file);
}

/// Where the gap before file `position` begins. It ends with [`gap_end`].
fn gap_start(level: &Level, position: usize) -> &[u8] {
    position.checked_sub(1).map_or(&[], |before| &level[before].facts().to)
}

fn gap_end(level: &Level, position: usize) -> Option<&[u8]> {
    level.get(position).map(|file| &*file.facts().from)
}

/// True if one of the layers has an entry in `from..to` or hides a part of it.
fn has_news(
    layers: &[Layer<'_>],
    reading: Reading<'_>,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<bool, ReadError> {
    for layer in layers {
        if layer.has_news(reading, from, to)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Layer<'_> {
    fn add_ranges(&self, ranges: &mut RangeSet) {
        match self {
            Layer::Tree(tree) => ranges.extend(tree.ranges()),
            Layer::Files(files) => files.iter().for_each(|file| ranges.extend(file.ranges())),
        }
    }

    /// True if the layer has an entry in `from..to` or hides a part of it.
    fn has_news(
        &self,
        reading: Reading<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<bool, ReadError> {
        if to.is_some_and(|to| to <= from) || self.is_silent(from, to) {
            return Ok(false);
        }
        if self.hides_within(from, to) {
            return Ok(true);
        }
        self.seek(reading, from, to)?.advance()
    }
}
