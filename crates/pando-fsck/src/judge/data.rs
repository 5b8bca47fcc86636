//! Judges slices and objects. Objects are listed after all rows are read.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Entry, Record};
use pando_types::op::ObjectId;
use pando_types::peer::EntryValue;
use pando_types::{Order, SessionId};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{At, Finding};
use crate::findings::words::{dir_words, ino_words, object_words};
use crate::judge::judgement::{Judge, SUSPECTS_MAX};
use crate::lookup::locate::Naming;
use crate::rows::cursor;
use crate::rows::key::Key;
use crate::rows::mode::Mode;
use crate::rows::source::{Objects, Progress, Watch};
use crate::sweep::pass::Sweep;
use crate::unfinished::place::Place;

const PAGE: usize = 4096;

/// How the object store differs from the rows.
#[derive(Default)]
pub struct Stores {
    pub missing: Vec<ObjectId>,
    pub short: Vec<ObjectId>,
    /// Unnamed objects with their sizes in bytes.
    pub unnamed: Vec<(ObjectId, u64)>,
    pub count: u64,
    not_kept: u64,
}

/// Lists the objects, and compares them with the rows.
pub fn stored(
    objects: &mut dyn Objects,
    sweep: &Sweep<'_>,
    mode: Mode,
    watch: &mut dyn Watch,
) -> Result<Stores, String> {
    let mut stored = Stores::default();
    let mut after = None;
    loop {
        let page = objects.list(after, PAGE)?;
        let last = page.last().map(|object| object.id);
        let mut there = page.iter().map(|object| object.id).peekable();
        for needed in sweep.needed.between(after, last) {
            while there.next_if(|id| *id < needed).is_some() {}
            if there.peek() != Some(&needed) {
                stored.keep(|s| &mut s.missing, needed);
            }
        }
        for object in &page {
            stored.count += 1;
            match sweep.needed.len(object.id) {
                Some(len) if object.bytes < objects.size_for(len) => {
                    stored.keep(|s| &mut s.short, object.id);
                }
                Some(_) => {}
                // In a running volume, a file may have moved past the sweep.
                None if mode == Mode::Running || sweep.needed.is_garbage(object.id) => {}
                // The session that stored the object may be about to name it.
                None if sweep.tables.sessions.contains_key(&session_of(object.id)) => {}
                None => stored.keep(|s| &mut s.unnamed, (object.id, object.bytes)),
            }
        }
        watch.progress(Progress::Objects(stored.count));
        if last.is_none() {
            return Ok(stored);
        }
        after = last;
    }
}

/// The session that stored an object.
fn session_of(object: ObjectId) -> SessionId {
    SessionId((object.0 >> 64) as u64)
}

impl Stores {
    fn keep<T>(&mut self, list: impl Fn(&mut Self) -> &mut Vec<T>, found: T) {
        if list(self).len() < SUSPECTS_MAX {
            list(self).push(found);
        } else {
            self.not_kept += 1;
        }
    }
}

