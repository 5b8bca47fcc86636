//! Which runs are merged next. This module only decides; [`crate::levels::compact`] does the work.
//!
//! ```text
//! run, run, run   newest   each flush writes one; small ones are merged among themselves
//! run             older
//! bottom          each key once; runs come down to it together, when their bytes are due
//! ```
//!
//! 1. Runs go down when together they weigh three fifths of the bottom. So a byte is written again
//!    less than three times for that, whatever the size of the database. Stale versions take at
//!    most as much, and for the time of the merge both are on the disk.
//! 2. A run is *small* if it has less than a 24th of the bottom. Neighbours that are small are
//!    merged when together they are not. Very small runs do the same among themselves, by further
//!    [`TIERS`] of an eighth each. So flushes that come early are cheap, and runs stay few.
//! 3. Only bytes decide, never how many runs there are. The largest of the runs merged has at most
//!    a quarter of the bytes, so it is not written again for the sake of a little.
//! 4. A file with an unreadable block stays where it is, and what lies above its span stays, too:
//!    newer files are cut there. So nothing that it hides comes back, and nothing that hides a part
//!    of it is lost.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::layer::overlapping;
use crate::levels::{Level, Levels, bytes};
use crate::types::key::Key;
use crate::types::ranges::RangeSet;

/// Weight of all runs at which they go down, in fifths of the bottom.
const DUE_FIFTHS: u64 = 3;
/// The same on a disk that is full, where the space of stale versions is wanted back.
const DUE_FIFTHS_PRESSED: u64 = 1;
/// A run with less than the bottom's bytes by this is small.
const SMALL: u64 = 24;
/// Each further tier is smaller by this.
const TIER: u64 = 8;
/// Number of tiers of small runs.
const TIERS: u32 = 5;
/// Small runs are merged only if the largest has at most this part of their bytes.
const LARGEST: u64 = 4;
/// Levels that only what cannot be read holds up. More than this many are merged.
const HELD_UP: usize = 4;

/// A step that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Files go that are hidden as a whole, or hide nothing. Nothing is read or written.
    Drop,
    /// Levels are merged into the last of them.
    Merge(RangeInclusive<usize>),
}

/// The next step for an index. `is_pressed`: the disk is full.
pub(crate) fn next(levels: &Levels, is_pressed: bool) -> Option<Step> {
    if !useless(levels).is_empty() {
        return Some(Step::Drop);
    }
    let last = levels.0.len().checked_sub(1)?;
    let free = free_weights(levels, last);
    let bottom = bytes(&levels.0[last]);
    if let Some(merged) = due(&free, bottom, is_pressed) {
        return Some(Step::Merge(merged));
    }
    // What is held up by damage below is merged above it, so that it does not pile up.
    let held_up = free.iter().take_while(|&&weight| weight == 0).count();
    let is_many = held_up > HELD_UP && held_up == last;
    (is_many && free_weights(levels, last - 1).iter().any(|&weight| weight > 0))
        .then(|| Step::Merge(0..=last - 1))
}

/// Levels to be merged into the last of them. `runs` are the weights of the runs, the newest
/// first. A run of weight 0 cannot move.
fn due(runs: &[u64], bottom: u64, is_pressed: bool) -> Option<RangeInclusive<usize>> {
    let all: u64 = runs.iter().sum();
    let fifths = if is_pressed { DUE_FIFTHS_PRESSED } else { DUE_FIFTHS };
    if all > 0 && all.saturating_mul(5) >= bottom.saturating_mul(fifths) {
        return Some(0..=runs.len());
    }
    let mut limit = bottom / SMALL;
    for _ in 0..TIERS {
        let mut from = 0;
        while from < runs.len() {
            let count = runs[from..].iter().take_while(|&&run| 0 < run && run < limit).count();
            let stretch = &runs[from..from + count];
            let sum: u64 = stretch.iter().sum();
            let largest = stretch.iter().copied().max().unwrap_or(0);
            if count > 1 && sum >= limit && largest * LARGEST <= sum {
                return Some(from..=from + count - 1);
            }
            from += count.max(1);
        }
        limit /= TIER;
    }
    None
}

