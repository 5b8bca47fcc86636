//! Judges the entries that lead to a directory: there must be one, and it must agree with the
//! directory's content.

use std::collections::BTreeMap;

use pando_core::Write;
use pando_core::keys;
use pando_core::record::{Content, Entry, Record as _};
use pando_types::peer::EntryValue;
use pando_types::reply::Access;
use pando_types::{DirId, DirRef, Name, Order};

use crate::findings::code::Code;
use crate::findings::finding::{At, Finding};
use crate::findings::words::dir_words;
use crate::judge::judgement::{Judge, of};
use crate::lookup::probe::Seen;
use crate::unfinished::place::Place;

/// An entry that leads to the directory that is judged.
pub(crate) struct Leads {
    pub(crate) seen: Seen<Entry>,
    pub(crate) parent: DirId,
    pub(crate) order: u64,
    name: Name,
    pub(crate) access: Access,
}

impl Leads {
    pub(crate) fn finding(&self, code: Code, detail: String) -> Finding {
        let what = format!("\"{}\" in {}", self.name, dir_words(self.parent));
        Finding::new(code, self.seen.shard, what, detail)
            .at(At::Name(self.parent, self.name.as_bytes().to_vec()))
            .known_by(self.seen.evidence())
            .under(Place::Name(self.parent, Order(self.order).base().0))
            .under(Place::Home(self.access.dir.id))
    }
}

impl Judge<'_, '_> {
    /// Entries that lead to a directory: those that the sweep saw, and the one at the place that
    /// its content names.
    pub(crate) fn entries_of(&mut self, id: DirId) -> Result<Vec<Leads>, String> {
        let mut found: BTreeMap<Vec<u8>, Leads> = BTreeMap::new();
        let mut orders = Vec::new();
        for side in self.sweep.tree.entries_of(id) {
            orders.push((side.shard, side.parent, side.order));
        }
        if let Some(content) = self.probe.content(id)?
            && let (parent, Some(name)) = (content.record.parent.id, &content.record.name)
        {
            let order = self.probe.volume.order(name);
            if let Some(owner) = self.probe.owner(parent, order)? {
                orders.push((owner.shard, parent, order));
            }
        }
        for (shard, parent, order) in orders {
            for seen in self.probe.names(shard, parent, order)?.records {
                if let Some((name, EntryValue::Dir(access))) = &seen.record.is
                    && access.dir.id == id
                    && let Some(order) = keys::order_of(&seen.key)
                {
                    let (name, access) = (name.clone(), *access);
                    let at = [&shard.0.to_be_bytes()[..], &seen.key].concat();
                    found.insert(at, Leads { seen, parent, order: order.0, name, access });
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Judges the only entry that leads to a directory.
    pub(crate) fn entry(
        &mut self,
        id: DirId,
        content: &Seen<Content>,
        entry: &Leads,
    ) -> Result<(), String> {
        self.permission_copy(content, entry);
        if self.is_unreadable(entry.parent) {
            return Ok(());
        }
        // A missing parent is a finding of its own.
        let Some(parent) = self.probe.content(entry.parent)? else { return Ok(()) };
        let truth = DirRef { id: entry.parent, ino: parent.record.base.ino };
        let says = (content.record.parent, content.record.name.as_ref());
        if says == (truth, Some(&entry.name)) || parent.record.tombstone {
            return Ok(());
        }
        let shown = says.1.map_or_else(|| "?".to_owned(), ToString::to_string);
        let detail = format!(
            "it says that it is \"{shown}\" in {} (inode {}); it is \"{}\" in {} (inode {})",
            dir_words(says.0.id),
            says.0.ino,
            entry.name,
            dir_words(truth.id),
            truth.ino
        );
        let name = Some(entry.name.clone());
        let right = Content { parent: truth, name, ..content.record.clone() }.encode();
        let put = Write::Put(content.key.clone(), right);
        let mut finding = of(content, id, Code::WrongParentPointer, detail)
            .at(At::Name(entry.parent, entry.name.as_bytes().to_vec()))
            .known_by(entry.seen.evidence())
            .known_by(parent.evidence())
            .under(Place::Name(entry.parent, Order(entry.order).base().0))
            .mended_by(content.shard, vec![put]);
        if let Some(name) = says.1 {
            let order = self.probe.volume.order(name);
            finding.under.push(Place::Name(says.0.id, order));
        }
        self.found.push(finding);
        Ok(())
    }

    /// Judges the copy of a directory's permissions in the entry that leads to it.
    fn permission_copy(&mut self, content: &Seen<Content>, entry: &Leads) {
        let base = &content.record.base;
        if (entry.access.mode, entry.access.uid, entry.access.gid)
            != (base.mode, base.uid, base.gid)
        {
            let detail = format!(
                "the entry says mode {:o}, owner {}:{}; the directory has {:o}, {}:{}",
                entry.access.mode,
                entry.access.uid,
                entry.access.gid,
                base.mode,
                base.uid,
                base.gid
            );
            let access = Access { mode: base.mode, uid: base.uid, gid: base.gid, ..entry.access };
            let is = Some((entry.name.clone(), EntryValue::Dir(access)));
            let right = Entry { is, ..entry.seen.record }.encode();
            let put = Write::Put(entry.seen.key.clone(), right);
            self.found.push(
                entry
                    .finding(Code::WrongPermissionCopy, detail)
                    .known_by(content.evidence())
                    .mended_by(entry.seen.shard, vec![put]),
            );
        }
    }

    /// Reports several entries that lead to one directory. The entry that its content confirms
    /// stays.
    pub(crate) fn named_twice(&mut self, id: DirId, content: &Seen<Content>, entries: &[Leads]) {
        let confirmed = |entry: &&Leads| {
            (entry.parent, Some(&entry.name))
                == (content.record.parent.id, content.record.name.as_ref())
        };
        let right: Vec<_> = entries.iter().filter(confirmed).collect();
        for entry in entries {
            if let [right] = right[..]
                && std::ptr::eq(right, entry)
            {
                continue;
            }
            let at_home = right.first().map_or_else(
                || "nowhere of these".to_owned(),
                |right| format!("\"{}\" in {}", right.name, dir_words(right.parent)),
            );
            let detail = format!("{} says that it is {at_home}", dir_words(id));
            let mut finding =
                entry.finding(Code::DirectoryNamedTwice, detail).known_by(content.evidence());
            finding.name = Some((entry.parent, entry.order));
            for other in entries.iter().filter(|other| !std::ptr::eq(*other, entry)) {
                finding = finding
                    .known_by(other.seen.evidence())
                    .under(Place::Name(other.parent, Order(other.order).base().0));
            }
            // The first record of a crowded order must stay, vacant.
            if right.len() == 1 {
                let key = entry.seen.key.clone();
                let write = if entry.seen.record.crowded {
                    Write::Put(key, Entry { crowded: true, is: None }.encode())
                } else {
                    Write::Delete(key)
                };
                finding = finding.mended_by(entry.seen.shard, vec![write]);
            }
            self.found.push(finding);
        }
    }
}
