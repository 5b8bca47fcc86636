//! `rmdir`: locks the entry, then the content with partition 0, then seals every other partition:
//! each is empty, and stays so. A tombstone keeps the id taken until all partitions elsewhere are
//! durably dropped.

use pando_types::peer::{Change, EntryValue};
use pando_types::reply::Body;
use pando_types::{DirRef, Errno, Name};

use crate::state::stop::Stop;
use crate::state::txn::plan::Rmdir;
use crate::txn::plan::view::{AskedTo, By, Decision, Next, View};

impl Rmdir {
    pub fn new(dir: DirRef, name: Name) -> Self {
        Self { dir, name }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let Some((at, entry, _)) = view.votes.name(self.dir, &self.name) else {
            return Ok(view.ask_name(self.dir, &self.name, By::Caller));
        };
        let victim = match entry.map(|e| &e.value) {
            None => return Err(Errno::ENOENT.into()),
            Some(EntryValue::Dir(access)) => access.dir,
            Some(_) => return Err(Errno::ENOTDIR.into()),
        };
        if view.votes.home(victim).is_none() {
            return Ok(view.ask_removal(victim));
        }
        if let Some(partition) = view.votes.next_partition(victim) {
            return Ok(view.ask_partition(victim, partition, AskedTo::Seal));
        }
        let (mut changes, then) = view.votes.removal(victim);
        let remove = Change::RemoveEntry {
            dir: self.dir,
            name: self.name.clone(),
            destroy: true,
            at: view.ctx.time,
        };
        changes.push((at, remove));
        Ok(Next::Decide(Decision { changes, then, body: Body::Done }))
    }
}
