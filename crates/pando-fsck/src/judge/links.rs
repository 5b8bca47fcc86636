//! Judges inodes at their link shards and the names that lead to them, numbers that two inodes
//! have, and orphans.

use std::collections::BTreeSet;

use pando_core::record::{Entry, LinkedName, Record};
use pando_core::{Write, keys};
use pando_types::peer::{EntryValue, Inode};
use pando_types::reply::Slice;
use pando_types::{DirRef, Ino, Name, Order};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::{dir_words, ino_words};
use crate::judge::judgement::Judge;
use crate::lookup::locate::Spot;
use crate::lookup::probe::{Records, Seen};
use crate::rows::key::{Cold, Key};
use crate::unfinished::place::Place;

/// A name that leads to the inode that is judged.
struct Named {
    seen: Seen<Entry>,
    dir: pando_types::DirId,
    name: Name,
    kind: pando_types::FileKind,
}

impl Named {
    fn finding(&self, code: Code, ino: Ino, detail: String) -> Finding {
        let what = format!("\"{}\" in {}", self.name, dir_words(self.dir));
        let order = keys::order_of(&self.seen.key).unwrap_or_default();
        Finding::new(code, self.seen.shard, what, detail)
            .at(At::Name(self.dir, self.name.as_bytes().to_vec()))
            .known_by(self.seen.evidence())
            .under(Place::Name(self.dir, order.base().0))
            .under(Place::Link(ino))
    }
}

impl Judge<'_, '_> {
    /// Judges a link inode that does not agree with its names, or has none.
    pub(crate) fn link(&mut self, ino: Ino) -> Result<(), String> {
        if self.sweep.tables.unreadable_links.contains(&ino) {
            return Ok(());
        }
        let inode = self.probe.link(ino)?;
        let names_known = self.probe.link_names(ino)?;
        let known = &names_known.records;
        let named = self.named(ino, known)?;
        let Some(inode) = inode else {
            let shard = self.probe.volume.map.link(ino);
            let key = keys::link(ino, keys::Kind::Entry);
            for named in named {
                let detail = format!("there is no {} on shard {shard}", ino_words(ino));
                let finding = named.finding(Code::LinkWithoutInode, ino, detail);
                self.found.push(finding.known_by(Evidence::row(shard, &key, None)));
            }
            return Ok(());
        };
        for named in named.iter().filter(|named| named.kind != inode.record.attr.kind) {
            self.wrong_kind(ino, &inode, named);
        }
        let knows = |named: &Named| {
            known.iter().any(|k| (k.record.dir.id, &k.record.name) == (named.dir, &named.name))
        };
        let strangers: Vec<_> = named.iter().filter(|named| !knows(named)).collect();
        for named in &strangers {
            self.unknown_name(ino, &inode, named)?;
        }
        let is_there = |k: &Seen<LinkedName>| {
            named.iter().any(|n| (n.dir, &n.name) == (k.record.dir.id, &k.record.name))
        };
        let stale: Vec<_> = known.iter().filter(|k| !is_there(k)).collect();
        let mut is_judged = true;
        for record in &stale {
            is_judged &= self.stale_name(ino, &inode, record, &named)?;
        }
        let names = named.len() as u32;
        if strangers.is_empty() && stale.is_empty() && inode.record.attr.nlink != names {
            if !is_planted!(NamesUncounted) {
                self.link_count(ino, &inode, &names_known, &named);
            }
        } else if names == 0 && is_judged && known.is_empty() && !is_planted!(OrphanUnreported) {
            self.orphan(ino, &inode)?;
        }
        Ok(())
    }

    /// Names that lead to an inode: those that the second pass found, and those that the inode
    /// records.
    fn named(&mut self, ino: Ino, known: &[Seen<LinkedName>]) -> Result<Vec<Named>, String> {
        let mut places = BTreeSet::new();
        for spot in self.located.inos.get(&ino).into_iter().flatten() {
            if let Spot::Entry { shard, dir, order } = spot {
                places.insert((*shard, *dir, *order));
            }
        }
        for record in known {
            let order = self.probe.volume.order(&record.record.name);
            if let Some(owner) = self.probe.owner(record.record.dir.id, order)? {
                let there = self.probe.names(owner.shard, record.record.dir.id, order)?;
                for seen in there.records {
                    if let Some(Order(order)) = keys::order_of(&seen.key) {
                        places.insert((owner.shard, record.record.dir.id, order));
                    }
                }
            }
        }
        let mut named = Vec::new();
        for (shard, dir, order) in places {
            let key = keys::dir(dir, keys::Kind::Entry, order);
            let Some(seen) = self.probe.record::<Entry>(shard, key)? else { continue };
            if let Some((name, EntryValue::Linked(there, kind))) = &seen.record.is
                && *there == ino
            {
                let (name, kind) = (name.clone(), *kind);
                named.push(Named { seen, dir, name, kind });
            }
        }
        Ok(named)
    }

