//! The scrub: reads every index file once in a while, so that damage is known before it is met.
//!
//! ```text
//! scrub_job        picks the next stretch of a file                      (owner of the database)
//! run              reads it from the disk, and verifies it              (any thread; all the I/O)
//! install_scrub    notes how far the pass is, and what was found         (owner of the database)
//! ```
//!
//! 1. A pass goes through files by their numbers, which ascend as files are made. It ends with the
//!    files that were there when it began. So it ends whatever is written meanwhile. Later files
//!    are of the next pass.
//! 2. Checkpoints and merges go on beside it. A file that is gone by then is skipped. What was in
//!    it was read when it was merged.
//! 3. Reads go around the block cache. What the kernel has in memory of a stretch is dropped first,
//!    so the disk is asked.
//! 4. The scrub only tells. Merges find out by themselves what they cannot read.
//! 5. A place is told once. It is forgotten when its file goes, or when a later pass can read it.
//!
//! Logs are not read: a checkpoint gives them up soon, and an opening verifies what is left.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::db::database::Db;
use crate::db::state::frozen::Content;
use crate::db::state::scrub::{NOTE, Point};
use crate::disk::traits::Disk;
use crate::index::file::{IndexFile, Stretch};
use crate::types::error::{Damage, IoContext, IoFailure, ReadError};

/// A stretch of a file that is still to be read.
pub struct ScrubJob {
    file: Arc<IndexFile>,
    block: usize,
    bytes: u64,
    alive: Arc<()>,
}

/// A stretch of a file that was read, and is not noted yet.
#[must_use = "the stretch is read again unless it is noted"]
pub struct ScrubDone {
    file: Arc<IndexFile>,
    block: usize,
    stretch: Stretch,
    alive: Arc<()>,
}

/// How far the scrub is, to be written: see [`Db::scrub_note`].
#[must_use = "without it, the next opening begins a pass anew"]
pub struct ScrubNote {
    disk: Arc<dyn Disk>,
    bytes: Vec<u8>,
}

/// What a step of the scrub has come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Bytes that the step has read.
    pub bytes: u64,
    /// Damage that neither the scrub nor a merge has told since the opening.
    pub found: Vec<Damage>,
    /// True if a pass has ended with this step, or since the one before.
    pub has_ended: bool,
}

/// How far the scrub is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubStats {
    /// Passes that have ended since the opening.
    pub passes: u64,
    /// Bytes that the present pass has read.
    pub read_bytes: u64,
    /// Bytes that the present pass has still to read.
    pub left_bytes: u64,
    /// Places that are damaged, by the last pass that has come to them.
    pub damaged: u64,
}

impl Db {
    /// A job that reads about `bytes` of the next file. `None` if there are no index files, or a
    /// job or its result exists.
    pub fn scrub_job(&mut self, bytes: u64) -> Option<ScrubJob> {
        if self.scrub.job.strong_count() > 0 {
            return None;
        }
        if self.scrub.point.limit > 0 && self.next_to_scrub().is_none() {
            // All files that were left have gone meanwhile.
            self.scrub.end();
        }
        if self.scrub.point.limit == 0 {
            self.scrub.point =
                Point { limit: self.numbers.load(Ordering::Relaxed), ..Point::default() };
        }
        let file = self.next_to_scrub()?.clone();
        let point = self.scrub.point;
        let is_within = file.number() == point.file && point.block < file.block_count() as u64;
        let block = if is_within { point.block as usize } else { 0 };
        let alive = Arc::new(());
        self.scrub.job = Arc::downgrade(&alive);
        Some(ScrubJob { file, block, bytes, alive })
    }

    /// Notes what a job has read.
    ///
    /// # Panics
    /// If the job is not the one that this database has under way.
    pub fn install_scrub(&mut self, done: ScrubDone) -> Scrubbed {
        let is_own = std::ptr::eq(self.scrub.job.as_ptr(), Arc::as_ptr(&done.alive));
        assert!(is_own, "a scrub of another database, or from before another");
        let ScrubDone { file, block, stretch, .. } = done;
        let number = file.number();
        let (next, next_block) = match stretch.next {
            Some(next) => (number, next as u64),
            None => (number + 1, 0),
        };
        self.scrub.point.read_bytes += stretch.bytes;
        (self.scrub.point.file, self.scrub.point.block) = (next, next_block);
        let is_there = self.scrubbed_files().any(|there| Arc::ptr_eq(there, &file));
        let faults = if is_there { stretch.faults } else { Vec::new() };
        let mut found = Vec::new();
        for fault in faults {
            let damage = damage_of(fault, file.name());
            let is_known = self.passed_over().any(|known| is_same(known, &damage));
            if self.scrub.note(number, damage.clone()) && !is_known {
                found.push(damage);
            }
        }
        debug_assert!(stretch.next.is_none_or(|next| next > block), "a step goes on");
        if self.next_to_scrub().is_none() {
            self.scrub.end();
        }
        let has_ended = std::mem::take(&mut self.scrub.has_ended);
        Scrubbed { bytes: stretch.bytes, found, has_ended }
    }

