//! A second pass, made only if needed: it finds where given inodes and objects are named.
//!
//! The first pass keeps no place of a file. So for a number that occurs twice, or an object that is
//! missing, the rows must be read again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pando_core::keys;
use pando_core::record::{Content, Entry, Header, Record};
use pando_types::op::ObjectId;
use pando_types::peer::EntryValue;
use pando_types::reply::Slice;
use pando_types::{DirId, Ino, ShardIndex};

use crate::rows::cursor::Cursor;
use crate::rows::key::{Cold, Key};
use crate::rows::source::{Progress, Row, Rows, Watch};
use crate::rows::volume::Volume;
use crate::unfinished::busy::Busy;

/// Most inodes kept for one object.
const SPOTS_MAX: usize = 16;

/// A place where an inode is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spot {
    /// An entry that holds the inode, or leads to it.
    Entry { shard: ShardIndex, dir: DirId, order: u64 },
    /// The inode is this directory.
    Directory(DirId),
}

/// A row that names an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    pub shard: ShardIndex,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub slice: Slice,
}

/// Result of the second pass.
#[derive(Default)]
pub struct Located {
    pub inos: BTreeMap<Ino, Vec<Spot>>,
    pub objects: BTreeMap<ObjectId, Vec<Naming>>,
}

/// Looks for inodes and objects in all rows, if there is anything to look for.
pub fn locate(
    rows: &mut dyn Rows,
    volume: &Volume,
    busy: &Busy,
    inos: BTreeSet<Ino>,
    objects: BTreeSet<ObjectId>,
    watch: &mut dyn Watch,
) -> Result<Located, String> {
    if inos.is_empty() && objects.is_empty() {
        return Ok(Located::default());
    }
    let mut search = Search { busy, inos, objects, located: Located::default() };
    let (mut seen, tables) = (0, keys::table(keys::Table::Numbers));
    for shard in volume.shards() {
        let mut cursor = Cursor::new(rows, shard, b"d", 1 << 20)?;
        let mut owned = (DirId::ROOT, Vec::new());
        while let Some(row) = cursor.next(rows)? {
            if row.0.starts_with(&tables[..1]) {
                break;
            }
            seen += 1;
            if seen % 10_000 == 0 {
                watch.progress(Progress::Sweep { shard, rows: seen });
            }
            search.row(shard, &mut owned, row);
        }
    }
    Ok(search.located)
}

/// A directory that is being read, and its partitions on the shard. Headers come before names.
type Owned = (DirId, Vec<Range<u64>>);

/// What is looked for, and what has been found.
struct Search<'a> {
    busy: &'a Busy,
    inos: BTreeSet<Ino>,
    objects: BTreeSet<ObjectId>,
    located: Located,
}

impl Search<'_> {
    fn row(&mut self, shard: ShardIndex, owned: &mut Owned, (key, value): Row) {
        // What comes with a hash slot still belongs to another shard. The shard's own partitions of
        // these directories do not.
        let is_incoming = keys::hash_slot_of_row(&key)
            .is_some_and(|hash_slot| self.busy.is_incoming(shard, hash_slot));
        let is_own = |dir: DirId, order: u64| {
            !is_incoming || owned.0 == dir && owned.1.iter().any(|r| r.contains(&order))
        };
        match Key::parse(&key) {
            Some(Key::Header(dir, _)) => {
                if owned.0 != dir {
                    *owned = (dir, Vec::new());
                }
                owned.1.extend(Header::decode(&value).ok().map(|header| header.range()));
            }
            Some(Key::Entry(dir, order)) if is_own(dir, order) => {
                self.entry(shard, dir, order, &value);
            }
            Some(Key::Content(dir)) if !is_incoming => {
                if let Ok(content) = Content::decode(&value)
                    && self.inos.contains(&content.base.ino)
                {
                    self.located.spot(content.base.ino, Spot::Directory(dir));
                }
            }
            Some(Key::Cold(dir, order, Cold::Slice(_)))
                if is_own(dir, order) && !is_arriving(self.busy, shard, dir, order) =>
            {
                self.located.slice(&self.objects, shard, key, value);
            }
            Some(Key::LinkCold(_, Cold::Slice(_))) if !is_incoming => {
                self.located.slice(&self.objects, shard, key, value);
            }
            _ => {}
        }
    }

    fn entry(&mut self, shard: ShardIndex, dir: DirId, order: u64, value: &[u8]) {
        let ino = match Entry::decode(value).ok().and_then(|entry| entry.is) {
            Some((_, EntryValue::File(inode))) => inode.attr.ino,
            Some((_, EntryValue::Linked(ino, _))) => ino,
            _ => return,
        };
        if self.inos.contains(&ino) && !is_arriving(self.busy, shard, dir, order) {
            self.located.spot(ino, Spot::Entry { shard, dir, order });
        }
    }
}

fn is_arriving(busy: &Busy, shard: ShardIndex, dir: DirId, order: u64) -> bool {
    busy.arriving.iter().any(|(s, d, range)| (*s, *d) == (shard, dir) && range.contains(&order))
}

impl Located {
    fn spot(&mut self, ino: Ino, spot: Spot) {
        // All places are kept: an inode has at most 65,000 names.
        self.inos.entry(ino).or_default().push(spot);
    }

    fn slice(
        &mut self,
        objects: &BTreeSet<ObjectId>,
        shard: ShardIndex,
        key: Vec<u8>,
        value: Vec<u8>,
    ) {
        let Ok(slice) = Slice::decode(&value) else { return };
        if objects.contains(&slice.range.object) {
            let namings = self.objects.entry(slice.range.object).or_default();
            // One row of each inode is enough. The key without its last 8 bytes tells which inode
            // it is.
            let inode = key.len() - 8;
            let is_new = namings.iter().all(|other| other.key.get(..inode) != key.get(..inode));
            if is_new && namings.len() < SPOTS_MAX {
                namings.push(Naming { shard, key, value, slice });
            }
        }
    }
}
