//! All errnos that an operation on two places deserves.
//!
//! Linux checks one after the other, and [`Tree::apply`] answers with the first that fails. POSIX
//! prescribes no order. A system with the two places on several machines may find another one
//! first.

use pando_types::{Credentials, Errno, Ino, Name};

use crate::model::permission::{self, SEARCH, WRITE};
use crate::model::{Call, Op, Tree};

impl Tree {
    /// Every errno that a `rename` or `link` deserves. For an `rmdir` of a file: `ENOTDIR`. For
    /// other operations: none.
    #[must_use]
    pub fn objections(&self, call: &Call) -> Vec<Errno> {
        let credentials = &call.credentials;
        match &call.op {
            Op::Link(ino, dir, name) => {
                let found = self.search(credentials, *dir, name);
                let taken = matches!(found, Ok(Some(_))).then_some(Errno::EEXIST);
                let file = match self.node(*ino) {
                    Err(errno) => Some(errno),
                    Ok(node) if node.is_dir() => Some(Errno::EPERM),
                    Ok(node) => (node.nlink == 0).then_some(Errno::ENOENT),
                };
                let write = self.check_write(credentials, *dir);
                let foreign = self
                    .node(*ino)
                    .ok()
                    .and_then(|node| permission::check_link(node, credentials).err());
                // A file without names may also be gone: only a session that has it open can tell.
                let nameless = (file == Some(Errno::ENOENT)).then_some(Errno::ESTALE);
                let all = [found.err(), taken, file, nameless, write, foreign];
                all.into_iter().flatten().collect()
            }
            Op::Rename { from, name, to, new_name, flags } => {
                let (old, new) = (
                    self.search(credentials, *from, name),
                    self.search(credentials, *to, new_name),
                );
                let mut all = vec![old.err(), new.err()];
                let (source, target) = (old.ok().flatten(), new.ok().flatten());
                all.push((old == Ok(None)).then_some(Errno::ENOENT));
                all.push((flags.exchange && new == Ok(None)).then_some(Errno::ENOENT));
                all.push((flags.no_replace && target.is_some()).then_some(Errno::EEXIST));
                all.push(self.check_write(credentials, *from));
                all.push(self.check_write(credentials, *to));
                // In an exchange, a directory that comes from `to` changes its parent, too.
                let back = target.filter(|_| flags.exchange && from != to);
                let back = back.and_then(|ino| self.node(ino).ok()).filter(|node| node.is_dir());
                all.push(back.and_then(|node| permission::check(node, credentials, WRITE).err()));
                all.extend(self.about_places(credentials, (*from, source), (*to, target)));
                all.into_iter().flatten().collect()
            }
            // The sticky bit is checked against the owner of the directory to remove. The owner may
            // be recorded on another shard than the entry.
            Op::Rmdir(dir, name) => {
                let found = self.search(credentials, *dir, name).ok().flatten();
                let file = found.and_then(|ino| self.node(ino).ok()).is_some_and(|n| !n.is_dir());
                file.then_some(Errno::ENOTDIR).into_iter().collect()
            }
            // One of the two directories may be removed while another reason is found in the other.
            // Only the shards of a removed directory know that it is.
            Op::ByPath { path, to_path, op } => match &**op {
                Op::Rename { name, new_name, .. } => {
                    let mut all = self.about_path(credentials, path, name);
                    all.extend(self.about_path(credentials, to_path, new_name));
                    all
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn about_path(&self, credentials: &Credentials, path: &[Name], name: &Name) -> Vec<Errno> {
        match self.walk(credentials, path) {
            Err(errno) => vec![errno],
            Ok(dir) => {
                let found = self.search(credentials, dir, name);
                let absent = (found == Ok(None)).then_some(Errno::ENOENT);
                [found.err(), absent, self.check_write(credentials, dir)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        }
    }

    fn about_places(
        &self,
        credentials: &Credentials,
        (from, source): (Ino, Option<Ino>),
        (to, target): (Ino, Option<Ino>),
    ) -> Vec<Option<Errno>> {
        let mut all = Vec::new();
        let moved = source.and_then(|ino| self.node(ino).ok());
        let replaced = target.and_then(|ino| self.node(ino).ok());
        if let (Some(node), Ok(dir)) = (moved, self.dir(from)) {
            all.push(permission::check_delete(dir, node, credentials).err());
            if from != to && node.is_dir() {
                all.push(permission::check(node, credentials, WRITE).err());
            }
        }
        if let (Some(node), Ok(dir)) = (replaced, self.dir(to)) {
            all.push(permission::check_delete(dir, node, credentials).err());
            all.push((!node.entries.is_empty()).then_some(Errno::ENOTEMPTY));
        }
        if let (Some(moved), Some(replaced)) = (moved, replaced) {
            all.push((moved.is_dir() && !replaced.is_dir()).then_some(Errno::ENOTDIR));
            all.push((!moved.is_dir() && replaced.is_dir()).then_some(Errno::EISDIR));
        }
        let within = source.is_some_and(|ino| from != to && self.is_within(to, ino));
        all.push(within.then_some(Errno::EINVAL));
        all
    }

    fn check_write(&self, credentials: &Credentials, dir: Ino) -> Option<Errno> {
        permission::check(self.dir(dir).ok()?, credentials, WRITE | SEARCH).err()
    }
}
