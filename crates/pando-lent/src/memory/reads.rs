//! Programs that read the files of one directory after the other. Their contents are asked for
//! together (docs/design/holds.md, "Contents of small files").

use std::collections::HashSet;

use pando_types::{Credentials, DirId};

use crate::settings::MILLIS;

/// How long after a read of many files the next directory is read as a whole, nanoseconds.
const GOES_ON: u64 = 1_000 * MILLIS;
/// Pause after contents were asked for in vain, nanoseconds. A shard tells nothing that may be
/// remembered while it has changes that are not durable.
const IN_VAIN: u64 = 1_000 * MILLIS;

/// What is read.
#[derive(Default)]
pub(super) struct Reads {
    /// The directory of the last file that was read by itself.
    last: Option<DirId>,
    /// Directories of which contents are being asked for.
    under_way: HashSet<DirId>,
    /// By whose permission many files are read, and until when that is expected to go on.
    reader: Option<(Credentials, u64)>,
    /// Nothing is asked for along before.
    not_before: u64,
}

impl Reads {
    /// A file of a directory is read. Returns whether to ask for the contents of others along: it
    /// is the second one there, or files of other directories were read so.
    pub(super) fn begins(&mut self, dir: DirId, by: &Credentials, now: u64) -> bool {
        let goes_on = self.reader(now).is_some_and(|reader| reader == *by);
        let is_second = self.last.replace(dir) == Some(dir);
        if !(goes_on || is_second) || now < self.not_before || !self.under_way.insert(dir) {
            return false;
        }
        self.went_on(by, now);
        true
    }

    /// Contents were asked for. `of_use`: those of the file that is read came.
    pub(super) fn ends(&mut self, dir: DirId, of_use: bool, now: u64) {
        self.under_way.remove(&dir);
        if !of_use {
            self.reader = None;
            self.not_before = now.saturating_add(IN_VAIN);
        }
    }

    /// A file was read of which the contents were asked for along.
    pub(super) fn went_on(&mut self, by: &Credentials, now: u64) {
        let until = now.saturating_add(GOES_ON);
        match &mut self.reader {
            Some((reader, goes_until)) if reader == by => *goes_until = until,
            _ => self.reader = Some((by.clone(), until)),
        }
    }

    /// By whose permission files of one directory after the other are read now.
    pub(super) fn reader(&self, now: u64) -> Option<Credentials> {
        let reader = self.reader.as_ref().filter(|(_, until)| now < *until);
        reader.map(|(reader, _)| reader.clone())
    }
}

#[cfg(test)]
mod tests {
    use pando_types::Credentials;

    use super::*;

    const DIRS: [DirId; 2] = [DirId([1; 16]), DirId([2; 16])];
    const BY: Credentials = Credentials::ROOT;

    #[test]
    fn contents_are_asked_for_from_the_second_file_of_a_directory_on() {
        let mut reads = Reads::default();
        assert!(!reads.begins(DIRS[0], &BY, 0));
        assert!(!reads.begins(DIRS[1], &BY, 0) && !reads.begins(DIRS[0], &BY, 0));
        assert_eq!(reads.reader(0), None);
        assert!(reads.begins(DIRS[0], &BY, 0));
        assert!(!reads.begins(DIRS[0], &BY, 0), "it is under way");
        reads.ends(DIRS[0], true, 0);
        assert_eq!(reads.reader(0), Some(BY));
        // The next directory is read like that from its first file on, while this lasts.
        assert!(reads.begins(DIRS[1], &BY, GOES_ON - 1));
        reads.ends(DIRS[1], true, GOES_ON - 1);
        assert!(!reads.begins(DIRS[0], &BY, 3 * GOES_ON));
        // What came was of no use.
        assert!(reads.begins(DIRS[0], &BY, 3 * GOES_ON));
        reads.ends(DIRS[0], false, 3 * GOES_ON);
        assert_eq!(reads.reader(3 * GOES_ON), None);
        assert!(!reads.begins(DIRS[0], &BY, 3 * GOES_ON + IN_VAIN - 1));
        assert!(reads.begins(DIRS[0], &BY, 3 * GOES_ON + IN_VAIN));
    }
}
