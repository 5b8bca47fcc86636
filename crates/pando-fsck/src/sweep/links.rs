//! All rows of one link inode.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{LinkedName, Record};
use pando_types::peer::Inode;
use pando_types::{Ino, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::{ino_words, link_in_words};
use crate::learned::needed::ColdRows;
use crate::rows::cursor::Cursor;
use crate::rows::key::{Key, link_prefix};
use crate::rows::source::{Row, Rows};
use crate::sweep::inode::EvidenceBeside;
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

/// What the rows of one link inode hold, as far as they were read.
#[derive(Default)]
struct LinkRows {
    /// The inode's own row. The record is `None` if it cannot be read.
    hot: Option<(Row, Option<Inode>)>,
    cold: ColdRows,
    /// The first of the inode's names.
    name: Option<At>,
}

impl Sweep<'_> {
    /// Reads all rows of a link inode. The cursor ends behind them.
    pub(crate) fn link(
        &mut self,
        rows: &mut dyn Rows,
        cursor: &mut Cursor,
        (shard, ino): (ShardIndex, Ino),
    ) -> Result<(), String> {
        let owner = self.volume.map.link(ino);
        let mut link = LinkRows::default();
        while let Some((key, value)) = cursor.next_in(rows, &link_prefix(ino))? {
            let Some(parsed) = Key::parse(&key) else {
                self.unknown(shard, &key, &value);
                continue;
            };
            self.rows += 1;
            if self.busy.is_incoming(shard, ino.hash_slot()) {
                continue;
            }
            if owner != shard {
                let row = Evidence::row(shard, &key, Some(&value));
                self.misplaced(shard, format!("a row of {}", link_in_words(ino)), owner, row);
                continue;
            }
            self.link_row(&mut link, (shard, ino), &parsed, (key, value));
        }
        let LinkRows { hot, cold, name } = link;
        let Some(((key, value), inode)) = hot else { return Ok(()) };
        let Some(inode) = inode else {
            self.tables.unreadable_links.insert(ino);
            return Ok(());
        };
        let row = (shard, key.as_slice(), value.as_slice());
        let what = link_in_words(ino);
        if inode.attr.ino != ino {
            let detail = format!("it says that it is inode {}", inode.attr.ino);
            let finding = Finding::new(Code::UnreadableRecord, shard, what, detail);
            self.findings.push(finding.known_by(Evidence::row(shard, &key, Some(&value))));
            return Ok(());
        }
        let said = (what, name, Place::Link(ino));
        let beside = EvidenceBeside::Link(ino);
        self.inode(rows, &inode, cold, row, &|inode| inode.encode(), said, &beside)
    }

    fn link_row(
        &mut self,
        link: &mut LinkRows,
        (shard, ino): (ShardIndex, Ino),
        parsed: &Key,
        (key, value): Row,
    ) {
        match parsed {
            Key::Link(_) => {
                let inode = self.decode::<Inode>(shard, &|| link_in_words(ino), &key, &value);
                if let Some(inode) = &inode {
                    if !self.busy.is_arrived(shard, ino.hash_slot()) {
                        self.count_inode(shard, Some(inode));
                    }
                    self.inos.link(ino, inode.attr.kind, inode.attr.nlink);
                }
                link.hot = Some(((key, value), inode));
            }
            Key::LinkCold(_, kind) if link.hot.is_some() => {
                self.pass_cold(&mut link.cold, shard, ino, *kind, (&key, &value));
            }
            Key::LinkName(_, dir, bytes) if link.hot.is_some() => {
                let what = || format!("a name of {}", ino_words(ino));
                let record = self.decode::<LinkedName>(shard, &what, &key, &value);
                if record.is_some_and(|r| (r.dir.id, r.name.as_bytes()) == (*dir, &**bytes)) {
                    link.name.get_or_insert(At::Name(*dir, bytes.clone()));
                    self.inos.known(ino, *dir, bytes);
                }
            }
            _ => self.stray_link(shard, ino, key, &value),
        }
    }

    fn stray_link(&mut self, shard: ShardIndex, ino: Ino, key: Vec<u8>, value: &[u8]) {
        let what = format!("a row beside {}", link_in_words(ino));
        let hot = keys::link(ino, Kind::Entry);
        self.findings.push(
            Finding::new(Code::StrayRow, shard, what, "the inode is not there".to_owned())
                .known_by(Evidence::row(shard, &key, Some(value)))
                .known_by(Evidence::row(shard, &hot, None))
                .under(Place::Link(ino))
                .mended_by(shard, vec![Write::Delete(key)]),
        );
    }
}
