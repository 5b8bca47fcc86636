//! Objects that files come to name during a collection of unused objects
//! (docs/design/collecting.md).

use pando_types::op::ObjectId;
use pando_types::reply::Slice;
use pando_types::watch::{Settled, Watching};

use crate::contract::Write;
use crate::records::keys;
use crate::records::record::Record;
use crate::state::namespace::watch::Watch;
use crate::state::shard::Shard;

impl Shard {
    /// Begins to watch for the collection `id`. `None`: this shard has not joined the volume yet.
    pub fn watch(&mut self, id: u64) -> Option<Watching> {
        if !self.has_joined() {
            return None;
        }
        // A repetition that comes late must not make the shard forget what it has seen.
        if !self.watch.as_ref().is_some_and(|watch| watch.is_for(id)) {
            self.watch = Some(Watch::new(id));
        }
        let sessions = self.sessions().collect();
        Some(Watching { sessions, heard: self.sessions_heard(), shards: self.config.map.shards })
    }

    /// Lists the remembered objects from `first` on, in pages. Answers `NotYet` until the steps
    /// that were prepared at the first call are over.
    pub fn settle_watch(&mut self, id: u64, first: ObjectId) -> Settled {
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.is_for(id)) else {
            return Settled::Forgotten;
        };
        if watch.is_too_much() {
            return Settled::TooMuch;
        }
        let participant = &self.participant;
        let steps = || participant.all_prepared().map(|(step, _)| step);
        if watch.awaits_steps(steps, |step| participant.is_prepared(step)) {
            return Settled::NotYet;
        }
        let (objects, is_last) = watch.page(first);
        Settled::Seen { objects, is_last, shards: self.config.map.shards }
    }

    /// Notes the objects of ended sessions that an input makes part of slices.
    pub(crate) fn note_named(&mut self, writes: &[Write]) {
        let Some(watch) = &mut self.watch else { return };
        for write in writes {
            let Write::Put(key, value) = write else { continue };
            if !keys::is_slice(key) || watch.is_too_much() {
                continue;
            }
            // A slice that cannot be decoded names no object.
            let Ok(Slice { range, .. }) = Slice::decode(value) else { continue };
            if !self.sessions.is_alive(range.object.session()) {
                watch.note(range.object);
            }
        }
    }
}
