//! Objects that files come to name during a collection of unused objects
//! (docs/design/collecting.md).

use alloc::collections::BTreeSet;
use pando_types::op::ObjectId;
use pando_types::reply::Slice;
use pando_types::watch::{Settled, Watching};

use crate::contract::Write;
use crate::records::keys;
use crate::records::record::Record;
use crate::state::namespace::watch::Watch;
use crate::state::shard::Shard;

/// Most objects that are remembered. A collection that needs more fails.
const SEEN_MAX: usize = 1 << 20;
/// Objects in one answer.
const PAGE: usize = 8192;

impl Shard {
    /// Begins to watch for the collection `id`. `None`: this shard has not joined the volume yet.
    pub fn watch(&mut self, id: u64) -> Option<Watching> {
        if !self.has_joined() {
            return None;
        }
        // A repetition that comes late must not make the shard forget what it has seen.
        if self.watch.as_ref().is_none_or(|watch| watch.id != id) {
            self.watch = Some(Watch { id, seen: BTreeSet::new(), before: None });
        }
        let sessions = self.sessions().collect();
        Some(Watching { sessions, heard: self.sessions_heard(), shards: self.config.map.shards })
    }

    /// Lists the remembered objects from `first` on, in pages. Answers `NotYet` until the steps
    /// that were prepared at the first call are over.
    pub fn settle_watch(&mut self, id: u64, first: ObjectId) -> Settled {
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.id == id) else {
            return Settled::Forgotten;
        };
        if watch.seen.len() > SEEN_MAX {
            return Settled::TooMuch;
        }
        let participant = &self.participant;
        let steps = || participant.all_prepared().map(|(step, _)| step).collect();
        let before = watch.before.get_or_insert_with(steps);
        before.retain(|step| participant.is_prepared(*step));
        if !before.is_empty() {
            return Settled::NotYet;
        }
        let mut objects = watch.seen.range(first..);
        let page = objects.by_ref().take(PAGE).copied().collect();
        Settled::Seen {
            objects: page,
            is_last: objects.next().is_none(),
            shards: self.config.map.shards,
        }
    }

    /// Notes the objects of ended sessions that an input makes part of slices.
    pub(crate) fn note_named(&mut self, writes: &[Write]) {
        let Some(watch) = &mut self.watch else { return };
        for write in writes {
            let Write::Put(key, value) = write else { continue };
            if !keys::is_slice(key) || watch.seen.len() > SEEN_MAX {
                continue;
            }
            // A slice that cannot be decoded names no object.
            let Ok(Slice { range, .. }) = Slice::decode(value) else { continue };
            if !self.sessions.is_alive(range.object.session()) {
                watch.seen.insert(range.object);
            }
        }
    }
}
