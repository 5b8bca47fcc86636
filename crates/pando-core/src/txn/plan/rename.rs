//! `rename` between shards, of directories, and of inodes that are open or at a link shard
//! (docs/design/rename-graph.md). The shard of the old name coordinates it. A rename of a file
//! between names of one shard runs at once, in `ops/names.rs`.
//!
//! Lock order:
//!
//! 1. the renaming graph, for directories that change their parent ([`crate::txn::graph`])
//! 2. both names
//! 3. the contents of the moved and the replaced directory
//! 4. the partitions of the replaced directory
//! 5. link inodes
//!
//! A directory's version is announced to all shards last ([`crate::invalidation`]).

use alloc::vec;
use alloc::vec::Vec;
use pando_types::peer::{Change, EntryRows, EntryValue, Inherit, Inode, InodeRows};
use pando_types::reply::Access;
use pando_types::{DirRef, Errno, FileKind, Ino, Name, SessionId};

use super::claim::{Claimed, claim};
use crate::namespace::attrs::{Left, moved};
use crate::namespace::names::kind;
use crate::namespace::perm;
use crate::state::stop::Stop;
use crate::state::txn::plan::Rename;
use crate::txn::plan::view::{AskedTo, By, Decision, Next, View};

/// What becomes of a file's inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The inode is in its entry, and moves with it.
    Inline,
    /// The inode is in its entry and open elsewhere, so it moves to its link shard.
    Parks(Ino),
    /// The inode is at its link shard already.
    Linked(Ino),
}

impl Fate {
    fn link(self) -> Option<(Ino, bool)> {
        match self {
            Self::Inline => None,
            Self::Parks(ino) => Some((ino, true)),
            Self::Linked(ino) => Some((ino, false)),
        }
    }

    pub(super) fn left(self) -> Left {
        if self == Self::Inline { Left::InEntry } else { Left::AtLink }
    }
}

impl Rename {
    pub fn new(
        ((from, name), (to, new_name)): ((DirRef, Name), (DirRef, Name)),
        no_replace: bool,
        moved: Option<DirRef>,
        session: SessionId,
    ) -> Self {
        Self { from, name, to, new_name, no_replace, moved, session, walked_since: None }
    }

    /// Whether `dir` is the new parent.
    pub fn goes_to(&self, dir: DirRef) -> bool {
        self.to == dir
    }

    pub fn moves_dir(&self) -> bool {
        self.moved.is_some()
    }

    pub fn next(&mut self, view: &mut View<'_, '_>) -> Result<Next, Stop> {
        #[cfg(feature = "planted")]
        if view.shard.is_planted(crate::Planted::VersionBeforeLocks)
            && let Some(ask) = view.ask_version(self.moved.iter().map(|dir| dir.ino).collect())
        {
            return Ok(ask);
        }
        let is_beneath = match self.walk_up(view)? {
            Claimed::Ask(ask) => return Ok(ask),
            Claimed::Beneath => true,
            Claimed::Apart => false,
        };
        // Linux reports the loop before it checks write permission.
        let by = if is_beneath { By::System } else { By::Caller };
        if let Some(ask) = self.ask_names(view, by) {
            return Ok(ask);
        }
        let names =
            (view.votes.name(self.from, &self.name), view.votes.name(self.to, &self.new_name));
        let (Some((at, source, from_inherit)), Some((to_at, target, to_inherit))) = names else {
            return Ok(Next::Restart);
        };
        if is_beneath {
            perm::check_dir(&from_inherit, view.credentials, perm::X)?;
            perm::check_dir(&to_inherit, view.credentials, perm::X)?;
        }
        let source = source.ok_or(Errno::ENOENT)?;
        let is_another = self.moved != dir_of(source);
        #[cfg(feature = "planted")]
        let is_another = is_another && !view.shard.is_planted(crate::Planted::LookTrusted);
        if is_another {
            return Ok(Next::Restart);
        }
        if is_beneath {
            let exists = self.no_replace && target.is_some();
            return Err(if exists { Errno::EEXIST } else { Errno::EINVAL }.into());
        }
        if let Some(done) = self.check(view, source, target)? {
            return Ok(done);
        }
        let replaced = target.and_then(dir_of);
        if let Some(ask) = self.ask_dirs(view, replaced) {
            return Ok(ask);
        }
        let session = self.session;
        let fate = fate(source, |holder| holder != session);
        let target_fate = target.map_or(Fate::Inline, fate_of_replaced);
        if let Some(ask) = ask_links(view, fate, target_fate) {
            return Ok(ask);
        }
        check_linked_sticky(view, fate, from_inherit)?;
        check_linked_sticky(view, target_fate, to_inherit)?;
        if let Some(ask) = view.ask_version(self.moved.iter().map(|dir| dir.ino).collect()) {
            return Ok(ask);
        }
        let (mut changes, then) = replaced.map(|dir| view.votes.removal(dir)).unwrap_or_default();
        self.decide(view, &mut changes, (at, source, fate), (to_at, target, target_fate));
        let body = moved(&source.value, fate.left());
        Ok(Next::Decide(Decision { changes, then, body }))
    }

