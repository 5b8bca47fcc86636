//! Judges partitions. Those of a directory must hold every order exactly once, be where their index
//! puts them, and agree with the directory's content.

use pando_core::record::{Content, Header, Record};
use pando_core::{Write, keys};
use pando_types::{DirId, Order};

use crate::findings::code::Code;
use crate::findings::finding::{At, Finding};
use crate::findings::words::dir_words;
use crate::judge::judgement::{Judge, of};
use crate::learned::tree::{Part, inherit, is_placed, tiles};
use crate::lookup::probe::Seen;
use crate::sweep::pass::Outside;
use crate::unfinished::place::Place;

impl Judge<'_, '_> {
    /// Judges all partitions of an existing directory.
    pub(crate) fn partitions(&mut self, id: DirId, content: &Seen<Content>) -> Result<(), String> {
        let mut parts = Vec::new();
        let mut headers = Vec::new();
        let mut evidence = Vec::new();
        for shard in self.probe.volume.shards() {
            let seen = self.probe.headers(shard, id)?;
            evidence.push(seen.evidence);
            for header in seen.records {
                let start = keys::order_of(&header.key).unwrap_or_default().0;
                parts.push(Part::new(shard, start, &header.record));
                headers.push(header);
            }
        }
        for (shard, dir, header) in &self.sweep.busy.arrived {
            let orders = header.range();
            let known = |part: &Part| {
                let has = pando_placement::range(part.partition, part.radix);
                part.shard == *shard && has.start < orders.end && orders.start < has.end
            };
            if *dir == id && !parts.iter().any(known) {
                parts.push(Part::new(*shard, header.range().start, header));
            }
        }
        for header in &headers {
            self.partition(id, content, header);
            let start = keys::order_of(&header.key).unwrap_or_default().0;
            let part = Part::new(header.shard, start, &header.record);
            if header.record.ino == content.record.base.ino
                && !is_placed(self.probe.volume, id, &part, &parts)
            {
                let detail = format!("it is on shard {} at {start:#x}", part.shard);
                let code = Code::MisplacedPartition;
                let mut finding = self.of_header(id, content, header, code, detail);
                finding.evidence.extend(evidence.iter().cloned());
                self.found.push(finding);
            }
        }
        if tiles(&parts) {
            return Ok(());
        }
        let mut ranges: Vec<_> =
            parts.iter().map(|part| (part.partition.0, part.radix.0, part.shard.0)).collect();
        ranges.sort_unstable();
        let shown: Vec<_> =
            ranges.iter().map(|(i, r, s)| format!("{i} of depth {r} on shard {s}")).collect();
        let detail = if shown.is_empty() {
            "it has no partition at all".to_owned()
        } else {
            format!("it has partition {}", shown.join(", "))
        };
        let mut finding = of(content, id, Code::PartitionsDoNotTile, detail);
        finding.evidence.extend(evidence);
        for shard in self.probe.volume.shards() {
            finding = finding.under(Place::Orders(shard, id, 0..Order::END));
        }
        self.found.push(finding);
        Ok(())
    }

    fn of_header(
        &self,
        id: DirId,
        content: &Seen<Content>,
        header: &Seen<Header>,
        code: Code,
        detail: String,
    ) -> Finding {
        let what = format!("partition {} of {}", header.record.partition, dir_words(id));
        Finding::new(code, header.shard, what, detail)
            .at(At::Dir(id))
            .known_by(content.evidence())
            .known_by(header.evidence())
            .under(Place::Home(id))
            .under(Place::Partition(id, header.record.partition))
    }

    fn partition(&mut self, id: DirId, content: &Seen<Content>, header: &Seen<Header>) {
        let base = &content.record.base;
        let inherit = inherit(&content.record);
        if header.record.ino != base.ino {
            let detail = format!(
                "it is of inode {}, the directory is inode {}",
                header.record.ino, base.ino
            );
            let code = Code::PartitionOfOtherLife;
            self.found.push(self.of_header(id, content, header, code, detail));
        } else if header.record.inherit != inherit {
            let copy = header.record.inherit;
            let detail = format!(
                "the partition says mode {:o}, owner {}:{}, project {}; the directory has {:o}, {}:{}, {}",
                copy.mode,
                copy.uid,
                copy.gid,
                copy.project,
                inherit.mode,
                inherit.uid,
                inherit.gid,
                inherit.project
            );
            let right = Header { inherit, ..header.record.clone() }.encode();
            let put = Write::Put(header.key.clone(), right);
            let code = Code::WrongPermissionCopy;
            let finding = self.of_header(id, content, header, code, detail);
            self.found.push(finding.mended_by(header.shard, vec![put]));
        }
    }

    /// Judges rows of names in a gap between a shard's partitions. If another shard answers for
    /// those names, no request ever reads them here.
    pub(crate) fn outside(&mut self, outside: &Outside) -> Result<(), String> {
        let Outside { shard, dir, gap, rows, first } = outside;
        if self.is_unreadable(*dir) {
            return Ok(());
        }
        let what = format!("rows of {}", dir_words(*dir));
        let detail = format!(
            "{rows} rows at orders {:#x} to {:#x}, which shard {shard} does not own",
            gap.start, gap.end
        );
        let headers = self.probe.headers(*shard, *dir)?;
        let overlaps = |header: &Seen<Header>| {
            let owned = header.record.range();
            owned.start < gap.end && gap.start < owned.end
        };
        if headers.records.iter().any(overlaps) {
            return Ok(());
        }
        let mut finding = Finding::new(Code::RowOutsidePartition, *shard, what, detail)
            .at(At::Dir(*dir))
            .known_by(first.clone())
            .known_by(headers.evidence)
            .under(Place::Orders(*shard, *dir, gap.clone()));
        let tree = &self.sweep.tree;
        let is_gone = tree.parts_of(*dir).is_empty()
            && tree.entries_of(*dir).is_empty()
            && self.probe.content(*dir)?.is_none();
        if tree.tiles(*dir) || is_gone {
            let clear = keys::MOVING.map(|kind| {
                let (from, to) = keys::dir_range(*dir, kind, gap);
                Write::DeleteRange(from, to)
            });
            finding = finding.mended_by(*shard, clear.to_vec());
        } else {
            // The partition that should hold these rows is missing, and that is a finding of its
            // own.
            return Ok(());
        }
        self.found.push(finding);
        Ok(())
    }
}
