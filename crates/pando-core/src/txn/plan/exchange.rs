//! `RENAME_EXCHANGE`: two names swap their entries, of any kinds.
//!
//! Lock order, as for `rename`: the whole renaming graph if the names are in different directories,
//! both names, the contents of directories, link inodes. The walks up come after the names are
//! locked, since only then it is known what moves. The walks lock nothing, and a transaction that
//! holds a content never waits for a name.

use alloc::vec::Vec;
use pando_types::peer::{Change, EntryRows, EntryValue};
use pando_types::{DirRef, Errno, Name, SessionId};

use super::claim::{Claimed, claim_all, walk_alone};
use super::rename::{ask_links, carry, check_linked_sticky, check_moved, dir_of, fate};
use crate::namespace::attrs::{Left, moved};
use crate::state::stop::Stop;
use crate::state::txn::plan::Exchange;
use crate::txn::plan::view::{By, Decision, Next, View};

impl Exchange {
    pub fn new(a: (DirRef, Name), b: (DirRef, Name), session: SessionId) -> Self {
        Self { a, b, session }
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        let ((dir_a, name_a), (dir_b, name_b)) = (&self.a, &self.b);
        let changes_parent = dir_a != dir_b;
        if changes_parent && let Some(ask) = claim_all(view) {
            return Ok(ask);
        }
        let mut names = [(*dir_a, name_a), (*dir_b, name_b)];
        names.sort_by_key(|(dir, name)| (dir.id, view.shard.order(name)));
        if let Some((dir, name)) = names.into_iter().find(|(d, n)| view.votes.name(*d, n).is_none())
        {
            return Ok(view.ask_name(dir, name, By::Caller));
        }
        let votes = view.votes;
        let (Some((at_a, a, inherit_a)), Some((at_b, b, inherit_b))) =
            (votes.name(*dir_a, name_a), votes.name(*dir_b, name_b))
        else {
            return Ok(Next::Restart);
        };
        let (a, b) = (a.ok_or(Errno::ENOENT)?, b.ok_or(Errno::ENOENT)?);
        if is_one_file(a, b) {
            let body = moved(&a.value, Left::AtLink);
            return Ok(Next::Decide(Decision { changes: Vec::new(), then: Vec::new(), body }));
        }
        if let Some(ask) = ask_dirs(view, (a, *dir_a), (b, *dir_b))? {
            return Ok(ask);
        }
        let session = self.session;
        let [fate_a, fate_b] = [a, b].map(|entry| fate(entry, |holder| holder != session));
        if let Some(ask) = ask_links(view, fate_a, fate_b) {
            return Ok(ask);
        }
        check_linked_sticky(view, fate_a, inherit_a)?;
        check_linked_sticky(view, fate_b, inherit_b)?;
        let dirs = [a, b].into_iter().filter_map(dir_of);
        if let Some(ask) = view.ask_version(dirs.map(|dir| dir.ino).collect()) {
            return Ok(ask);
        }
        let (from_a, from_b) = ((*dir_a, name_a), (*dir_b, name_b));
        let (at_new_b, mut changes) = carry(view, (a, fate_a), from_a, from_b);
        let (at_new_a, more) = carry(view, (b, fate_b), from_b, from_a);
        changes.extend(more);
        for (step, (dir, name), entry) in [(at_a, from_a, at_new_a), (at_b, from_b, at_new_b)] {
            let (name, at) = (name.clone(), view.ctx.time);
            changes.push((step, Change::PutEntry { dir, name, entry, destroy: false, at }));
        }
        let body = moved(&a.value, fate_a.left());
        Ok(Next::Decide(Decision { changes, then: Vec::new(), body }))
    }
}

fn is_one_file(a: &EntryRows, b: &EntryRows) -> bool {
    matches!((&a.value, &b.value), (EntryValue::Linked(a, _), EntryValue::Linked(b, _)) if a == b)
}

/// For directories among the two: checks that none moves beneath itself, and asks for their
/// contents, by id.
fn ask_dirs(
    view: &View<'_, '_>,
    (a, dir_a): (&EntryRows, DirRef),
    (b, dir_b): (&EntryRows, DirRef),
) -> Result<Option<Next>, Stop> {
    let changes_parent = dir_a != dir_b;
    for (entry, to) in [(a, dir_b), (b, dir_a)] {
        if let Some(moving) = dir_of(entry).filter(|_| changes_parent) {
            match walk_alone(view, moving, to)? {
                Claimed::Ask(ask) => return Ok(Some(ask)),
                Claimed::Beneath => return Err(Errno::EINVAL.into()),
                Claimed::Apart => {}
            }
        }
    }
    check_moved(view, a, changes_parent)?;
    check_moved(view, b, changes_parent)?;
    let mut dirs: Vec<DirRef> = [a, b].into_iter().filter_map(dir_of).collect();
    dirs.sort_by_key(|dir| dir.id);
    let next = dirs.into_iter().find(|dir| view.votes.home(*dir).is_none());
    Ok(next.map(|dir| view.ask_home(dir)))
}