    /// Checks that a directory which changes its parent goes neither into itself nor beneath itself
    /// (`EINVAL`). The error is reported only when its name is locked. Before that, the directory
    /// may move elsewhere, together with what is above the new parent.
    fn walk_up(&mut self, view: &View<'_, '_>) -> Result<Claimed, Stop> {
        let Some(moved) = self.moved else { return Ok(Claimed::Apart) };
        if self.from == self.to {
            return Ok(Claimed::Apart);
        }
        claim(view, moved, self.to, &mut self.walked_since)
    }

    fn ask_names(&self, view: &View<'_, '_>, by: By) -> Option<Next> {
        let mut names = [(self.from, &self.name), (self.to, &self.new_name)];
        names.sort_by_key(|(dir, name)| (dir.id, view.shard.order(name)));
        names
            .into_iter()
            .find(|(dir, name)| view.votes.name(*dir, name).is_none())
            .map(|(dir, name)| view.ask_name(dir, name, by))
    }

    /// Applies Linux' rules on what may replace what. `Some`: both names are of one file, and
    /// nothing is to do.
    fn check(
        &self,
        view: &View<'_, '_>,
        source: &EntryRows,
        target: Option<&EntryRows>,
    ) -> Result<Option<Next>, Stop> {
        let Some(target) = target else {
            check_moved(view, source, self.from != self.to)?;
            return Ok(None);
        };
        if self.no_replace {
            return Err(Errno::EEXIST.into());
        }
        if let (EntryValue::Linked(a, _), EntryValue::Linked(b, _)) = (&source.value, &target.value)
            && a == b
        {
            let body = moved(&source.value, Left::AtLink);
            return Ok(Some(Next::Decide(Decision { changes: vec![], then: vec![], body })));
        }
        let is_dir = |entry: &EntryRows| kind(&entry.value) == FileKind::Directory;
        match (is_dir(source), is_dir(target)) {
            (true, false) => Err(Errno::ENOTDIR.into()),
            (false, true) => Err(Errno::EISDIR.into()),
            _ => {
                check_moved(view, source, self.from != self.to)?;
                Ok(None)
            }
        }
    }

    /// Asks for the contents of the moved and the replaced directory, by id, then for the
    /// partitions of the replaced one.
    fn ask_dirs(&self, view: &View<'_, '_>, replaced: Option<DirRef>) -> Option<Next> {
        let mut homes: Vec<DirRef> = self.moved.into_iter().chain(replaced).collect();
        homes.sort_by_key(|dir| dir.id);
        if let Some(dir) = homes.into_iter().find(|dir| view.votes.home(*dir).is_none()) {
            return Some(view.ask_home(dir));
        }
        let dir = replaced?;
        let partition = view.votes.next_partition(dir)?;
        Some(view.ask_partition(dir, partition, AskedTo::Seal))
    }

    fn decide(
        &self,
        view: &View<'_, '_>,
        changes: &mut Vec<(usize, Change)>,
        (at, source, fate): (usize, &EntryRows, Fate),
        (to_at, target, target_fate): (usize, Option<&EntryRows>, Fate),
    ) {
        let now = view.ctx.time;
        let (from, name) = (self.from, self.name.clone());
        let (to, new_name) = (self.to, self.new_name.clone());
        let (entry, links) = carry(view, (source, fate), (from, &name), (to, &new_name));
        changes.extend(links);
        if let Some(target) = target {
            changes.extend(self.replace(view, target, target_fate));
        }
        let destroy = target_fate == Fate::Inline;
        let put = Change::PutEntry { dir: to, name: new_name, entry, destroy, at: now };
        // The old name is removed first: both may be in one partition.
        changes.push((at, Change::RemoveEntry { dir: from, name, destroy: false, at: now }));
        changes.push((to_at, put));
    }

