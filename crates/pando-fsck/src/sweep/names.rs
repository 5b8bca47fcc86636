//! Reads the names of one directory on one shard, with the rows beside them.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Entry, Record};
use pando_types::peer::{EntryValue, Inode};
use pando_types::{DirId, Name, Order, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::{dir_words, in_words};
use crate::lookup::probe::group_range;
use crate::rows::cursor::Cursor;
use crate::rows::key::{Key, kind_prefix};
use crate::rows::source::{Row, Rows, Watch};
use crate::sweep::dirs::{Dir, Region};
use crate::sweep::inode::EvidenceBeside;
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

/// The row of an entry.
struct Read {
    order: Order,
    key: Vec<u8>,
    value: Vec<u8>,
    entry: Entry,
}

impl Sweep<'_> {
    pub(crate) fn names(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        dir: &mut Dir,
        watch: &mut dyn Watch,
    ) -> Result<(), String> {
        let prefix = kind_prefix(dir.id, Kind::Entry);
        let mut group: Vec<Read> = Vec::new();
        while let Some(row) = cursor.next_in(rows, &prefix)? {
            let Some(read) = self.read(dir, row) else { continue };
            if group.first().is_some_and(|first| first.order.base() != read.order.base()) {
                self.group(rows, dir, &std::mem::take(&mut group))?;
            }
            group.push(read);
            self.tell(dir.shard, watch);
        }
        self.group(rows, dir, &group)
    }

    fn read(&mut self, dir: &mut Dir, (key, value): Row) -> Option<Read> {
        let Some(Key::Entry(_, order)) = Key::parse(&key) else {
            self.unknown(dir.shard, &key, &value);
            return None;
        };
        self.rows += 1;
        match dir.region(order) {
            Region::Arriving => None,
            Region::Nobody(gap) => {
                dir.is_outside(gap, &key, &value);
                None
            }
            Region::Owned(at) => {
                let id = dir.id;
                let what = || format!("an entry at order {order:#x} of {}", dir_words(id));
                let entry = self.decode::<Entry>(dir.shard, &what, &key, &value);
                dir.owned[at].is_doubtful |= entry.is_none();
                Some(Read { order: Order(order), key, value, entry: entry? })
            }
        }
    }

    /// Judges all entries of one order.
    fn group(&mut self, rows: &mut dyn Rows, dir: &mut Dir, group: &[Read]) -> Result<(), String> {
        self.crowding(dir, group);
        for (nth, read) in group.iter().enumerate() {
            let Some((name, value)) = &read.entry.is else { continue };
            if let Region::Owned(at) = dir.region(read.order.0) {
                let owned = &mut dir.owned[at];
                owned.names += 1;
                owned.subdirs += u64::from(matches!(value, EntryValue::Dir(_)));
            }
            let row = Evidence::row(dir.shard, &read.key, Some(&read.value));
            let finding = |code, detail: String| {
                Finding::new(code, dir.shard, in_words(dir.id, name), detail)
                    .at(At::Name(dir.id, name.as_bytes().to_vec()))
                    .known_by(row.clone())
                    .under(Place::Name(dir.id, read.order.base().0))
            };
            let right = self.volume.order(name);
            if right != read.order.base().0 {
                let detail =
                    format!("it is at order {:#x}, its hash says {right:#x}", read.order.0);
                self.findings.push(finding(Code::NameAtWrongOrder, detail));
            }
            let twin = group[..nth]
                .iter()
                .find(|other| other.entry.is.as_ref().is_some_and(|(other, _)| other == name));
            if let Some(twin) = twin {
                let (first, second) = (twin.order.ordinal(), read.order.ordinal());
                let detail = format!("it is there with ordinals {first} and {second}");
                let twin = Evidence::row(dir.shard, &twin.key, Some(&twin.value));
                self.findings.push(finding(Code::NameTwice, detail).known_by(twin));
            }
            dir.current = Some((read.order.0, row));
            self.value(rows, dir, read, (name, value))?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        rows: &mut dyn Rows,
        dir: &mut Dir,
        read: &Read,
        (name, value): (&Name, &EntryValue),
    ) -> Result<(), String> {
        let place = (dir.shard, dir.id, read.order.0);
        match value {
            EntryValue::Dir(access) => {
                self.inos.used(access.dir.ino);
                self.tree.entry(place, name, access);
            }
            EntryValue::Linked(ino, kind) => {
                self.inos.used(*ino);
                self.inos.found(*ino, *kind, dir.id, name.as_bytes());
            }
            EntryValue::File(inode) => {
                self.inos.file(inode.attr.ino);
                if dir.is_counted(read.order.0) {
                    self.count_inode(dir.shard, Some(inode));
                }
                let cold = self.cold(rows, dir, read.order.0, Some(inode.attr.ino))?;
                let what = in_words(dir.id, name);
                let at = Some(At::Name(dir.id, name.as_bytes().to_vec()));
                let rewrite = |inode: Inode| {
                    let is = Some((name.clone(), EntryValue::File(inode)));
                    Entry { is, ..read.entry }.encode()
                };
                let row = (dir.shard, read.key.as_slice(), read.value.as_slice());
                let under = Place::Name(dir.id, read.order.base().0);
                let beside = EvidenceBeside::Name(dir.id, read.order.0);
                self.inode(rows, inode, cold, row, &rewrite, (what, at, under), &beside)?;
                return self.single_link(inode, row, &rewrite, dir.id, name, read.order);
            }
        }
        self.cold(rows, dir, read.order.0, None)?;
        Ok(())
    }

    /// Checks that an inode in its entry has one name.
    fn single_link(
        &mut self,
        inode: &Inode,
        (shard, key, value): (ShardIndex, &[u8], &[u8]),
        rewrite: &dyn Fn(Inode) -> Vec<u8>,
        dir: DirId,
        name: &Name,
        order: Order,
    ) -> Result<(), String> {
        if inode.attr.nlink == 1 {
            return Ok(());
        }
        let detail = format!("its link count is {}, and it has one name", inode.attr.nlink);
        let mut right = inode.clone();
        right.attr.nlink = 1;
        let put = Write::Put(key.to_vec(), rewrite(right));
        self.findings.push(
            Finding::new(Code::WrongLinkCount, shard, in_words(dir, name), detail)
                .at(At::Name(dir, name.as_bytes().to_vec()))
                .known_by(Evidence::row(shard, key, Some(value)))
                .under(Place::Name(dir, order.base().0))
                .mended_by(shard, vec![put]),
        );
        Ok(())
    }

    /// Checks that the first record of an order tells whether there are others.
    fn crowding(&mut self, dir: &Dir, group: &[Read]) {
        let Some(first) = group.first() else { return };
        let base = first.order.base();
        let key = keys::dir(dir.id, Kind::Entry, base.0);
        let has_base = first.order == base;
        let has_others = group.iter().any(|read| read.order != base);
        let in_base = has_base.then_some(&first.entry);
        let vacant = Entry { crowded: true, is: None };
        let (what, right) = match in_base {
            Some(entry) if entry.crowded == has_others => (None, None),
            Some(Entry { is: None, .. }) if !has_others => {
                (Some("a vacant record stands for nothing"), Some(Write::Delete(key.clone())))
            }
            Some(entry) => {
                let right = Entry { crowded: has_others, ..entry.clone() };
                let what = if has_others {
                    "its first record does not name the others"
                } else {
                    "its first record names others, and there are none"
                };
                (Some(what), Some(Write::Put(key.clone(), right.encode())))
            }
            None => {
                let what = "its first record is missing";
                (Some(what), Some(Write::Put(key.clone(), vacant.encode())))
            }
        };
        let (Some(detail), Some(write)) = (what, right) else { return };
        let what = format!("order {:#x} of {}", base.0, dir_words(dir.id));
        let finding = Finding::new(Code::WrongCrowding, dir.shard, what, detail.to_owned())
            .at(At::Dir(dir.id))
            .under(Place::Name(dir.id, base.0))
            .mended_by(dir.shard, vec![write]);
        let rows = group.iter().map(|read| (read.key.as_slice(), read.value.as_slice()));
        let all = Evidence::range(dir.shard, group_range(dir.id, base.0), rows);
        self.findings.push(finding.known_by(all));
    }
}
