//! `mkdir`: locks the name at the parent's partition, then reserves an id at the home that the id
//! gives. An id may be taken, by a directory that was renamed away or is not yet dropped. Then the
//! plan tries the next version (InfiniFS §3.3.1, Figure 4).

use alloc::vec;
use alloc::vec::Vec;
use pando_types::lend::Birth;
use pando_types::op::Place;
use pando_types::peer::{Change, EntryRows, EntryValue, InodeRows, Prepare, Seen};
use pando_types::reply::{Access, Body};
use pando_types::{DirRef, Errno, FileKind, Ino, Name, SessionId};

use crate::namespace::attrs::new_dir_attr;
use crate::namespace::perm::{self, Inherited};
use crate::records::format::new_dir;
use crate::state::stop::Stop;
use crate::state::txn::plan::Mkdir;
use crate::txn::plan::view::{By, Decision, Next, View};

/// Most versions that are tried. To exhaust them, as many siblings of one name must have been
/// renamed away.
const VERSIONS: u32 = 4096;

impl Mkdir {
    /// `borrower`: the session that would borrow the new directory.
    pub fn new(dir: DirRef, name: Name, mode: u16, borrower: Option<SessionId>) -> Self {
        Self { dir, name, mode, borrower, ino: None, version: 0 }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let Some((at, entry, inherit)) = view.votes.name(self.dir, &self.name) else {
            return Ok(view.ask_name(self.dir, &self.name, By::Caller));
        };
        if entry.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let Some((home, id)) = view.votes.new_home() else {
            if self.version == VERSIONS {
                return Err(Errno::EIO.into());
            }
            let id = view.shard.config.secrets.dir_id(self.dir.id, &self.name, self.version);
            self.version += 1;
            let place = Place::Home(DirRef { id, ino: Ino(0) });
            return Ok(Next::Ask(place, Prepare::NewHome(id)));
        };
        let ino = match self.ino {
            Some(ino) => ino,
            None => *self.ino.insert(view.shard.numbers.ino(view.ctx)),
        };
        let Inherited { mode, gid } =
            perm::inherit(&inherit, FileKind::Directory, self.mode, view.credentials)?;
        let now = view.ctx.time;
        let base = new_dir(ino, mode, view.credentials.uid, gid, inherit.project, now);
        let dir = DirRef { id, ino };
        let value = EntryValue::Dir(Access { dir, mode, uid: base.uid, gid });
        let entry = EntryRows { value, inode: InodeRows::default() };
        let put = Change::PutEntry {
            dir: self.dir,
            name: self.name.clone(),
            entry,
            destroy: false,
            at: now,
        };
        let (parent, name) = (self.dir, self.name.clone());
        let (new, body) = match self.birth(view, home) {
            Some(birth) => {
                let body = view.shard.born((dir, base.clone()), (parent, &name), birth);
                (Change::NewLentHome { dir, base, parent, name, birth }, body)
            }
            None => {
                let body = Body::Made(dir, new_dir_attr(base.clone(), view.votes.0[home].to));
                (Change::NewHome { dir, base, parent, name }, body)
            }
        };
        Ok(Next::Decide(Decision { changes: vec![(at, put), (home, new)], then: Vec::new(), body }))
    }

    /// The loan of the new directory, if the session would borrow it, and its home lends it.
    fn birth(&self, view: &View<'_, '_>, home: usize) -> Option<Birth> {
        let session = self.borrower?;
        let step = &view.votes.0[home];
        let Some(Seen::Lends(inos)) = step.seen else { return None };
        let key = view.shard.bears_for(view.ctx, session)?;
        Some(Birth { grant: view.txn, session, key, home: step.to, inos })
    }
}