    /// The change of the file that loses its name by the rename.
    fn replace(
        &self,
        view: &View<'_, '_>,
        target: &EntryRows,
        fate: Fate,
    ) -> Option<(usize, Change)> {
        let (ino, _) = fate.link()?;
        let (step, _) = view.votes.link(ino)?;
        let at = view.ctx.time;
        let change = match &target.value {
            EntryValue::File(inode) => {
                let mut inode: Inode = inode.clone();
                inode.attr.nlink = 0;
                inode.attr.ctime = at;
                Change::PutLink { inode, rows: target.inode.clone(), names: Vec::new() }
            }
            _ => Change::DropName { ino, dir: self.to, name: self.new_name.clone(), at },
        };
        Some((step, change))
    }
}

/// Checks write permission on a directory that changes its parent, since its `..` changes.
pub(super) fn check_moved(
    view: &View<'_, '_>,
    entry: &EntryRows,
    changes_parent: bool,
) -> Result<(), Errno> {
    match &entry.value {
        EntryValue::Dir(Access { mode, uid, gid, .. }) if changes_parent => {
            perm::check(FileKind::Directory, *mode, *uid, *gid, view.credentials, perm::W)
        }
        _ => Ok(()),
    }
}

/// What an entry becomes under its new name, and the changes at its link shard and its home.
pub(super) fn carry(
    view: &View<'_, '_>,
    (entry, fate): (&EntryRows, Fate),
    (from, name): (DirRef, &Name),
    (to, new_name): (DirRef, &Name),
) -> (EntryRows, Vec<(usize, Change)>) {
    let now = view.ctx.time;
    let mut entry = entry.clone();
    let mut changes = Vec::new();
    if let EntryValue::File(inode) = &mut entry.value {
        inode.attr.ctime = now;
        inode.attr.change += 1;
    }
    if let (Fate::Parks(ino), EntryValue::File(inode)) = (fate, &entry.value) {
        let names = vec![(to, new_name.clone())];
        let put = Change::PutLink { inode: inode.clone(), rows: entry.inode.clone(), names };
        let linked = EntryValue::Linked(ino, inode.attr.kind);
        changes.extend(view.votes.link(ino).map(|(step, _)| (step, put)));
        entry = EntryRows { value: linked, inode: InodeRows::default() };
    }
    if let Fate::Linked(ino) = fate
        && let Some((step, _)) = view.votes.link(ino)
    {
        // The new name comes first: an inode without names would be destroyed.
        let add = Change::AddName { ino, dir: to, name: new_name.clone(), at: now };
        let drop = Change::DropName { ino, dir: from, name: name.clone(), at: now };
        changes.extend([(step, add), (step, drop)]);
    }
    if let Some(dir) = dir_of(&entry)
        && let Some((step, ..)) = view.votes.home(dir)
    {
        let name = new_name.clone();
        changes.push((step, Change::SetParent { dir, parent: to, name, at: now }));
    }
    (entry, changes)
}

pub(super) fn dir_of(entry: &EntryRows) -> Option<DirRef> {
    match &entry.value {
        EntryValue::Dir(access) => Some(access.dir),
        _ => None,
    }
}

pub(super) fn fate(entry: &EntryRows, counts: impl Fn(SessionId) -> bool) -> Fate {
    match &entry.value {
        EntryValue::Linked(ino, _) => Fate::Linked(*ino),
        EntryValue::File(inode) if entry.inode.opens.iter().any(|(s, _)| counts(*s)) => {
            Fate::Parks(inode.attr.ino)
        }
        _ => Fate::Inline,
    }
}

fn fate_of_replaced(entry: &EntryRows) -> Fate {
    fate(entry, |_| true)
}

/// Asks for link inodes, by ino.
pub(super) fn ask_links(view: &View<'_, '_>, a: Fate, b: Fate) -> Option<Next> {
    let mut links: Vec<(Ino, bool)> = [a, b].into_iter().filter_map(Fate::link).collect();
    links.sort_unstable();
    links
        .into_iter()
        .find(|(ino, _)| view.votes.link(*ino).is_none())
        .map(|(ino, new)| if new { view.ask_new_link(ino) } else { view.ask_link(ino) })
}

pub(super) fn check_linked_sticky(
    view: &View<'_, '_>,
    fate: Fate,
    inherit: Inherit,
) -> Result<(), Errno> {
    match fate.link().and_then(|(ino, _)| view.votes.link(ino)) {
        Some((_, Some(attr))) => perm::check_sticky(&inherit, attr.into(), view.credentials),
        _ => Ok(()),
    }
}
