//! Writing flushes as runs, and merging levels. [`super::plan`] and [`super::tiers`] decide what is
//! done.
//!
//! Old files are never changed. So readers of a former version of the levels can go on.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::index::pool::{Access, Pool};
use crate::index::run::{FileMaker, RunWriter};
use crate::index::writer::Written;
use crate::levels::layer::{Layer, Reading, overlapping};
use crate::levels::merge::Merge;
use crate::levels::plan::{Group, groups};
use crate::levels::tiers::{self, Step};
use crate::levels::{Level, Levels};
use crate::types::error::ReadError;
use crate::types::key::{Key, successor};
use crate::types::ranges::RangeSet;

pub(crate) struct Merger<'a> {
    pub(crate) maker: FileMaker<'a>,
    pub(crate) pool: &'a Arc<Pool>,
}

impl<'a> Merger<'a> {
    fn reading(&self) -> Reading<'a> {
        Reading { pool: self.pool, access: Access::Direct }
    }

    /// Writes trees, the newest first, as a run on top of the levels. Reads no file. Tombstones
    /// that no filter below knows are left out.
    pub(crate) fn flush(
        &mut self,
        levels: &mut Levels,
        news: &[Layer<'_>],
    ) -> Result<(), ReadError> {
        let mut ranges = RangeSet::default();
        news.iter().for_each(|layer| layer.add_ranges(&mut ranges));
        let meets = |from: &[u8], to: &[u8]| {
            levels.0.iter().any(|level| !overlapping(level, from, Some(to)).is_empty())
        };
        ranges.retain(|from, to| meets(from, to));
        let mut merge = Merge::new(news.iter().copied(), self.reading(), &[], None);
        self.maker.is_run = true;
        let mut run = RunWriter::new(&mut self.maker, ranges.clone());
        while let Some(entry) = merge.advance()? {
            let (key, value) = (entry.key(), entry.value());
            let is_needed = value.is_some()
                || (!is_planted!(FlushForgetsTombstones)
                    && ranges.end_of(key).is_none()
                    && levels.may_contain(key));
            if is_needed {
                run.push(key, value)?;
            }
        }
        let written = run.finish()?;
        let files = open_all(&self.maker, written)?;
        if !files.is_empty() {
            levels.0.insert(0, files);
        }
        Ok(())
    }

    /// Takes a step that is due.
    pub(crate) fn take(&mut self, levels: &mut Levels, step: Step) -> Result<(), ReadError> {
        match step {
            Step::Drop => loop {
                let useless: BTreeSet<u64> = tiers::useless(levels).into_iter().collect();
                if useless.is_empty() {
                    break;
                }
                for level in &mut levels.0 {
                    level.retain(|file| !useless.contains(&file.number()));
                }
            },
            Step::Merge(merged) => {
                let merge = |merger: &mut Self, levels: &mut Levels| {
                    merger.cut(levels, &merged)?;
                    let (going, staying) = tiers::split(levels, merged.clone());
                    merger.bring(levels, merged.clone(), &going, staying)
                };
                while !self.attempt(levels, merge)? {}
            }
        }
        levels.close_up();
        Ok(())
    }

    /// Cuts files where older ones begin and end that merges pass over. So only what lies above
    /// these stays there.
    fn cut(
        &mut self,
        levels: &mut Levels,
        merged: &RangeInclusive<usize>,
    ) -> Result<(), ReadError> {
        let mut passed_over = Level::new();
        for position in merged.clone().rev() {
            let mut level = Level::new();
            for file in &levels.0[position] {
                let edges = match file.damage() {
                    None => tiers::edges(file, &passed_over),
                    Some(_) => Vec::new(),
                };
                match edges.is_empty() {
                    true => level.push(file.clone()),
                    false => level.extend(self.cut_file(file, &edges)?),
                }
            }
            passed_over.extend(level.iter().filter(|file| file.damage().is_some()).cloned());
            levels.0[position] = level;
        }
        Ok(())
    }

    fn cut_file(&mut self, file: &Arc<IndexFile>, edges: &[Key]) -> Result<Level, ReadError> {
        let mut pieces = Level::new();
        let (first, last) = (&file.facts().from, &file.facts().to);
        let froms = [first].into_iter().chain(edges);
        for (from, to) in froms.zip(edges.iter().chain([last])) {
            let layer = [Layer::Files(std::slice::from_ref(file))];
            let ranges = file.ranges().clipped(from, Some(to));
            let mut merge = Merge::new(layer.into_iter(), self.reading(), from, Some(to));
            self.maker.is_run = true;
            let mut run = RunWriter::new(&mut self.maker, ranges);
            while let Some(entry) = merge.advance()? {
                run.push(entry.key(), entry.value())?;
            }
            let written = run.finish()?;
            pieces.extend(open_all(&self.maker, written)?);
        }
        Ok(pieces)
    }

    /// Merges the files of levels that go down into the last of these levels.
    fn bring(
        &mut self,
        levels: &mut Levels,
        merged: RangeInclusive<usize>,
        going: &[Level],
        staying: Vec<Level>,
    ) -> Result<(), ReadError> {
        let (first, target) = merged.into_inner();
        self.maker.is_run = target + 1 < levels.0.len();
        for (level, stays) in levels.0[first..target].iter_mut().zip(staying) {
            *level = stays;
        }
        let news = self.hand_down(levels, target, going);
        let news: Vec<Layer<'_>> = news.iter().map(|files| Layer::Files(files)).collect();
        self.merge_into(levels, target, &news)
    }

    /// Puts files that meet nothing into the target as they are. Returns the others.
    fn hand_down(&self, levels: &mut Levels, target: usize, going: &[Level]) -> Vec<Level> {
        let mut rest: Vec<Level> = going.to_vec();
        for position in 0..going.len() {
            for file in &going[position] {
                let facts = file.facts();
                let (from, to) = (&*facts.from, Some(&*facts.to));
                let others = going.iter().enumerate().filter(|(other, _)| *other != position);
                let meets = others
                    .map(|(_, level)| level)
                    .chain([&levels.0[target]])
                    .any(|level| !overlapping(level, from, to).is_empty());
                let hides = facts.tombstones > 0 || !file.ranges().is_empty();
                let is_idle = hides && !levels.has_below(target, from, to);
                if !meets && !is_idle && !is_small(file, self.maker.sizes.file_bytes) {
                    insert(&mut levels.0[target], file.clone());
                    rest[position].retain(|other| other.number() != file.number());
                }
            }
        }
        rest
    }

    /// Merges single files into the bottom while there is room. Returns whether there was any.
    pub(crate) fn lower(&mut self, levels: &mut Levels) -> Result<bool, ReadError> {
        let first = self.maker.made.len();
        let mut has_lowered = false;
        while let Some(file) = tiers::cheapest(levels) {
            let before = levels.clone();
            let begun = self.maker.made.len();
            let lowered = self.attempt(levels, |merger, levels| {
                let last = levels.0.len() - 2;
                let mut stays = levels.0[last].clone();
                stays.retain(|other| other.number() != file.number());
                merger.bring(levels, last..=last + 1, &[vec![file.clone()]], vec![stays])
            });
            match lowered {
                Err(error) if error.is_full() => {
                    *levels = before;
                    self.maker.discard(begun);
                    break;
                }
                lowered => has_lowered |= lowered?,
            }
            drop(before);
            levels.close_up();
            // Removes files that this function has made and already replaced.
            let kept: BTreeSet<u64> = levels.files().map(|file| file.number()).collect();
            self.maker.discard_all_but(first, &kept);
        }
        Ok(has_lowered)
    }

    /// Takes a step. If the step meets an unreadable file, the levels stay unchanged, merges pass
    /// that file over from now on, and the answer is false.
    fn attempt(
        &mut self,
        levels: &mut Levels,
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
        let is_known = before.files().find(is_old);
        if !is_known.is_some_and(|file| file.pass_over(damage)) {
            return Err(error);
        }
        *levels = before;
        self.maker.discard(begun);
        Ok(false)
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
        let file_bytes = self.maker.sizes.file_bytes;
        let groups = groups(
            old.len(),
            |gap| has_news(gap_start(&old, gap), gap_end(&old, gap)),
            |file| has_news(&old[file].facts().from, Some(&old[file].facts().to)),
            |file| is_small(&old[file], file_bytes),
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
        let mut merge = Merge::new(layers, self.reading(), from, to);
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

/// True if a file is so small that it is merged with neighbours that are rewritten.
fn is_small(file: &IndexFile, file_bytes: u64) -> bool {
    file.damage().is_none() && file.len() < file_bytes / 4
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
