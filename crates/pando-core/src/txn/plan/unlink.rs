//! `unlink` of a file that has other names, or that a session has open. The inode of an open file
//! moves to its link shard, without a name.

use alloc::vec;
use alloc::vec::Vec;
use pando_types::peer::{Change, EntryValue};
use pando_types::reply::Body;
use pando_types::{DirRef, Errno, Name};

use crate::namespace::perm;
use crate::state::stop::Stop;
use crate::state::txn::plan::Unlink;
use crate::txn::plan::view::{By, Decision, Next, View};

impl Unlink {
    pub fn new(dir: DirRef, name: Name) -> Self {
        Self { dir, name }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let Some((at, entry, inherit)) = view.votes.name(self.dir, &self.name) else {
            return Ok(view.ask_name(self.dir, &self.name, By::Caller));
        };
        let entry = entry.ok_or(Errno::ENOENT)?;
        let now = view.ctx.time;
        let (dir, name) = (self.dir, self.name.clone());
        let remove = |destroy| Change::RemoveEntry { dir, name: name.clone(), destroy, at: now };
        let changes = match &entry.value {
            EntryValue::Dir(_) => return Err(Errno::EISDIR.into()),
            EntryValue::File(_) if entry.inode.opens.is_empty() => vec![(at, remove(true))],
            EntryValue::File(inode) => {
                let Some((link, _)) = view.votes.link(inode.attr.ino) else {
                    return Ok(view.ask_new_link(inode.attr.ino));
                };
                let mut inode = inode.clone();
                inode.attr.nlink = 0;
                inode.attr.ctime = now;
                inode.attr.change += 1;
                let rows = entry.inode.clone();
                let put = Change::PutLink { inode, rows, names: Vec::new() };
                vec![(at, remove(false)), (link, put)]
            }
            EntryValue::Linked(ino, _) => {
                let ino = *ino;
                let Some((link, attr)) = view.votes.link(ino) else {
                    return Ok(view.ask_link(ino));
                };
                if let Some(attr) = attr {
                    perm::check_sticky(&inherit, attr.into(), view.credentials)?;
                }
                let drop = Change::DropName { ino, dir, name: name.clone(), at: now };
                vec![(at, remove(false)), (link, drop)]
            }
        };
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body: Body::Done }))
    }
}
