//! What a sweep has learned so far, and the faults that it reports.

use std::collections::BTreeMap;
use std::ops::Range;

use pando_core::Halt;
use pando_core::record::Record;
use pando_types::peer::Inode;
use pando_types::{DirId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::findings::report::{Findings, Pending};
use crate::learned::inos::Inos;
use crate::learned::needed::Needed;
use crate::learned::tables::Tables;
use crate::learned::tree::Tree;
use crate::rows::source::{Progress, Watch};
use crate::rows::volume::Volume;
use crate::unfinished::busy::Busy;

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
    pub(crate) told: u64,
}

impl Sweep<'_> {
    /// Reports progress, if it is time.
    pub(crate) fn tell(&mut self, shard: ShardIndex, watch: &mut dyn Watch) {
        if self.rows >= self.told + PROGRESS_ROWS {
            self.told = self.rows;
            watch.progress(Progress::Sweep { shard, rows: self.rows });
        }
    }

    pub(crate) fn unknown(&mut self, shard: ShardIndex, key: &[u8], value: &[u8]) {
        self.rows += 1;
        let what = format!("key {}", key.escape_ascii());
        let detail = format!("a row of {} bytes", value.len());
        let evidence = Evidence::row(shard, key, Some(value));
        self.findings.push(Finding::new(Code::UnknownKey, shard, what, detail).known_by(evidence));
    }

    /// Decodes a record, or reports that it cannot be read.
    pub(crate) fn decode<R: Record>(
        &mut self,
        shard: ShardIndex,
        what: &dyn Fn() -> String,
        key: &[u8],
        value: &[u8],
    ) -> Option<R> {
        match R::decode(value) {
            Ok(record) => Some(record),
            Err(halt) => {
                let (Halt::Broken(why) | Halt::Unreadable(why)) = halt;
                let evidence = Evidence::row(shard, key, Some(value));
                let finding = Finding::new(Code::UnreadableRecord, shard, what(), why);
                self.findings.push(finding.known_by(evidence));
                None
            }
        }
    }

    pub(crate) fn misplaced(
        &mut self,
        shard: ShardIndex,
        what: String,
        owner: ShardIndex,
        row: Evidence,
    ) {
        let detail = format!("its hash slot belongs to shard {owner}");
        let finding = Finding::new(Code::MisplacedRow, shard, what, detail);
        self.findings.push(finding.known_by(row));
    }

    pub(crate) fn count_inode(&mut self, shard: ShardIndex, inode: Option<&Inode>) {
        let usage = self.usage.entry(shard).or_default();
        usage.0 += 1;
        usage.1 = usage.1.wrapping_add(inode.map_or(0, |inode| inode.attr.size));
    }
}