/// What the files of each run weigh that can go down to `target`, the newest run first. They may
/// have to be cut for that. A tombstone weighs as much as an entry of the bottom, and a range as
/// much as the blocks that it hides there: these go with them.
fn free_weights(levels: &Levels, target: usize) -> Vec<u64> {
    let (entries, bytes) = levels.0[target].iter().fold((0, 0), |(entries, bytes), file| {
        (entries + file.facts().entries, bytes + file.len())
    });
    let mean = bytes / u64::max(entries, 1);
    let mut passed_over = Level::new();
    let mut weights = Vec::new();
    for level in levels.0[..=target].iter().rev() {
        let is_free = |file: &&Arc<IndexFile>| {
            file.damage().is_none()
                && (!rests_on(file, &passed_over) || !edges(file, &passed_over).is_empty())
        };
        let weigh = |file: &Arc<IndexFile>| {
            file.len() + file.facts().tombstones * mean + hidden_bytes(file, &levels.0[target])
        };
        weights.push(level.iter().filter(is_free).map(weigh).sum());
        passed_over.extend(level.iter().filter(|file| file.damage().is_some()).cloned());
    }
    weights.remove(0);
    weights.reverse();
    weights
}

/// Bytes of the blocks in `files` that the ranges of a newer file hide as a whole.
fn hidden_bytes(file: &IndexFile, files: &[Arc<IndexFile>]) -> u64 {
    let within = |from: &Key, to: &Key| -> u64 {
        let met = overlapping(files, from, Some(to)).iter();
        met.map(|below| below.bytes_within(from, to)).sum()
    };
    file.ranges().iter().map(|(from, to)| within(from, to)).sum()
}

/// True if a file's span meets that of one of the others.
fn rests_on(file: &IndexFile, others: &[Arc<IndexFile>]) -> bool {
    let facts = file.facts();
    others.iter().any(|other| other.facts().from < facts.to && facts.from < other.facts().to)
}

/// The files of levels above the last that go into it, and those that stay, level by level. A file
/// stays if merges pass it over, or if an older one in its span stays.
pub(crate) fn split(levels: &Levels, merged: RangeInclusive<usize>) -> (Vec<Level>, Vec<Level>) {
    let (first, last) = merged.into_inner();
    let is_damaged = |file: &&Arc<IndexFile>| file.damage().is_some();
    let mut staying: Vec<Level> = vec![levels.0[last].iter().filter(is_damaged).cloned().collect()];
    let mut going = Vec::new();
    for level in levels.0[first..last].iter().rev() {
        let rests = |file: &Arc<IndexFile>| {
            let (from, to) = (&*file.facts().from, Some(&*file.facts().to));
            staying.iter().any(|level| !overlapping(level, from, to).is_empty())
        };
        let stays = |file: &Arc<IndexFile>| file.damage().is_some() || rests(file);
        let (stay, go): (Level, Level) = level.iter().cloned().partition(stays);
        staying.push(stay);
        going.push(go);
    }
    staying.remove(0);
    staying.reverse();
    going.reverse();
    (going, staying)
}

