//! Writing a sorted run as several index files, cut by key range.
//!
//! ```text
//! entries   ──a──b──────c──d──┬──e───f─────g──┬──h────
//! ranges        [─────)    [──┼────)          │
//! files     │      file 1     │    file 2     │ file 3
//! ```
//!
//! Files are cut between two entries. A range that crosses a cut goes into both files. Spans are
//! disjoint and ascend.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::disk::traits::Disk;
use crate::index::format::header::index_name;
use crate::index::writer::{IndexWriter, Written};
use crate::types::error::IoFailure;
use crate::types::key::Key;
use crate::types::options::IndexSizes;
use crate::types::ranges::RangeSet;

/// Makes index files. Records their numbers, so that unused files can be removed.
pub(crate) struct FileMaker<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) database_id: u64,
    pub(crate) sizes: IndexSizes,
    /// The files are of a run. There are several above the bottom, so their filters are sharper.
    pub(crate) is_run: bool,
    /// If this rises, the maker gives up: another has more need of the room that is left.
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Number of the next index file. All makers of a database share it.
    pub(crate) numbers: &'a AtomicU64,
    /// Numbers of the files begun.
    pub(crate) made: Vec<u64>,
    pub(crate) bytes_written: u64,
}

impl<'a> FileMaker<'a> {
    /// Makes files of runs, as long as it may.
    pub(crate) fn new(
        disk: &'a dyn Disk,
        database_id: u64,
        sizes: IndexSizes,
        numbers: &'a AtomicU64,
    ) -> Self {
        let (made, bytes_written) = (Vec::new(), 0);
        Self { disk, database_id, sizes, is_run: true, stop: None, numbers, made, bytes_written }
    }

    /// Fails, as on a full disk, if the room is to be left to another.
    fn go_on(&self) -> Result<(), IoFailure> {
        if !self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let what = "the disk is full, and a flush needs the room that is left";
        let source = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
        Err(IoFailure { file: index_name(0), operation: "write", source })
    }

    fn begin(&mut self) -> Result<IndexWriter, IoFailure> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.made.push(number);
        IndexWriter::create(self.disk, self.database_id, number, self.sizes, self.is_run)
    }

    /// Removes all files begun after the first `count`. Nothing names them.
    pub(crate) fn discard(&mut self, count: usize) {
        self.discard_all_but(count, &BTreeSet::new());
    }

    /// Removes files begun after the first `count`, but for those `kept`. A file that cannot be
    /// removed stays until the next opening.
    pub(crate) fn discard_all_but(&mut self, count: usize, kept: &BTreeSet<u64>) {
        for number in self.made.split_off(count) {
            match kept.contains(&number) {
                true => self.made.push(number),
                false => drop(self.disk.remove(&index_name(number))),
            }
        }
    }
}

pub(crate) struct RunWriter<'m, 'a> {
    maker: &'m mut FileMaker<'a>,
    /// Ranges that the run hides in the levels below.
    ranges: RangeSet,
    /// First key that the file under construction may hold or hide.
    start: Key,
    current: Option<IndexWriter>,
    written: Vec<Written>,
}

impl<'m, 'a> RunWriter<'m, 'a> {
    pub(crate) fn new(maker: &'m mut FileMaker<'a>, ranges: RangeSet) -> RunWriter<'m, 'a> {
        RunWriter { maker, ranges, start: Key::from(&[][..]), current: None, written: Vec::new() }
    }

    /// Adds a value, or a tombstone. Keys must ascend.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), IoFailure> {
        self.maker.go_on()?;
        let is_full = self
            .current
            .as_ref()
            .is_some_and(|writer| writer.bytes() >= self.maker.sizes.file_bytes);
        if is_full {
            self.finish_file(Some(key))?;
        }
        let writer = match &mut self.current {
            Some(writer) => writer,
            None => self.current.insert(self.maker.begin()?),
        };
        writer.push(key, value)
    }

    /// Completes the last file. Syncing is up to the caller.
    pub(crate) fn finish(mut self) -> Result<Vec<Written>, IoFailure> {
        self.finish_file(None)?;
        Ok(self.written)
    }

    fn finish_file(&mut self, until: Option<&[u8]>) -> Result<(), IoFailure> {
        let ranges = self.ranges.clipped(&self.start, until);
        let writer = match self.current.take() {
            Some(writer) => writer,
            None if ranges.is_empty() => return Ok(()),
            None => self.maker.begin()?,
        };
        let written = writer.finish(&ranges)?;
        self.maker.bytes_written += written.facts.len;
        self.written.push(written);
        if let Some(key) = until {
            self.start = Key::from(key);
        }
        Ok(())
    }
}
