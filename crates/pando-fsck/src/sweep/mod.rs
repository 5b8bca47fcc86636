//! The first pass over all rows, shard by shard, in key order. Rows that lie together are judged at
//! once. What must agree with rows elsewhere is noted.
//!
//! ```text
//!  shard 0: │d dir A: content headers entries ┊ xattrs ┊ inline ┊ slices│d dir B …│l inodes …│s tables …│
//!                                     │ joined by order, each by a cursor of its own │
//! ```
//!
//! Of a file with one name, only a bit of its number is kept.

mod cold;
mod dirs;
mod inode;
mod links;
mod names;
mod tables;

use std::collections::BTreeMap;
use std::ops::Range;

use pando_core::record::Record;
use pando_types::peer::Inode;
use pando_types::{DirId, Ino, ShardIndex};

use crate::busy::Busy;
use crate::code::Code;
use crate::cursor::Cursor;
use crate::data::Needed;
use crate::finding::{Evidence, Finding, Findings, Pending};
use crate::inos::Inos;
use crate::key::Key;
use crate::source::{Progress, Rows, Watch};
use crate::tree::Tree;
use crate::volume::Volume;
pub use tables::Tables;

/// Bytes in a page of the main cursor.
const PAGE_BYTES: usize = 1 << 20;
/// Bytes in a page of the cursors over cold rows.
const SIDE_BYTES: usize = 64 << 10;
/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 10_000;

/// Rows of names that no partition of their shard holds, in one gap between partitions.
pub struct Outside {
    pub shard: ShardIndex,
    pub dir: DirId,
    pub gap: Range<u64>,
    pub rows: u64,
    /// The first of these rows.
    pub first: Evidence,
}

/// Result of the sweep.
pub struct Sweep<'a> {
    pub volume: &'a Volume,
    pub busy: &'a Busy,
    pub findings: Findings,
    pub tree: Tree,
    pub inos: Inos,
    pub needed: Needed,
    pub tables: Tables,
    pub outside: Vec<Outside>,
    /// Number of inodes, and sum of their sizes in bytes, on each shard.
    pub usage: BTreeMap<ShardIndex, (u64, u64)>,
    pub rows: u64,
    pub pending: Pending,
    told: u64,
}

impl<'a> Sweep<'a> {
    /// Reads all rows of all shards.
    pub fn run(
        rows: &mut dyn Rows,
        volume: &'a Volume,
        busy: &'a Busy,
        watch: &mut dyn Watch,
    ) -> Result<Self, String> {
        let mut sweep = Self {
            volume,
            busy,
            findings: Findings::default(),
            tree: Tree::default(),
            inos: Inos::default(),
            needed: Needed::default(),
            tables: Tables::default(),
            outside: Vec::new(),
            usage: BTreeMap::new(),
            rows: 0,
            pending: Pending::default(),
            told: 0,
        };
        for object in &busy.garbage {
            sweep.needed.garbage(*object);
        }
        for (ino, slice) in &busy.slices {
            sweep.needed.name(*ino, slice);
        }
        for shard in volume.shards() {
            sweep.usage.insert(shard, (0, 0));
            sweep.shard(rows, shard, watch)?;
        }
        let pending = &mut sweep.pending;
        pending.decided = busy.decided.len() as u64;
        pending.prepared = busy.prepared.len() as u64;
        pending.tombstones = sweep.tree.tombstones();
        pending.nameless = sweep.inos.nameless();
        pending.garbage = sweep.needed.garbage_count();
        Ok(sweep)
    }

    fn shard(
        &mut self,
        rows: &mut dyn Rows,
        shard: ShardIndex,
        watch: &mut dyn Watch,
    ) -> Result<(), String> {
        let mut cursor = Cursor::new(rows, shard, &[], PAGE_BYTES)?;
        while let Some((key, _)) = cursor.peek(rows)? {
            match Key::parse(key) {
                Some(
                    Key::Content(dir)
                    | Key::DirXattr(dir)
                    | Key::Header(dir, _)
                    | Key::Entry(dir, _)
                    | Key::Cold(dir, ..)
                    | Key::StagedHeader(dir),
                ) => self.dir(rows, &mut cursor, (shard, dir), watch)?,
                Some(Key::Link(ino) | Key::LinkCold(ino, _) | Key::LinkName(ino, ..)) => {
                    self.link(rows, &mut cursor, (shard, ino))?;
                }
                Some(key) => self.table(rows, &mut cursor, (shard, key))?,
                None => {
                    if let Some((key, value)) = cursor.next(rows)? {
                        self.unknown(shard, &key, &value);
                    }
                }
            }
            self.tell(shard, watch);
        }
        watch.progress(Progress::Sweep { shard, rows: self.rows });
        self.missing_tables(shard);
        Ok(())
    }

    fn tell(&mut self, shard: ShardIndex, watch: &mut dyn Watch) {
        if self.rows >= self.told + PROGRESS_ROWS {
            self.told = self.rows;
            watch.progress(Progress::Sweep { shard, rows: self.rows });
        }
    }

    fn unknown(&mut self, shard: ShardIndex, key: &[u8], value: &[u8]) {
        self.rows += 1;
        let what = format!("key {}", key.escape_ascii());
        let detail = format!("a row of {} bytes", value.len());
        let evidence = Evidence::row(shard, key, Some(value));
        self.findings.push(Finding::new(Code::UnknownKey, shard, what, detail).known_by(evidence));
    }

    /// Decodes a record, or reports that it cannot be read.
    fn decode<R: Record>(
        &mut self,
        shard: ShardIndex,
        what: &dyn Fn() -> String,
        key: &[u8],
        value: &[u8],
    ) -> Option<R> {
        match R::decode(value) {
            Ok(record) => Some(record),
            Err(halt) => {
                let why = match halt {
                    pando_core::Halt::Broken(why) | pando_core::Halt::Unreadable(why) => why,
                    pando_core::Halt::NotResident(_) => "it is not in memory".to_owned(),
                };
                let evidence = Evidence::row(shard, key, Some(value));
                let finding = Finding::new(Code::UnreadableRecord, shard, what(), why);
                self.findings.push(finding.known_by(evidence));
                None
            }
        }
    }

    fn misplaced(&mut self, shard: ShardIndex, what: String, owner: ShardIndex, row: Evidence) {
        let detail = format!("its slot belongs to shard {owner}");
        let finding = Finding::new(Code::MisplacedRow, shard, what, detail);
        self.findings.push(finding.known_by(row));
    }

    fn count_inode(&mut self, shard: ShardIndex, inode: Option<&Inode>) {
        let usage = self.usage.entry(shard).or_default();
        usage.0 += 1;
        usage.1 = usage.1.wrapping_add(inode.map_or(0, |inode| inode.attr.size));
    }
}

/// Name of a directory in messages.
pub fn dir_words(dir: DirId) -> String {
    if dir == DirId::ROOT { "the root directory".to_owned() } else { format!("directory {dir}") }
}

/// Name of an inode in messages.
pub fn ino_words(ino: Ino) -> String {
    format!("inode {ino}")
}
