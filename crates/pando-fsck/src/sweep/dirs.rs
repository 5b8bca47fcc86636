//! All rows of one directory on one shard.

use std::ops::Range;

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Header, Record, Xattrs};
use pando_types::{DirId, Order, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::dir_words;
use crate::rows::cursor::{self, Cursor};
use crate::rows::key::{Cold, Key, dir_prefix, kind_prefix};
use crate::rows::source::{Row, Rows, Watch};
use crate::sweep::pass::{Outside, Sweep};
use crate::unfinished::place::Place;

/// Bytes in a page of the cursors over cold rows.
const SIDE_BYTES: usize = 64 << 10;

/// A partition that the shard owns, or will own when it hears of a decision.
pub struct Owned {
    pub orders: Range<u64>,
    pub header: Header,
    /// The header's row; `None` if the shard has not heard of the decision yet.
    row: Option<Row>,
    pub names: u64,
    pub subdirs: u64,
    /// Whether a name in the partition is faulty. Then its count is not judged.
    pub is_doubtful: bool,
}

/// One directory on one shard, while its rows are read.
pub struct Dir {
    pub shard: ShardIndex,
    pub id: DirId,
    pub owned: Vec<Owned>,
    arriving: Vec<Range<u64>>,
    /// Cursors over cold rows, in the order of `Cold::KINDS`.
    pub sides: [Cursor; 3],
    /// The entry that was read last, by which rows beside it are judged.
    pub current: Option<(u64, Evidence)>,
    outside: Vec<Outside>,
}

/// The partition that an order belongs to on this shard.
pub enum Region {
    /// A partition that the shard owns; its index in `Dir::owned`.
    Owned(usize),
    /// A partition that is arriving, and is not owned yet.
    Arriving,
    /// No partition; the order is in this gap between partitions.
    Nobody(Range<u64>),
}

impl Dir {
    pub fn region(&self, order: u64) -> Region {
        if let Some(at) = self.owned.iter().position(|owned| owned.orders.contains(&order)) {
            return Region::Owned(at);
        }
        if self.arriving.iter().any(|range| range.contains(&order)) {
            return Region::Arriving;
        }
        let known = || self.owned.iter().map(|owned| &owned.orders).chain(&self.arriving);
        let from = known().map(|r| r.end).filter(|end| *end <= order).max().unwrap_or(0);
        let to = known().map(|r| r.start).filter(|start| *start > order).min();
        Region::Nobody(from..to.unwrap_or(Order::END))
    }

    /// Whether the shard counts an entry at this order. It does not before it has heard that it
    /// owns the partition.
    pub fn is_counted(&self, order: u64) -> bool {
        match self.region(order) {
            Region::Owned(at) => self.owned[at].row.is_some(),
            Region::Arriving | Region::Nobody(_) => false,
        }
    }

    /// Notes a row in a gap.
    pub fn is_outside(&mut self, gap: Range<u64>, key: &[u8], value: &[u8]) {
        match self.outside.iter_mut().find(|outside| outside.gap == gap) {
            Some(outside) => outside.rows += 1,
            None => self.outside.push(Outside {
                shard: self.shard,
                dir: self.id,
                gap,
                rows: 1,
                first: Evidence::row(self.shard, key, Some(value)),
            }),
        }
    }
}

impl Sweep<'_> {
    /// Reads all rows of a directory on a shard. The cursor ends behind them.
    pub(crate) fn dir(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        (shard, id): (ShardIndex, DirId),
        watch: &mut dyn Watch,
    ) -> Result<(), String> {
        let prefix = dir_prefix(id);
        self.content(rows, cursor, (shard, id))?;
        let mut owned = self.headers(rows, cursor, (shard, id))?;
        for (at, _, header) in self.busy.arrived.iter().filter(|(_, dir, _)| *dir == id) {
            let orders = header.range();
            let has = |o: &Owned| o.orders.start < orders.end && orders.start < o.orders.end;
            if *at == shard && !owned.iter().any(has) {
                self.tree.part(id, shard, header.range().start, header);
                owned.push(Owned::new(header.clone(), None));
            }
        }
        let mine = |(at, dir, _): &&(ShardIndex, DirId, Range<u64>)| (*at, *dir) == (shard, id);
        let mut arriving: Vec<_> =
            self.busy.arriving.iter().filter(mine).map(|(_, _, r)| r.clone()).collect();
        if self.busy.is_incoming(shard, id.hash_slot()) {
            arriving.push(0..Order::END);
        }
        if self.busy.is_arrived(shard, id.hash_slot())
            && let Some(value) = cursor::get(rows, shard, &keys::dir(id, Kind::StagedHeader, 0))?
            && let Ok(header) = Header::decode(&value)
        {
            self.tree.part(id, shard, header.range().start, &header);
            owned.push(Owned::new(header, None));
        }
        cursor.seek(rows, &kind_prefix(id, Kind::Entry))?;
        let mut side = |kind| cursor.fork(rows, &kind_prefix(id, kind), SIDE_BYTES);
        let sides = [side(Cold::KINDS[0])?, side(Cold::KINDS[1])?, side(Cold::KINDS[2])?];
        let mut dir = Dir { shard, id, owned, arriving, sides, current: None, outside: Vec::new() };
        self.names(rows, cursor, &mut dir, watch)?;
        for at in 0..Cold::KINDS.len() {
            while let Some((key, value)) = self.next_cold(rows, &mut dir, at, u64::MAX)? {
                self.stray(&mut dir, &key, &value);
            }
        }
        for owned in dir.owned {
            self.judge_counts(shard, id, owned);
        }
        self.outside.append(&mut dir.outside);
        cursor.seek(rows, &kind_prefix(id, Kind::LinkName))?;
        while let Some((key, value)) = cursor.next_in(rows, &prefix)? {
            match Key::parse(&key) {
                Some(Key::StagedHeader(_)) => self.staged(shard, id, &key, &value),
                _ => self.unknown(shard, &key, &value),
            }
        }
        Ok(())
    }

    /// Judges a header that waits for its hash slot to arrive.
    fn staged(&mut self, shard: ShardIndex, id: DirId, key: &[u8], value: &[u8]) {
        self.rows += 1;
        if self.busy.incoming.contains(&(shard, id.hash_slot())) {
            return;
        }
        let what = format!("a header of {} that is to come", dir_words(id));
        let detail = "its hash slot is not on its way there".to_owned();
        let finding = Finding::new(Code::StrayRow, shard, what, detail)
            .known_by(Evidence::row(shard, key, Some(value)))
            .known_by(Evidence::row(shard, &keys::incoming(id.hash_slot()), None))
            .mended_by(shard, vec![Write::Delete(key.to_vec())]);
        self.findings.push(finding);
    }

    fn content(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        (shard, id): (ShardIndex, DirId),
    ) -> Result<(), String> {
        let home = self.volume.map.home(id);
        let mut found = None;
        let mut row = Evidence::row(shard, &keys::dir(id, Kind::Content, 0), None);
        while let Some((key, value)) = cursor.next_in(rows, &kind_prefix(id, Kind::Content))? {
            if Key::parse(&key) != Some(Key::Content(id)) {
                self.unknown(shard, &key, &value);
                continue;
            }
            self.rows += 1;
            row = Evidence::row(shard, &key, Some(&value));
            if self.busy.is_incoming(shard, id.hash_slot()) {
                continue;
            }
            if home != shard {
                self.misplaced(
                    shard,
                    format!("the content of {}", dir_words(id)),
                    home,
                    row.clone(),
                );
                continue;
            }
            let what = || format!("the content of {}", dir_words(id));
            found = self.decode::<Content>(shard, &what, &key, &value);
            match &found {
                Some(content) => self.take_content(shard, id, content),
                // The record exists, but it is unreadable. Whatever depends on it is not judged.
                None => drop(self.tables.unreadable_dirs.insert(id)),
            }
        }
        while let Some((key, value)) = cursor.next_in(rows, &kind_prefix(id, Kind::DirXattr))? {
            if Key::parse(&key) != Some(Key::DirXattr(id)) {
                self.unknown(shard, &key, &value);
                continue;
            }
            self.rows += 1;
            if self.busy.is_incoming(shard, id.hash_slot()) {
                continue;
            }
            let what = || format!("extended attributes of {}", dir_words(id));
            self.decode::<Xattrs>(shard, &what, &key, &value);
            let lives = found.as_ref().is_some_and(|content| !content.tombstone);
            if !lives && !self.tables.unreadable_dirs.contains(&id) {
                let detail = "the directory is not there".to_owned();
                let finding = Finding::new(Code::StrayRow, shard, what(), detail)
                    .known_by(Evidence::row(shard, &key, Some(&value)))
                    .known_by(row.clone())
                    .under(Place::Home(id))
                    .mended_by(shard, vec![Write::Delete(key)]);
                self.findings.push(finding);
            }
        }
        Ok(())
    }

    fn take_content(&mut self, shard: ShardIndex, id: DirId, content: &Content) {
        self.tree.content(id, content);
        if content.tombstone {
            self.inos.used(content.base.ino);
        } else {
            self.inos.dir(content.base.ino);
            if !self.busy.is_arrived(shard, id.hash_slot()) {
                self.count_inode(shard, None);
            }
        }
    }

    fn headers(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        (shard, id): (ShardIndex, DirId),
    ) -> Result<Vec<Owned>, String> {
        let mut owned: Vec<Owned> = Vec::new();
        while let Some((key, value)) = cursor.next_in(rows, &kind_prefix(id, Kind::Header))? {
            let Some(Key::Header(_, start)) = Key::parse(&key) else {
                self.unknown(shard, &key, &value);
                continue;
            };
            self.rows += 1;
            let what = || format!("a partition of {}", dir_words(id));
            match self.decode::<Header>(shard, &what, &key, &value) {
                Some(header) => {
                    self.inos.used(header.ino);
                    self.tree.part(id, shard, start, &header);
                    let mut new = Owned::new(header, Some((key, value)));
                    // Nothing follows from a header that contradicts its key.
                    new.is_doubtful = new.orders.start != start || new.orders.is_empty();
                    for other in &mut owned {
                        if new.overlaps(other) {
                            (new.is_doubtful, other.is_doubtful) = (true, true);
                        }
                    }
                    owned.push(new);
                }
                None => drop(self.tables.unreadable_dirs.insert(id)),
            }
        }
        Ok(owned)
    }

    fn judge_counts(&mut self, shard: ShardIndex, id: DirId, owned: Owned) {
        let Owned { orders, mut header, row, names, subdirs, is_doubtful } = owned;
        let Some((key, value)) = row else { return };
        if is_doubtful || (header.entries, header.subdirs) == (names, subdirs) {
            return;
        }
        let detail = format!(
            "it counts {} names, {} of them directories; there are {names} and {subdirs}",
            header.entries, header.subdirs
        );
        let what = format!("partition {} of {}", header.partition, dir_words(id));
        let (from, to) = keys::dir_range(id, Kind::Entry, &orders);
        let place = Place::Partition(id, header.partition);
        let row = Evidence::row(shard, &key, Some(&value));
        (header.entries, header.subdirs) = (names, subdirs);
        let finding = Finding::new(Code::WrongEntryCount, shard, what, detail)
            .at(At::Dir(id))
            .known_by(row.clone())
            .known_by(Evidence::Names { shard, from, to, names, subdirs })
            .known_by(row)
            .under(place)
            .mended_by(shard, vec![Write::Put(key, header.encode())]);
        self.findings.push(Finding { counted: Some((id, orders)), ..finding });
    }
}

impl Owned {
    fn overlaps(&self, other: &Self) -> bool {
        self.orders.start < other.orders.end && other.orders.start < self.orders.end
    }

    fn new(header: Header, row: Option<Row>) -> Self {
        let orders = header.range();
        Self { orders, header, row, names: 0, subdirs: 0, is_doubtful: false }
    }
}
