//! Judges directories. The content, entry and partitions of each must agree. The content record of
//! an id is taken as the truth.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Content, Entry, Record};
use pando_types::peer::EntryValue;
use pando_types::reply::Access;
use pando_types::{DirId, DirRef, FileKind, Order};

use crate::findings::code::Code;
use crate::findings::finding::Finding;
use crate::findings::words::dir_words;
use crate::judge::entries::Leads;
use crate::judge::judgement::{Judge, of};
use crate::learned::tree::has_sound_attributes;
use crate::lookup::probe::Seen;
use crate::unfinished::place::Place;

impl Judge<'_, '_> {
    /// Judges everything about one directory.
    pub(crate) fn directory(&mut self, id: DirId) -> Result<(), String> {
        if self.is_unreadable(id) {
            return Ok(());
        }
        let entries = self.entries_of(id)?;
        let content = match self.probe.content(id)? {
            Some(content) if !content.record.tombstone => content,
            gone => return self.without_content(id, gone, entries),
        };
        if !has_sound_attributes(&content.record) {
            self.attributes(id, &content);
        }
        self.partitions(id, &content)?;
        if id == DirId::ROOT {
            return self.root(&content, entries);
        }
        let (same, other): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.access.dir.ino == content.record.base.ino);
        for entry in other {
            let detail = format!(
                "it leads to inode {}, the directory of that id is inode {}",
                entry.access.dir.ino, content.record.base.ino
            );
            let finding = entry.finding(Code::EntryOfOtherLife, detail);
            self.found.push(finding.known_by(content.evidence()));
        }
        match &same[..] {
            [] => self.without_entry(id, &content),
            [entry] => self.entry(id, &content, entry),
            [..] => {
                self.named_twice(id, &content, &same);
                Ok(())
            }
        }
    }

    fn root(&mut self, content: &Seen<Content>, entries: Vec<Leads>) -> Result<(), String> {
        for entry in entries {
            let detail = "the root is in no directory".to_owned();
            self.found.push(entry.finding(Code::DirectoryNamedTwice, detail));
        }
        if content.record.parent != DirRef::ROOT || content.record.name.is_some() {
            let right =
                Content { parent: DirRef::ROOT, name: None, ..content.record.clone() }.encode();
            let detail = format!("it names {} as its parent", dir_words(content.record.parent.id));
            let put = Write::Put(content.key.clone(), right);
            self.found.push(
                of(content, DirId::ROOT, Code::WrongParentPointer, detail)
                    .mended_by(content.shard, vec![put]),
            );
        }
        Ok(())
    }

    fn attributes(&mut self, id: DirId, content: &Seen<Content>) {
        let base = &content.record.base;
        let detail = format!(
            "kind {:?}, link count {}, size {}; it must be a directory with 2 and 0",
            base.kind, base.nlink, base.size
        );
        let mut right = content.record.clone();
        (right.base.kind, right.base.nlink, right.base.size) = (FileKind::Directory, 2, 0);
        let put = Write::Put(content.key.clone(), right.encode());
        self.found.push(
            of(content, id, Code::WrongDirectoryAttributes, detail)
                .mended_by(content.shard, vec![put]),
        );
    }

    /// Reports a directory that no entry leads to. The repair puts it back at the place that its
    /// content names, if that is free.
    fn without_entry(&mut self, id: DirId, content: &Seen<Content>) -> Result<(), String> {
        let parent = content.record.parent;
        let detail = match &content.record.name {
            Some(name) => format!("it says that it is \"{name}\" in {}", dir_words(parent.id)),
            None => "it has no name".to_owned(),
        };
        let mut finding = of(content, id, Code::DirectoryWithoutEntry, detail);
        let Some(name) = &content.record.name else {
            self.found.push(finding);
            return Ok(());
        };
        let order = self.probe.volume.order(name);
        finding.under.push(Place::Name(parent.id, order));
        finding.name = Some((parent.id, order));
        if self.is_unreadable(parent.id) {
            return Ok(());
        }
        let parent_content = self.probe.content(parent.id)?;
        let owner = self.probe.owner(parent.id, order)?;
        if owner.is_none() && parent_content.is_some() {
            // The partition that should hold its entry is missing, and that is a finding of its
            // own.
            return Ok(());
        }
        if let Some(owner) = owner {
            let names = self.probe.names(owner.shard, parent.id, order)?;
            let leads_here = |seen: &Seen<Entry>| matches!(&seen.record.is, Some((_, EntryValue::Dir(access))) if access.dir.id == id);
            // An unreadable record may be that entry. Or the entry has come since.
            if !names.is_readable || names.records.iter().any(leads_here) {
                return Ok(());
            }
            finding = finding.known_by(owner.evidence()).known_by(names.evidence);
            let same_parent =
                |seen: &Seen<Content>| seen.record.base.ino == parent.ino && !seen.record.tombstone;
            let base = &content.record.base;
            if names.records.is_empty()
                && owner.record.ino == parent.ino
                && parent_content.as_ref().is_some_and(same_parent)
            {
                let dir = DirRef { id, ino: base.ino };
                let access = Access { dir, mode: base.mode, uid: base.uid, gid: base.gid };
                let is = Some((name.clone(), EntryValue::Dir(access)));
                let entry = Entry { crowded: false, is }.encode();
                let put = Write::Put(keys::dir(parent.id, Kind::Entry, order), entry);
                finding = finding.mended_by(owner.shard, vec![put]);
            }
        }
        self.found.push(finding);
        Ok(())
    }

    /// Reports directories that are each within the other.
    pub(crate) fn directory_loop(&mut self, members: &[DirId]) -> Result<(), String> {
        let mut finding: Option<Finding> = None;
        for (id, next) in members.iter().zip(members.iter().cycle().skip(1)) {
            let Some(content) = self.probe.content(*id)? else { return Ok(()) };
            let entries = self.entries_of(*id)?;
            let is_in_next = entries.iter().any(|entry| entry.parent == *next);
            if !is_in_next && content.record.parent.id != *next {
                return Ok(());
            }
            let next = match finding.take() {
                None => {
                    let shown: Vec<_> = members.iter().map(|id| id.to_string()).collect();
                    let detail = format!("each is in the next: {}", shown.join(", "));
                    of(&content, *id, Code::DirectoryLoop, detail)
                }
                Some(finding) => finding.known_by(content.evidence()).under(Place::Home(*id)),
            };
            let next = entries.iter().fold(next, |finding, entry| {
                let order = Order(entry.order).base().0;
                finding.known_by(entry.seen.evidence()).under(Place::Name(entry.parent, order))
            });
            finding = Some(next);
        }
        // A directory in a loop has no path.
        if let Some(finding) = finding {
            self.found.push(Finding { at: None, ..finding });
        }
        Ok(())
    }
}
