//! How many levels an index has, how large each may be, and which file goes down from a level that
//! is too large. This module only decides; [`crate::levels::compact`] does the work.
//!
//! The bottom holds most of the data. Each level above may hold a tenth of the level below it. So
//! moving data down by a level costs about ten times its size, and stale versions take at most a
//! ninth of the space. The top may hold a few files in any case.
//!
//! A file with an unreadable block stays where it is, and files above it stay above it. So nothing
//! that it hides comes back, and nothing that hides a part of it is lost. All other files move as
//! usual.

use crate::types::options::FLAT_FILES;
use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::layer::overlapping;
use crate::levels::{Level, Levels, MAX_LEVELS};

const RATIO: u64 = 10;

/// Most levels that a full disk may add.
const ADDED_LEVELS: usize = 3;

/// Number of levels that an index of this size should have.
pub(crate) fn depth(total_bytes: u64, file_bytes: u64) -> usize {
    let mut reach = file_bytes.saturating_mul(FLAT_FILES);
    let mut depth = 1;
    while depth < MAX_LEVELS && total_bytes > reach {
        reach = reach.saturating_mul(RATIO);
        depth += 1;
    }
    depth
}

/// Bytes that each level may hold, from the top. The bottom has no limit.
pub(crate) fn budgets(levels: usize, total_bytes: u64, file_bytes: u64) -> Vec<u64> {
    let wanted = depth(total_bytes, file_bytes);
    let mut budgets = vec![u64::MAX; levels];
    let mut share = total_bytes;
    for (above, budget) in budgets.iter_mut().rev().enumerate().skip(1) {
        share /= RATIO;
        // Levels that the index no longer needs are emptied.
        *budget = if above < wanted { share.max(file_bytes) } else { 0 };
    }
    budgets
}

/// Position in level `level` of the file that should go down next. `None`: no file should.
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
    // Files that cannot go down do not count.
    if files.iter().filter(is_free).map(|file| file.len()).sum::<u64>() <= budget {
        return None;
    }
    // Choose the file that is cheapest to merge for its size. Of equals choose the oldest, so that
    // each file gets its turn.
    let cost = |file: &IndexFile| {
        let facts = file.facts();
        let met: u64 =
            overlapping(below, &facts.from, Some(&facts.to)).iter().map(|file| file.len()).sum();
        (u128::from(met) * 1024 / u128::from(file.len().max(1)), file.number())
    };
    let free = (0..files.len()).filter(|&position| is_free(&&files[position]));
    free.min_by_key(|&position| cost(&files[position]))
}

/// True if the level below has a file in this file's span that merges pass over.
pub(crate) fn rests_on_damage(below: &[Arc<IndexFile>], file: &IndexFile) -> bool {
    let facts = file.facts();
    overlapping(below, &facts.from, Some(&facts.to)).iter().any(|file| file.damage().is_some())
}

/// True if tombstones and ranges are more than half as many as the entries. Such a file frees space
/// when it goes down.
fn is_mostly_tombstones(file: &IndexFile) -> bool {
    let hidden = file.facts().tombstones + file.ranges().len() as u64;
    hidden * 2 > file.facts().entries
}

/// True if a file is so small that it is merged with neighbours that are rewritten.
pub(crate) fn is_small(file: &IndexFile, file_bytes: u64) -> bool {
    file.damage().is_none() && file.len() < file_bytes / 4
}

/// Adds empty levels on top until the index has as many as its size needs.
pub(crate) fn deepen(levels: &mut Levels, total_bytes: u64, file_bytes: u64) {
    let wanted = depth(total_bytes, file_bytes);
    while levels.0.len() < wanted {
        levels.0.insert(0, Level::new());
    }
}

/// Adds an empty level on top for news, unless the top is empty or there are too many levels.
pub(crate) fn add_level(levels: &mut Levels) {
    let is_free = levels.0.first().is_some_and(Vec::is_empty);
    if !is_free && levels.0.len() < MAX_LEVELS + ADDED_LEVELS {
        levels.0.insert(0, Level::new());
    }
}

/// Removes empty levels on top that the index does not need.
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
