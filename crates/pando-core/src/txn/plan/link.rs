//! `link`: with its second name an inode moves to its link shard, and both entries point there
//! (BabuDB §III.B).

use alloc::vec;
use alloc::vec::Vec;
use pando_types::op::{FileAt, FileRef, LINK_MAX};
use pando_types::peer::{Change, EntryRows, EntryValue, InodeRows};
use pando_types::reply::{Body, Refusal};
use pando_types::{Attr, DirRef, Errno, FileKind, Name};

use crate::namespace::perm;
use crate::state::stop::Stop;
use crate::state::txn::plan::Link;
use crate::txn::plan::view::{By, Decision, Next, View};

impl Link {
    pub fn new(file: FileRef, dir: DirRef, name: Name) -> Self {
        Self { file, dir, name }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        if let Some(ask) = self.ask_names(view) {
            return Ok(ask);
        }
        let Some((at, taken, _)) = view.votes.name(self.dir, &self.name) else {
            return Ok(Next::Restart);
        };
        if taken.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let now = view.ctx.time;
        let ino = self.file.ino;
        // The inode is in its entry, or the request says so.
        if let FileAt::Name(old_dir, old_name) = &self.file.at {
            let Some((old_at, old, _)) = view.votes.name(*old_dir, old_name) else {
                return Ok(Next::Restart);
            };
            match old.map(|e| (&e.value, &e.inode)) {
                Some((EntryValue::File(inode), rows)) if inode.attr.ino == ino => {
                    perm::check_link(&inode.attr, view.credentials)?;
                    let Some((link, _)) = view.votes.link(ino) else {
                        return Ok(view.ask_new_link(ino));
                    };
                    let mut inode = inode.clone();
                    inode.attr.nlink = 2;
                    inode.attr.ctime = now;
                    inode.attr.change += 1;
                    let attr = inode.attr.clone();
                    let names = vec![(*old_dir, old_name.clone()), (self.dir, self.name.clone())];
                    let put = Change::PutLink { inode, rows: rows.clone(), names };
                    let changes = vec![
                        (old_at, point(*old_dir, old_name, &attr, now)),
                        (at, point(self.dir, &self.name, &attr, now)),
                        (link, put),
                    ];
                    return Ok(decide(changes, attr));
                }
                Some((EntryValue::Linked(linked, _), _)) if *linked == ino => {}
                _ => return Err(Refusal::NotUnderName.into()),
            }
        }
        let Some((link, attr)) = view.votes.link(ino) else {
            return Ok(view.ask_link(ino));
        };
        let mut attr = attr.ok_or(Errno::ENOENT)?.clone();
        match attr.nlink {
            0 => return Err(Errno::ENOENT.into()),
            LINK_MAX.. => return Err(Errno::EMLINK.into()),
            _ => {}
        }
        perm::check_link(&attr, view.credentials)?;
        attr.nlink += 1;
        attr.ctime = now;
        let add = Change::AddName { ino, dir: self.dir, name: self.name.clone(), at: now };
        let changes = vec![(at, point(self.dir, &self.name, &attr, now)), (link, add)];
        Ok(decide(changes, attr))
    }

    /// Asks for the names that are not yet locked, in lock order.
    fn ask_names(&self, view: &View<'_, '_>) -> Option<Next> {
        let mut names = vec![(self.dir, &self.name, By::Caller)];
        if let FileAt::Name(dir, name) = &self.file.at {
            names.push((*dir, name, By::System));
        }
        names.sort_by_key(|(dir, name, _)| (dir.id, view.shard.order(name)));
        names
            .into_iter()
            .find(|(dir, name, _)| view.votes.name(*dir, name).is_none())
            .map(|(dir, name, by)| view.ask_name(dir, name, by))
    }
}

fn point(dir: DirRef, name: &Name, attr: &Attr, at: pando_types::Timestamp) -> Change {
    let (ino, kind): (_, FileKind) = (attr.ino, attr.kind);
    let entry = EntryRows { value: EntryValue::Linked(ino, kind), inode: InodeRows::default() };
    Change::PutEntry { dir, name: name.clone(), entry, destroy: false, at }
}

fn decide(changes: Vec<(usize, Change)>, attr: Attr) -> Next {
    Next::Decide(Decision { changes, then: Vec::new(), body: Body::Attr(attr) })
}