impl Judge<'_, '_> {
    pub(crate) fn objects(
        &mut self,
        objects: &mut Option<&mut dyn Objects>,
        stored: &Stores,
    ) -> Result<(), String> {
        self.not_looked_at += stored.not_kept;
        for id in self.sweep.needed.suspects() {
            let namings = self.located.objects.get(&id).cloned().unwrap_or_default();
            if let [first, second, ..] = &namings[..] {
                self.needed_twice(id, first, second)?;
            }
            if self.sweep.needed.is_garbage(id)
                && let Some(naming) = namings.first()
            {
                self.doomed(id, naming)?;
            }
        }
        let Some(objects) = objects else { return Ok(()) };
        for (ids, code) in
            [(&stored.missing, Code::ObjectMissing), (&stored.short, Code::ObjectTooShort)]
        {
            for id in ids {
                let size = objects.size(*id)?;
                for naming in self.located.objects.get(id).cloned().unwrap_or_default() {
                    let wanted = objects.size_for(naming.slice.range.object_len);
                    if size.is_some_and(|size| size >= wanted) {
                        continue;
                    }
                    let detail = match size {
                        None => format!("{} is not in the object store", object_words(*id)),
                        Some(size) => {
                            format!("{} takes {size} bytes, not {wanted}", object_words(*id))
                        }
                    };
                    let finding = self.of_naming(code, &naming, detail)?;
                    self.found.push(finding.known_by(Evidence::Object(*id, size)));
                }
            }
        }
        for (id, bytes) in &stored.unnamed {
            let session = session_of(*id);
            let detail = format!("{bytes} bytes that session {session} stored, and no file needs");
            let shard = pando_types::ShardIndex(0);
            let mut finding = Finding::new(Code::ObjectUnnamed, shard, object_words(*id), detail)
                .known_by(Evidence::Object(*id, Some(*bytes)));
            finding.repair.get_or_insert_default().objects.push(*id);
            self.found.push(finding);
        }
        Ok(())
    }

    /// A finding about a slice of a file.
    fn of_naming(
        &mut self,
        code: Code,
        naming: &Naming,
        detail: String,
    ) -> Result<Finding, String> {
        let row = Evidence::row(naming.shard, &naming.key, Some(&naming.value));
        let finding = |what| Finding::new(code, naming.shard, what, detail.clone());
        let finding = match Key::parse(&naming.key) {
            Some(Key::Cold(dir, order, _)) => {
                let key = keys::dir(dir, Kind::Entry, order);
                let entry = cursor::get(self.probe.rows, naming.shard, &key)?;
                let entry = entry.and_then(|bytes| Entry::decode(&bytes).ok()?.is);
                let place = Place::Name(dir, Order(order).base().0);
                match entry {
                    Some((name, EntryValue::File(_))) => {
                        finding(format!("\"{name}\" in {}", dir_words(dir)))
                            .at(At::Name(dir, name.as_bytes().to_vec()))
                            .under(place)
                    }
                    _ => finding(format!("order {order:#x} of {}", dir_words(dir))).under(place),
                }
            }
            Some(Key::LinkCold(ino, _)) => {
                let names = self.probe.link_names(ino)?;
                let mut finding = finding(ino_words(ino)).under(Place::Link(ino));
                finding.at = names
                    .records
                    .first()
                    .map(|name| At::Name(name.record.dir.id, name.record.name.as_bytes().to_vec()));
                finding
            }
            _ => finding(object_words(naming.slice.range.object)),
        };
        Ok(finding.known_by(row))
    }

    fn needed_twice(&mut self, id: ObjectId, a: &Naming, b: &Naming) -> Result<(), String> {
        let other = self.of_naming(Code::ObjectNamedTwice, b, String::new())?;
        let detail = format!("{} is also needed by {}", object_words(id), other.what);
        let mut finding = self.of_naming(Code::ObjectNamedTwice, a, detail)?;
        finding.evidence.extend(other.evidence);
        finding.under.extend(other.under);
        self.found.push(finding);
        Ok(())
    }

    /// Reports an object that is both needed and to be deleted. The repair keeps it.
    fn doomed(&mut self, id: ObjectId, naming: &Naming) -> Result<(), String> {
        let key = keys::garbage(id);
        for shard in self.probe.volume.shards() {
            let Some(value) = cursor::get(self.probe.rows, shard, &key)? else { continue };
            let detail = format!("{} is in shard {shard}'s list of garbage", object_words(id));
            let finding = self.of_naming(Code::GarbageStillNamed, naming, detail)?;
            let mut finding = finding
                .known_by(Evidence::row(shard, &key, Some(&value)))
                .mended_by(shard, vec![Write::Delete(key.clone())]);
            if is_planted!(ObjectRepaired) {
                finding.repair.get_or_insert_default().objects.push(id);
            }
            self.found.push(finding);
        }
        Ok(())
    }
}