    /// Damage that the scrub has found, and that the last pass over it has met.
    pub fn scrub_findings(&self) -> impl Iterator<Item = &Damage> {
        self.scrub.findings.values().map(|finding| &finding.damage)
    }

    /// How far the scrub is. Takes a look at each file's length.
    pub fn scrub_stats(&self) -> ScrubStats {
        let left = |(number, file): (u64, &Arc<IndexFile>)| match number == self.scrub.point.file {
            true => file.bytes_from(self.scrub.point.block),
            false => file.len(),
        };
        let files: BTreeMap<u64, &Arc<IndexFile>> =
            self.scrubbed_files().map(|file| (file.number(), file)).collect();
        ScrubStats {
            passes: self.scrub.passes,
            read_bytes: self.scrub.point.read_bytes,
            left_bytes: files
                .into_iter()
                .filter(|(number, _)| self.is_left(*number))
                .map(left)
                .sum(),
            damaged: self.scrub.findings.len() as u64,
        }
    }

    /// Bytes that a pass which begins now reads: all index files, also those of snapshots.
    pub fn scrub_bytes(&self) -> u64 {
        let files: BTreeMap<u64, u64> =
            self.scrubbed_files().map(|file| (file.number(), file.len())).collect();
        files.values().sum()
    }

    /// What the last [`Db::scrub_note`] was given, in this opening or an earlier one. 0: nothing.
    pub fn scrub_mark(&self) -> u64 {
        self.scrub.mark
    }

    /// A note of how far the scrub is. Once written, the next opening goes on from there. It tells
    /// findings again when it comes to their places again. `mark` is a number of the caller, such
    /// as the time when the last pass ended: see [`Db::scrub_mark`].
    pub fn scrub_note(&mut self, mark: u64) -> ScrubNote {
        self.scrub.mark = mark;
        ScrubNote { disk: self.disk.clone(), bytes: self.scrub.encode(self.database_id()) }
    }

    /// All open files: those of the database, of snapshots, and ingested ones. A file may come
    /// several times.
    fn scrubbed_files(&self) -> impl Iterator<Item = &Arc<IndexFile>> {
        let ingested = self.state.frozen.iter().flat_map(|held| match &held.layer.content {
            Content::Run(_, files) => &files[..],
            Content::Trees(_) => &[],
        });
        let snapshots = self.state.snapshots.values().flat_map(|it| it.view.version.files());
        self.state.version.files().chain(ingested).chain(snapshots)
    }

    fn next_to_scrub(&self) -> Option<&Arc<IndexFile>> {
        let left = self.scrubbed_files().filter(|file| self.is_left(file.number()));
        left.min_by_key(|file| file.number())
    }

    /// True if the pass has still to read this file, or a part of it. A pass that has not begun
    /// yet reads all.
    fn is_left(&self, number: u64) -> bool {
        let Point { file, limit, .. } = self.scrub.point;
        file <= number && (number < limit || limit == 0)
    }
}

impl ScrubNote {
    /// Writes the note, without a sync.
    pub fn write(self) -> Result<(), IoFailure> {
        // A file that is there keeps its room, so this succeeds on a full disk, too.
        let file = match self.disk.open(NOTE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.create(NOTE),
            opened => opened,
        };
        file.and_then(|file| file.write_at(0, &self.bytes)).during("write", NOTE)
    }
}

impl ScrubJob {
    /// Reads the stretch. Blocks while it reads.
    pub fn run(self) -> ScrubDone {
        let stretch = self.file.verify_stretch(self.block, self.bytes);
        ScrubDone { file: self.file, block: self.block, stretch, alive: self.alive }
    }
}

fn damage_of(fault: ReadError, name: &str) -> Damage {
    match fault {
        ReadError::Damaged(damage) => damage,
        fault => Damage::new(name, 0, fault.to_string()),
    }
}

fn is_same(one: &Damage, other: &Damage) -> bool {
    (&one.file, one.offset) == (&other.file, other.offset)
}
