//! `chmod`, `chown` and times of a directory. They change its entry (access metadata), its content,
//! and the headers of all its partitions. New times begin a new delta generation, so that they win
//! over older changes of names.

use alloc::vec;
use alloc::vec::Vec;
use pando_types::peer::{Change, EntryValue};
use pando_types::reply::{Access, Body, DirAttr};
use pando_types::{Attr, DirRef, Name, Search, SetAttr};

use crate::namespace::attrs::apply;
use crate::namespace::perm;
use crate::records::format::inherit;
use crate::state::stop::Stop;
use crate::state::txn::plan::DirSetAttr;
use crate::txn::plan::view::{AskedTo, By, Decision, Next, View};

impl DirSetAttr {
    pub fn new(
        dir: DirRef,
        set: SetAttr,
        entry: Option<(DirRef, Name)>,
        changes_search: bool,
    ) -> Self {
        Self { dir, set, entry, changes_search }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let mut at_entry = None;
        if let Some((parent, name)) = &self.entry {
            let Some((at, entry, _)) = view.votes.name(*parent, name) else {
                return Ok(view.ask_name(*parent, name, By::System));
            };
            match entry.map(|e| &e.value) {
                Some(EntryValue::Dir(access)) if access.dir == self.dir => at_entry = Some(at),
                _ => return Ok(Next::Restart), // renamed meanwhile
            }
        }
        let Some((home, base, generation)) = view.votes.home(self.dir) else {
            return Ok(view.ask_home(self.dir));
        };
        let set = perm::check_setattr(base, &self.set, view.credentials)?;
        let mut base = base.clone();
        let before = (base.mode, base.uid, base.gid);
        apply(&mut base, &set, view.ctx.time);
        if at_entry.is_none()
            && before != (base.mode, base.uid, base.gid)
            && self.dir != DirRef::ROOT
        {
            return Ok(Next::Restart); // mode or owner has changed since the begin
        }
        let search = |(mode, uid, gid)| Search::new(mode, uid, gid);
        let changes_search = search(before) != search((base.mode, base.uid, base.gid));
        if changes_search && !self.changes_search {
            return Ok(Next::Restart); // what decides search permission has changed since the begin
        }
        if let Some(partition) = view.votes.next_partition(self.dir) {
            return Ok(view.ask_partition(self.dir, partition, AskedTo::Hold));
        }
        // Without a subdirectory no path leads through the directory. A subdirectory made from now
        // on becomes visible only after the partitions are released, together with the new
        // permissions.
        let has_subdirs = view.votes.subdirs(self.dir) > 0;
        #[cfg(feature = "planted")]
        let has_subdirs = has_subdirs && !view.shard.is_planted(crate::Planted::SubdirsNotCounted);
        if changes_search
            && has_subdirs
            && let Some(ask) = view.ask_version(vec![self.dir.ino])
        {
            return Ok(ask);
        }
        let generation = generation + u64::from(set.mtime.is_some());
        self.decide(view, at_entry, home, (base, generation))
    }

    /// Changes entry, partitions and content. `home` is the content's step.
    fn decide(
        &self,
        view: &mut View<'_, '_>,
        at_entry: Option<usize>,
        home: usize,
        (base, generation): (Attr, u64),
    ) -> Result<Next, Stop> {
        let mut changes = Vec::new();
        if let (Some(at), Some((parent, name))) = (at_entry, &self.entry) {
            let access = Access { dir: self.dir, mode: base.mode, uid: base.uid, gid: base.gid };
            changes.push((at, Change::SetAccess { dir: *parent, name: name.clone(), access }));
        }
        for (step, partition) in view.votes.partitions(self.dir) {
            let inherit = inherit(&base);
            let header = Change::SetHeader { dir: self.dir, partition, inherit, generation };
            changes.push((step, header));
        }
        changes.push((home, Change::SetBase { dir: self.dir, base: base.clone(), generation }));
        let body = Body::Dir(DirAttr {
            base,
            generation,
            deltas: Vec::new(),
            history: view.shard.history(view.ctx, self.dir.id)?,
        });
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body }))
    }
}