/// Where the files `passed_over` begin and end within a file's span.
pub(crate) fn edges(file: &IndexFile, passed_over: &[Arc<IndexFile>]) -> Vec<Key> {
    let (from, to) = (&file.facts().from, &file.facts().to);
    let met = passed_over.iter().map(|other| other.facts());
    let met = met.filter(|facts| facts.from < *to && *from < facts.to);
    let mut edges: Vec<Key> =
        met.flat_map(|facts| [facts.from.clone(), facts.to.clone()]).collect();
    edges.retain(|edge| from < edge && edge < to);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Numbers of the files that are hidden as a whole by a newer level, or that hold no value and hide
/// nothing.
pub(crate) fn useless(levels: &Levels) -> Vec<u64> {
    let mut useless = Vec::new();
    let mut hidden = RangeSet::default();
    for level in &levels.0 {
        if !hidden.is_empty() {
            let is_hidden =
                |file: &&Arc<IndexFile>| hidden.covers(&file.facts().from, &file.facts().to);
            useless.extend(level.iter().filter(is_hidden).map(|file| file.number()));
        }
        level.iter().for_each(|file| hidden.extend(file.ranges()));
    }
    for (position, level) in levels.0.iter().enumerate() {
        let holds_nothing = |file: &&Arc<IndexFile>| {
            let facts = file.facts();
            facts.entries == facts.tombstones
                && file.damage().is_none()
                && !levels.has_below(position, &facts.from, Some(&facts.to))
        };
        useless.extend(level.iter().filter(holds_nothing).map(|file| file.number()));
    }
    useless
}

/// The file of the oldest run that goes into the bottom next, when there is no room for more. Those
/// that hide much come first, as they free space; then those that cost least.
pub(crate) fn cheapest(levels: &Levels) -> Option<Arc<IndexFile>> {
    let last = levels.0.len().checked_sub(2)?;
    let bottom = &levels.0[last + 1];
    let cost = |file: &&Arc<IndexFile>| {
        let facts = file.facts();
        let hides = (facts.tombstones + file.ranges().len() as u64) * 2 > facts.entries;
        let met = bytes(overlapping(bottom, &facts.from, Some(&facts.to)));
        (!hides, u128::from(met) * 1024 / u128::from(file.len().max(1)), file.number())
    };
    split(levels, last..=last + 1).0[0].iter().min_by_key(cost).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_down_by_their_bytes_and_never_by_their_number() {
        assert_eq!(due(&[], 100, false), None);
        assert_eq!(due(&[1], 0, false), Some(0..=1), "the first run");
        assert_eq!(due(&[100; 5], 1000, false), None);
        assert_eq!(due(&[100; 6], 1000, false), Some(0..=6));
        assert_eq!(due(&[100; 2], 1000, true), Some(0..=2), "a full disk");
        // Runs of one percent leave the bottom alone, and are merged among themselves.
        assert_eq!(due(&[100; 4], 10_000, false), None);
        assert_eq!(due(&[100; 6], 10_000, false), Some(0..=5));
        assert_eq!(due(&[1000; 5], 10_000, false), None);
    }

    #[test]
    fn small_runs_are_merged_with_neighbours_and_large_ones_are_left_alone() {
        assert_eq!(due(&[50, 900, 110, 110, 110, 110, 900], 10_000, false), Some(2..=5));
        assert_eq!(due(&[10, 400, 10], 10_000, false), None, "mostly one run");
        assert_eq!(due(&[10, 10, 10, 10, 10, 10, 900], 10_000, false), Some(0..=5));
        let apart = [110, 110, 0, 110, 110];
        assert_eq!(due(&apart, 10_000, false), None, "what cannot move is between them");
    }

    /// Flushes of one size, merged as planned, until costs have settled. Returns bytes written for
    /// each byte flushed, and the most runs. Every byte is a new version of one below.
    fn steady(flush: u64, bottom: u64) -> (f64, usize) {
        let (mut runs, mut written, mut flushed, mut most) = (Vec::new(), 0, 0, 0);
        while flushed < bottom * 5 {
            runs.insert(0, flush);
            flushed += flush;
            written += flush;
            most = most.max(runs.len());
            while let Some(merged) = due(&runs, bottom, false) {
                let (first, last) = merged.into_inner();
                if last == runs.len() {
                    runs.clear();
                    written += bottom;
                } else {
                    let sum: u64 = runs.drain(first..=last).sum();
                    runs.insert(first, sum);
                    written += sum;
                }
            }
        }
        (written as f64 / flushed as f64, most)
    }

    #[test]
    fn a_steady_load_costs_little_whatever_the_size_and_runs_stay_few() {
        for (flush, most_written, most_runs) in [
            (100_000, 2.7, 6),
            (50_000, 2.7, 12),
            (33_333, 3.5, 8),
            (10_000, 3.7, 16),
            (1000, 4.6, 25),
            (300, 5.5, crate::MAX_LEVELS),
        ] {
            let (written, runs) = steady(flush, 1_000_000);
            assert!(written <= most_written, "{flush}: {written}");
            assert!(runs <= most_runs, "{flush}: {runs}");
        }
    }
}
