//! A lock of a program, for a caller that the shard alone judges. The lock is at the link shard,
//! while the inode with the permissions is usually elsewhere. So the plan reads the inode first,
//! and holds no lock on it. The decision is what an open would have decided a moment ago.

use alloc::vec::Vec;
use pando_types::op::{FileAt, Place, Target};
use pando_types::peer::{Prepare, Seen};
use pando_types::reply::Refusal;
use pando_types::{Attr, Lock, SessionId};

use crate::namespace::perm;
use crate::state::stop::Stop;
use crate::state::txn::plan::LockOf;
use crate::txn::plan::view::{Decision, Next, View, Votes};

impl LockOf {
    pub fn new(target: Target, wanted: Lock, session: SessionId) -> Self {
        Self { target, wanted, session }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let Some(attr) = seen(view.votes) else { return self.ask(view) };
        perm::check_lock(attr, view.credentials, &self.wanted)?;
        let ino = self.target.ino();
        // The inode's hash slot may have been handed over since.
        view.shard.open_link(ino)?;
        let body = view.shard.lock_file(view.ctx, ino, &self.wanted, self.session)?;
        Ok(Next::Decide(Decision { changes: Vec::new(), then: Vec::new(), body }))
    }

    fn ask(&self, view: &View<'_, '_>) -> Result<Next, Stop> {
        match &self.target {
            Target::Dir(dir) => Ok(Next::Ask(Place::Home(*dir), Prepare::Look(*dir))),
            Target::File(file) => match &file.at {
                FileAt::Name(dir, name) => {
                    let place = Place::Order(*dir, view.shard.order(name));
                    let (dir, name, ino) = (*dir, name.clone(), file.ino);
                    Ok(Next::Ask(place, Prepare::LookFile { dir, name, ino }))
                }
                // That inode is on this shard, and was checked before.
                FileAt::Link => Err(Refusal::NotUnderName.into()),
            },
        }
    }
}

/// Attributes of the inode that was read.
fn seen(votes: Votes<'_>) -> Option<&Attr> {
    match votes.yes(|prepare| matches!(prepare, Prepare::Look(_) | Prepare::LookFile { .. }))? {
        (_, Seen::Home { base, .. } | Seen::Link(base, _)) => Some(base),
        _ => None,
    }
}
