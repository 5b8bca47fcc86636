//! The sweep itself: all rows of all shards, in key order.

use std::collections::BTreeMap;

use pando_types::ShardIndex;

use crate::findings::report::{Findings, Pending};
use crate::learned::inos::Inos;
use crate::learned::needed::Needed;
use crate::learned::tables::Tables;
use crate::learned::tree::Tree;
use crate::rows::cursor::Cursor;
use crate::rows::key::Key;
use crate::rows::source::{Progress, Rows, Watch};
use crate::rows::volume::Volume;
use crate::sweep::pass::Sweep;
use crate::unfinished::busy::Busy;

/// Bytes in a page of the main cursor.
const PAGE_BYTES: usize = 1 << 20;

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
}
