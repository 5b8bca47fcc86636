//! Judges what is left of a directory without content: entries, a tombstone, partitions.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Header};
use pando_types::{DirId, ShardIndex};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::findings::words::dir_words;
use crate::judge::entries::Leads;
use crate::judge::judgement::Judge;
use crate::learned::tree::Part;
use crate::lookup::probe::Seen;
use crate::rows::cursor;
use crate::unfinished::place::Place;

impl Judge<'_, '_> {
    /// Judges a directory whose content is missing or a tombstone. `entries` lead to the directory.
    pub(crate) fn without_content(
        &mut self,
        id: DirId,
        gone: Option<Seen<Content>>,
        entries: Vec<Leads>,
    ) -> Result<(), String> {
        let (home, key) = self.probe.content_key(id);
        let row = Evidence::row(home, &key, gone.as_ref().map(|seen| seen.bytes.as_slice()));
        if id == DirId::ROOT {
            let detail = "its content is missing".to_owned();
            let finding = Finding::new(Code::RootMissing, home, dir_words(id), detail);
            self.found.push(finding.known_by(row));
            return Ok(());
        }
        for entry in &entries {
            let detail = format!("there is no content of {} on shard {home}", dir_words(id));
            let finding = entry.finding(Code::EntryWithoutContent, detail);
            self.found.push(finding.known_by(row.clone()));
        }
        if !entries.is_empty() {
            return Ok(());
        }
        let parts = self.sweep.tree.parts_of(id);
        if let Some(gone) = gone {
            self.tombstone_left(id, home, gone, parts);
        }
        for part in parts {
            self.partition_without_content(id, home, &row, part)?;
        }
        Ok(())
    }

    /// Reports the tombstone of a removed directory. It can go once no partition is left.
    fn tombstone_left(&mut self, id: DirId, home: ShardIndex, gone: Seen<Content>, parts: &[Part]) {
        let what = format!("what is left of {}", dir_words(id));
        let detail = format!("it was inode {}, and has been removed", gone.record.base.ino);
        let mut finding = Finding::new(Code::TombstoneLeft, home, what, detail)
            .known_by(gone.evidence())
            .under(Place::Home(id));
        for part in parts {
            finding = finding.under(Place::Partition(id, part.partition));
        }
        if parts.is_empty() {
            finding = finding.mended_by(home, vec![Write::Delete(gone.key)]);
        }
        self.found.push(finding);
    }

    /// Reports a partition of a directory that has neither content nor entry. `content` is the
    /// evidence for the former.
    fn partition_without_content(
        &mut self,
        id: DirId,
        home: ShardIndex,
        content: &Evidence,
        part: &Part,
    ) -> Result<(), String> {
        let key = keys::dir(id, Kind::Header, part.start);
        let Some(header) = self.probe.record::<Header>(part.shard, key.clone())? else {
            return Ok(());
        };
        let what = format!("partition {} of {}", part.partition, dir_words(id));
        let detail = format!("there is no content on shard {home}, and no entry");
        let orders = header.record.range();
        let mut finding = Finding::new(Code::PartitionWithoutContent, part.shard, what, detail)
            .known_by(header.evidence())
            .known_by(content.clone())
            .under(Place::Home(id))
            .under(Place::Partition(id, part.partition));
        let mut is_empty = header.record.entries == 0;
        for kind in keys::MOVING {
            let (from, to) = keys::dir_range(id, kind, &orders);
            is_empty &= cursor::range(self.probe.rows, part.shard, &from, &to)?.is_empty();
        }
        if is_empty {
            finding = finding.mended_by(part.shard, vec![Write::Delete(key)]);
        }
        self.found.push(finding);
        Ok(())
    }
}
