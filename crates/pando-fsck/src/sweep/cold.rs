//! Rows beside inodes: extended attributes, inline data, slices.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::Xattrs;
use pando_types::reply::Slice;
use pando_types::{Ino, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::{dir_words, ino_words};
use crate::learned::needed::ColdRows;
use crate::rows::key::{Cold, Key, kind_prefix};
use crate::rows::source::{Row, Rows};
use crate::sweep::dirs::{Dir, Region};
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

impl Sweep<'_> {
    /// The next cold row of one kind, if its order is at most `order`.
    pub(crate) fn next_cold(
        &mut self,
        rows: &mut dyn Rows,
        dir: &mut Dir,
        at: usize,
        order: u64,
    ) -> Result<Option<Row>, String> {
        let prefix = kind_prefix(dir.id, Cold::KINDS[at]);
        loop {
            let side = &mut dir.sides[at];
            match side.peek(rows)? {
                Some((key, _)) if key.starts_with(&prefix) => {
                    if keys::order_of(key).is_some_and(|o| o.0 > order) {
                        return Ok(None);
                    }
                }
                _ => return Ok(None),
            }
            let Some((key, value)) = side.next(rows)? else { return Ok(None) };
            if Key::parse(&key).is_some() {
                self.rows += 1;
                return Ok(Some((key, value)));
            }
            self.unknown(dir.shard, &key, &value);
        }
    }

    /// Collects the cold rows of the entry at `order`, which has the inode `ino`. Rows before it
    /// belong to no file.
    pub(crate) fn cold(
        &mut self,
        rows: &mut dyn Rows,
        dir: &mut Dir,
        order: u64,
        ino: Option<Ino>,
    ) -> Result<ColdRows, String> {
        let mut found = ColdRows::default();
        for at in 0..Cold::KINDS.len() {
            while let Some((key, value)) = self.next_cold(rows, dir, at, order)? {
                let Some(Key::Cold(_, there, cold)) = Key::parse(&key) else { continue };
                match ino {
                    Some(ino) if there == order => {
                        self.pass_cold(&mut found, dir.shard, ino, cold, (&key, &value));
                    }
                    _ => self.stray(dir, &key, &value),
                }
            }
        }
        Ok(found)
    }

    /// Notes a cold row of an inode.
    pub(crate) fn pass_cold(
        &mut self,
        found: &mut ColdRows,
        shard: ShardIndex,
        ino: Ino,
        cold: Cold,
        (key, value): (&[u8], &[u8]),
    ) {
        let what = || format!("a row beside {}", ino_words(ino));
        match cold {
            Cold::Xattr => {
                self.decode::<Xattrs>(shard, &what, key, value);
                found.pass(cold, value, None);
            }
            Cold::Inline => found.pass(cold, value, None),
            Cold::Slice(_) => {
                if let Some(slice) = self.decode::<Slice>(shard, &what, key, value) {
                    self.needed.name(ino, &slice);
                    found.pass(cold, value, Some(&slice));
                }
            }
        }
    }

    /// Reports a cold row without an inode.
    pub(crate) fn stray(&mut self, dir: &mut Dir, key: &[u8], value: &[u8]) {
        let Some(order) = keys::order_of(key) else { return };
        match dir.region(order.0) {
            Region::Arriving => {}
            Region::Nobody(gap) => dir.is_outside(gap, key, value),
            Region::Owned(at) if dir.owned[at].is_doubtful => {}
            Region::Owned(_) => {
                let entry = match &dir.current {
                    Some((at, evidence)) if *at == order.0 => evidence.clone(),
                    _ => Evidence::row(dir.shard, &keys::dir(dir.id, Kind::Entry, order.0), None),
                };
                let kind = match keys::kind_of(key) {
                    Some(5) => "extended attributes",
                    Some(6) => "inline data",
                    _ => "a slice of data",
                };
                let what = format!("{kind} at order {:#x} of {}", order.0, dir_words(dir.id));
                let detail = "no file's inode is there".to_owned();
                self.findings.push(
                    Finding::new(Code::StrayRow, dir.shard, what, detail)
                        .at(At::Dir(dir.id))
                        .known_by(Evidence::row(dir.shard, key, Some(value)))
                        .known_by(entry)
                        .under(Place::Name(dir.id, order.base().0))
                        .mended_by(dir.shard, vec![Write::Delete(key.to_vec())]),
                );
            }
        }
    }
}
