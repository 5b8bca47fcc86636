//! How many levels an index has, how large each may be, and which file goes down when one is too
//! large. Decides only; the work is in [`super::merge`].
//!
//! A file with a block that cannot be read stays where it is, and what is above it stays above it.
//! So nothing that it hides comes back, and nothing that hides a part of it is lost. All other
//! files go their way.
//!
//! The bottom holds most of the data. Above it each level may hold a tenth of what is below it, so
//! that moving data down by a level costs about ten times its size, and stale versions take a ninth
//! of the space at most. The top has room for a few files in any case.

use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::layer::overlapping;
use crate::levels::{Level, Levels, MAX_LEVELS};

const RATIO: u64 = 10;
/// An index of so many files needs no second level.
pub(crate) const FLAT_FILES: u64 = 4;
/// Levels that a full disk may add.
const ADDED_LEVELS: usize = 3;

/// Levels that an index of this size should have.
pub(crate) fn depth(total_bytes: u64, file_bytes: u64) -> usize {
    let mut reach = file_bytes.saturating_mul(FLAT_FILES);
    let mut depth = 1;
    while depth < MAX_LEVELS && total_bytes > reach {
        reach = reach.saturating_mul(RATIO);
        depth += 1;
    }
    depth
}

/// What each level may hold, from the top; the bottom may hold anything.
pub(crate) fn budgets(levels: usize, total_bytes: u64, file_bytes: u64) -> Vec<u64> {
    let wanted = depth(total_bytes, file_bytes);
    let mut budgets = vec![u64::MAX; levels];
    let mut share = total_bytes;
    for (above, budget) in budgets.iter_mut().rev().enumerate().skip(1) {
        share /= RATIO;
        // Levels of a time when there was more are emptied.
        *budget = if above < wanted { share.max(file_bytes) } else { 0 };
    }
    budgets
}

/// The position in level `level` of the file that should go down next; `None`: all is well.
pub(crate) fn choose(levels: &Levels, level: usize, budget: u64, file_bytes: u64) -> Option<usize> {
    let files = &levels.0[level];
    let below = levels.0.get(level + 1)?;
    let is_free = |file: &&Arc<IndexFile>| file.damage().is_none() && !rests_on_damage(below, file);
    let is_heavy = |file: &&Arc<IndexFile>| {
        is_free(file) && is_mostly_tombstones(file) && file.len() >= file_bytes / 4
    };
    if let Some(heavy) = files.iter().position(|file| is_heavy(&file)) {
        return Some(heavy);
    }
    // What cannot go down says nothing of what should.
    if files.iter().filter(is_free).map(|file| file.len()).sum::<u64>() <= budget {
        return None;
    }
    // The file that costs least for what it brings; of equals the oldest, so that all get their
    // turn.
    let cost = |file: &IndexFile| {
        let facts = file.facts();
        let met: u64 =
            overlapping(below, &facts.from, Some(&facts.to)).iter().map(|file| file.len()).sum();
        (u128::from(met) * 1024 / u128::from(file.len().max(1)), file.number())
    };
    let free = (0..files.len()).filter(|&position| is_free(&&files[position]));
    free.min_by_key(|&position| cost(&files[position]))
}

/// True if the level below has a file in the span of this one that merges pass over.
pub(crate) fn rests_on_damage(below: &[Arc<IndexFile>], file: &IndexFile) -> bool {
    let facts = file.facts();
    overlapping(below, &facts.from, Some(&facts.to)).iter().any(|file| file.damage().is_some())
}

/// Such a file is worth more below: it gives space back.
fn is_mostly_tombstones(file: &IndexFile) -> bool {
    let hidden = file.facts().tombstones + file.ranges().len() as u64;
    hidden * 2 > file.facts().entries
}

/// Files that are so small are merged with their neighbours when these are written again.
pub(crate) fn is_small(file: &IndexFile, file_bytes: u64) -> bool {
    file.damage().is_none() && file.len() < file_bytes / 4
}

/// An empty level on top for each that is wanted.
pub(crate) fn deepen(levels: &mut Levels, total_bytes: u64, file_bytes: u64) {
    let wanted = depth(total_bytes, file_bytes);
    while levels.0.len() < wanted {
        levels.0.insert(0, Level::new());
    }
}

/// A level on top for news alone, unless there is an empty one, or there are too many.
pub(crate) fn add_level(levels: &mut Levels) {
    let is_free = levels.0.first().is_some_and(Vec::is_empty);
    if !is_free && levels.0.len() < MAX_LEVELS + ADDED_LEVELS {
        levels.0.insert(0, Level::new());
    }
}

/// Takes away empty levels on top that are not wanted, and those of an index that has become empty.
pub(crate) fn flatten(levels: &mut Levels, file_bytes: u64) {
    let wanted = depth(levels.bytes(), file_bytes);
    while levels.0.first().is_some_and(Vec::is_empty) && levels.0.len() > wanted {
        levels.0.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 32 << 20;

    #[test]
    fn depth_grows_by_one_with_each_tenfold_and_ends_at_the_bound() {
        for (bytes, expected) in [
            (0, 1),
            (4 * FILE, 1),
            (4 * FILE + 1, 2),
            (40 * FILE, 2),
            (400 * FILE, 3),
            (4000 * FILE, 4),
            (40_000 * FILE, 5),
            (u64::MAX, MAX_LEVELS),
        ] {
            assert_eq!(depth(bytes, FILE), expected, "{bytes}");
        }
    }

    #[test]
    fn each_level_may_hold_a_tenth_of_the_next_and_unwanted_ones_nothing() {
        let total = 300 * FILE;
        assert_eq!(budgets(3, total, FILE), [3 * FILE, 30 * FILE, u64::MAX]);
        assert_eq!(budgets(4, total, FILE), [0, 3 * FILE, 30 * FILE, u64::MAX]);
        assert_eq!(budgets(2, 5 * FILE, FILE), [FILE, u64::MAX]);
        assert_eq!(budgets(2, FILE, FILE), [0, u64::MAX]);
        assert_eq!(budgets(0, 0, FILE), [] as [u64; 0]);
    }
}