    fn wrong_kind(&mut self, ino: Ino, inode: &Seen<Inode>, named: &Named) {
        let kind = inode.record.attr.kind;
        let detail = format!("the name says {:?}, the inode is {kind:?}", named.kind);
        let is = Some((named.name.clone(), EntryValue::Linked(ino, kind)));
        let put = Entry { is, ..named.seen.record }.encode();
        let put = Write::Put(named.seen.key.clone(), put);
        self.found.push(
            named
                .finding(Code::WrongLinkKind, ino, detail)
                .known_by(inode.evidence())
                .mended_by(named.seen.shard, vec![put]),
        );
    }

    /// Reports a name that leads to an inode which does not record it. Names are taken as the
    /// truth: the repair records the name.
    fn unknown_name(&mut self, ino: Ino, inode: &Seen<Inode>, named: &Named) -> Result<(), String> {
        let key = keys::link_name(ino, named.dir, named.name.as_bytes());
        if crate::rows::cursor::get(self.probe.rows, inode.shard, &key)?.is_some() {
            // The record exists but cannot be read, and that is a finding of its own.
            return Ok(());
        }
        let detail = format!("{} does not know this name", ino_words(ino));
        let gone = Evidence::row(inode.shard, &key, None);
        let mut finding = named
            .finding(Code::LinkNameMissing, ino, detail)
            .known_by(inode.evidence())
            .known_by(gone);
        if let Some(content) = self.probe.content(named.dir)? {
            let dir = DirRef { id: named.dir, ino: content.record.base.ino };
            let record = LinkedName { dir, name: named.name.clone() }.encode();
            finding = finding.mended_by(inode.shard, vec![Write::Put(key, record)]);
        }
        self.found.push(finding);
        Ok(())
    }

    /// Reports a name that an inode records but that does not lead to it. The repair drops the
    /// record if other names lead there. Returns false if the name cannot be judged.
    fn stale_name(
        &mut self,
        ino: Ino,
        inode: &Seen<Inode>,
        record: &Seen<LinkedName>,
        named: &[Named],
    ) -> Result<bool, String> {
        let LinkedName { dir, name } = &record.record;
        let order = self.probe.volume.order(name);
        let owner = self.probe.owner(dir.id, order)?;
        let parent = self.probe.content(dir.id)?;
        if self.is_unreadable(dir.id) || owner.is_none() && parent.is_some() {
            // The partition that should hold the name is missing, and that is a finding of its own.
            return Ok(false);
        }
        let what = format!("\"{name}\" in {}", dir_words(dir.id));
        let detail = format!("{} knows this name; it does not lead there", ino_words(ino));
        let mut finding = Finding::new(Code::LinkNameWithoutEntry, record.shard, what, detail)
            .at(At::Name(dir.id, name.as_bytes().to_vec()))
            .known_by(record.evidence())
            .known_by(inode.evidence())
            .under(Place::Name(dir.id, order))
            .under(Place::Link(ino));
        finding.name = Some((dir.id, order));
        if let Some(owner) = owner {
            let rows = self.probe.names(owner.shard, dir.id, order)?;
            let leads = |seen: &Seen<Entry>| matches!(&seen.record.is, Some((n, EntryValue::Linked(to, _))) if n == name && *to == ino);
            if !rows.is_readable || rows.records.iter().any(leads) {
                return Ok(false);
            }
            finding = finding.known_by(owner.evidence()).known_by(rows.evidence);
        }
        if !named.is_empty() {
            finding = finding.mended_by(record.shard, vec![Write::Delete(record.key.clone())]);
        }
        self.found.push(finding);
        Ok(true)
    }

