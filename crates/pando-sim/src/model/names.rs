//! Operations on names. The order of the checks is that of `fs/namei.c` in Linux.

use pando_types::op::{LINK_MAX, SYMLINK_MAX};
use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use crate::model::permission::{self, READ, SEARCH, WRITE, inherit};
use crate::model::{Call, Node, Op, Outcome, Tree, Value};

impl Tree {
    /// Finds the entry of `name`, after checking that `by` may search the directory.
    pub(crate) fn search(
        &self,
        credentials: &Credentials,
        dir: Ino,
        name: &Name,
    ) -> Result<Option<Ino>, Errno> {
        let node = self.dir(dir)?;
        permission::check(node, credentials, SEARCH)?;
        Ok(node.entries.get(name).map(|(ino, _)| *ino))
    }

    pub(crate) fn lookup(&self, credentials: &Credentials, dir: Ino, name: &Name) -> Outcome {
        let ino = self.search(credentials, dir, name)?.ok_or(Errno::ENOENT)?;
        Ok(Value::Stat(self.stat(ino)?))
    }

    pub(crate) fn create(&mut self, call: &Call, new: Ino) -> Outcome {
        let Op::Create { dir, name, kind, mode, symlink, exclusive, open } = &call.op else {
            return Err(Errno::EINVAL);
        };
        let credentials = &call.credentials;
        let valid = (*kind == FileKind::Symlink) != symlink.is_empty();
        if *kind == FileKind::Directory || !valid {
            return Err(Errno::EINVAL);
        }
        if symlink.len() > SYMLINK_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if let Some(ino) = self.search(credentials, *dir, name)? {
            if *exclusive {
                return Err(Errno::EEXIST);
            }
            if self.node(ino)?.is_dir() {
                return Err(Errno::EISDIR);
            }
            if *open {
                self.hold(call.who, ino);
            }
            return Ok(Value::Created(self.stat(ino)?, false));
        }
        let parent = self.dir(*dir)?;
        permission::check(parent, credentials, WRITE | SEARCH)?;
        let (mode, gid) = inherit(parent, *kind, mode & 0o7777, credentials);
        let mode = if *kind == FileKind::Symlink { 0o777 } else { mode };
        let mut node = Node::new(*kind, mode, credentials.uid, gid, new);
        node.nlink = 1;
        node.data.clone_from(symlink);
        self.put(new, node);
        self.bind(*dir, name, new);
        if *open {
            self.hold(call.who, new);
        }
        Ok(Value::Created(self.stat(new)?, true))
    }

    pub(crate) fn mkdir(
        &mut self,
        credentials: &Credentials,
        dir: Ino,
        name: &Name,
        mode: u16,
        new: Ino,
    ) -> Outcome {
        if self.search(credentials, dir, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        let parent = self.dir(dir)?;
        permission::check(parent, credentials, WRITE | SEARCH)?;
        let (mode, gid) = inherit(parent, FileKind::Directory, mode & 0o1777, credentials);
        self.put(new, Node::new(FileKind::Directory, mode, credentials.uid, gid, dir));
        self.bind(dir, name, new);
        Ok(Value::Stat(self.stat(new)?))
    }

    pub(crate) fn unlink(&mut self, credentials: &Credentials, dir: Ino, name: &Name) -> Outcome {
        let ino = self.search(credentials, dir, name)?.ok_or(Errno::ENOENT)?;
        let victim = self.node(ino)?;
        permission::check_delete(self.dir(dir)?, victim, credentials)?;
        if victim.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.unbind(dir, name);
        self.drop_name(ino);
        Ok(Value::Done)
    }

    pub(crate) fn rmdir(&mut self, credentials: &Credentials, dir: Ino, name: &Name) -> Outcome {
        let ino = self.search(credentials, dir, name)?.ok_or(Errno::ENOENT)?;
        let victim = self.node(ino)?;
        permission::check_delete(self.dir(dir)?, victim, credentials)?;
        if !victim.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if !victim.entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.unbind(dir, name);
        self.forget(ino);
        Ok(Value::Done)
    }

    pub(crate) fn link(
        &mut self,
        credentials: &Credentials,
        ino: Ino,
        dir: Ino,
        name: &Name,
    ) -> Outcome {
        let node = self.node(ino)?;
        if self.search(credentials, dir, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        permission::check(self.dir(dir)?, credentials, WRITE | SEARCH)?;
        if node.is_dir() {
            return Err(Errno::EPERM);
        }
        if node.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if node.nlink >= LINK_MAX {
            return Err(Errno::EMLINK);
        }
        permission::check_link(node, credentials)?;
        self.edit(ino, |node| node.nlink += 1);
        self.bind(dir, name, ino);
        Ok(Value::Stat(self.stat(ino)?))
    }

    pub(crate) fn read_dir(&self, credentials: &Credentials, dir: Ino) -> Outcome {
        let node = self.dir(dir)?;
        permission::check(node, credentials, READ)?;
        Ok(Value::Entries(node.entries.clone()))
    }

    /// Makes `name` lead to `ino`. The caller counts the names of `ino`.
    pub(crate) fn bind(&mut self, dir: Ino, name: &Name, ino: Ino) {
        let kind = self.node(ino).map_or(FileKind::Regular, |node| node.kind);
        self.edit(dir, |node| {
            node.entries.insert(name.clone(), (ino, kind));
            node.nlink += u32::from(kind == FileKind::Directory);
        });
        if kind == FileKind::Directory {
            self.edit(ino, |node| node.parent = dir);
        }
    }

    pub(crate) fn unbind(&mut self, dir: Ino, name: &Name) {
        self.edit(dir, |node| {
            if let Some((_, FileKind::Directory)) = node.entries.remove(name) {
                node.nlink -= 1;
            }
        });
    }

    pub(crate) fn drop_name(&mut self, ino: Ino) {
        self.edit(ino, |node| node.nlink -= 1);
        self.reap(ino);
    }
}