    fn link_count(
        &mut self,
        ino: Ino,
        inode: &Seen<Inode>,
        known: &Records<LinkedName>,
        named: &[Named],
    ) {
        let names = named.len() as u32;
        let nlink = inode.record.attr.nlink;
        let what = format!("{} at its link shard", ino_words(ino));
        let detail = format!("its link count is {nlink}; it has {names} names");
        let mut finding = Finding::new(Code::WrongLinkCount, inode.shard, what, detail)
            .known_by(inode.evidence())
            .known_by(known.evidence.clone())
            .under(Place::Link(ino));
        for named in named {
            let order = keys::order_of(&named.seen.key).unwrap_or_default().base().0;
            finding = finding
                .at(At::Name(named.dir, named.name.as_bytes().to_vec()))
                .known_by(named.seen.evidence())
                .under(Place::Name(named.dir, order));
        }
        // If no name is left, the right count is unknown.
        if names > 0 {
            let mut right = inode.record.clone();
            right.attr.nlink = names;
            let put = Write::Put(inode.key.clone(), right.encode());
            finding = finding.mended_by(inode.shard, vec![put]);
        }
        self.found.push(finding);
    }

    /// Judges a file without names. It lives as long as a living session has it open.
    fn orphan(&mut self, ino: Ino, inode: &Seen<Inode>) -> Result<(), String> {
        let opens = self.probe.opens(inode.shard, ino)?;
        for open in &opens.records {
            if let Some(Key::Open(_, session)) = Key::parse(&open.key)
                && self.probe.knows_session(inode.shard, session)?
            {
                return Ok(());
            }
        }
        let what = format!("{} at its link shard", ino_words(ino));
        let detail = format!("{} bytes without a name, open nowhere", inode.record.attr.size);
        let rows = self.probe.link_rows(ino)?;
        let mut writes: Vec<_> = rows.iter().map(|(key, _)| Write::Delete(key.clone())).collect();
        let mut objects = BTreeSet::new();
        for (key, value) in &rows {
            if let (Some(Key::LinkCold(_, Cold::Slice(_))), Ok(slice)) =
                (Key::parse(key), Slice::decode(value))
            {
                objects.insert(slice.range.object);
            }
        }
        writes.extend(objects.iter().map(|id| Write::Put(keys::garbage(*id), vec![1])));
        self.found.push(
            Finding::new(Code::Orphan, inode.shard, what, detail)
                .known_by(inode.evidence())
                .known_by(opens.evidence)
                .under(Place::Link(ino))
                .mended_by(inode.shard, writes),
        );
        Ok(())
    }

    /// Reports a number that several inodes have.
    pub(crate) fn ino_twice(&mut self, ino: Ino) -> Result<(), String> {
        let mut owners: Vec<NumberOwner> = Vec::new();
        let spots: Vec<Spot> = self.located.inos.get(&ino).cloned().unwrap_or_default();
        for spot in spots {
            match spot {
                Spot::Entry { shard, dir, order } => {
                    let key = keys::dir(dir, keys::Kind::Entry, order);
                    let Some(seen) = self.probe.record::<Entry>(shard, key)? else { continue };
                    if let Some((name, EntryValue::File(inode))) = &seen.record.is
                        && inode.attr.ino == ino
                    {
                        let what = format!("\"{name}\" in {}", dir_words(dir));
                        let place = Place::Name(dir, Order(order).base().0);
                        let at = At::Name(dir, name.as_bytes().to_vec());
                        owners.push(NumberOwner::new(seen.evidence(), place, what, Some(at)));
                    }
                }
                Spot::Directory(dir) => {
                    let Some(content) = self.probe.content(dir)? else { continue };
                    if content.record.base.ino == ino && !content.record.tombstone {
                        let what = dir_words(dir);
                        let place = Place::Home(dir);
                        let at = Some(At::Dir(dir));
                        owners.push(NumberOwner::new(content.evidence(), place, what, at));
                    }
                }
            }
        }
        if let Some(inode) = self.probe.link(ino)? {
            let what = format!("{} at its link shard", ino_words(ino));
            owners.push(NumberOwner::new(inode.evidence(), Place::Link(ino), what, None));
        }
        if owners.len() < 2 {
            return Ok(());
        }
        let all: Vec<_> = owners.iter().map(|owner| owner.what.clone()).collect();
        let shard = ino.allocator();
        let detail = format!("it is the number of {}", all.join(" and of "));
        let mut finding = Finding::new(Code::InoTwice, shard, ino_words(ino), detail);
        for owner in owners {
            finding = finding.known_by(owner.evidence).under(owner.place);
            finding.at = finding.at.or(owner.at);
        }
        self.found.push(finding);
        Ok(())
    }
}

/// An inode that has a number, and how it is found.
struct NumberOwner {
    evidence: Evidence,
    place: Place,
    /// In words.
    what: String,
    at: Option<At>,
}

impl NumberOwner {
    fn new(evidence: Evidence, place: Place, what: String, at: Option<At>) -> Self {
        Self { evidence, place, what, at }
    }
}
