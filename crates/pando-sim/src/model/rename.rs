//! `renameat2`, in the order of `do_renameat2` and `vfs_rename` of Linux.

use pando_types::op::RenameFlags;
use pando_types::{Credentials, Errno, Ino, Name};

use crate::model::permission::{self, SEARCH, WRITE};
use crate::model::{Outcome, Tree, Value};

impl Tree {
    pub(crate) fn rename(
        &mut self,
        credentials: &Credentials,
        old: (Ino, &Name),
        new: (Ino, &Name),
        flags: RenameFlags,
    ) -> Outcome {
        if flags.no_replace && flags.exchange {
            return Err(Errno::EINVAL);
        }
        let source = self.search(credentials, old.0, old.1)?;
        let target = self.search(credentials, new.0, new.1)?;
        let source = source.ok_or(Errno::ENOENT)?;
        if flags.no_replace && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if flags.exchange && target.is_none() {
            return Err(Errno::ENOENT);
        }
        if old.0 != new.0 {
            if self.is_within(new.0, source) {
                return Err(Errno::EINVAL);
            }
            if target.is_some_and(|target| self.is_within(old.0, target)) {
                return Err(if flags.exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
            }
        }
        if target == Some(source) {
            return Ok(Value::Done);
        }
        self.check_rename(credentials, old.0, new.0, source, target, flags.exchange)?;
        self.unbind(old.0, old.1);
        if let Some(target) = target {
            self.unbind(new.0, new.1);
            if flags.exchange {
                self.bind(old.0, old.1, target);
                self.edit(target, |node| node.is_moved = true);
            } else if self.node(target)?.is_dir() {
                self.forget(target);
            } else {
                self.drop_name(target);
            }
        }
        self.bind(new.0, new.1, source);
        self.edit(source, |node| node.is_moved = true);
        Ok(Value::Done)
    }

    fn check_rename(
        &self,
        credentials: &Credentials,
        old: Ino,
        new: Ino,
        source: Ino,
        target: Option<Ino>,
        exchange: bool,
    ) -> Result<(), Errno> {
        let moved = self.node(source)?;
        permission::check_delete(self.dir(old)?, moved, credentials)?;
        let Some(target) = target else {
            permission::check(self.dir(new)?, credentials, WRITE | SEARCH)?;
            return self.check_flip(credentials, old, new, source);
        };
        let replaced = self.node(target)?;
        permission::check_delete(self.dir(new)?, replaced, credentials)?;
        if exchange {
            self.check_flip(credentials, old, new, source)?;
            return self.check_flip(credentials, old, new, target);
        }
        match (moved.is_dir(), replaced.is_dir()) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => self.check_flip(credentials, old, new, source)?,
        }
        if replaced.entries.is_empty() { Ok(()) } else { Err(Errno::ENOTEMPTY) }
    }

    /// A directory that changes its parent must be writable, since its `..` changes.
    fn check_flip(
        &self,
        credentials: &Credentials,
        old: Ino,
        new: Ino,
        moved: Ino,
    ) -> Result<(), Errno> {
        let node = self.node(moved)?;
        if old != new && node.is_dir() {
            permission::check(node, credentials, WRITE)
        } else {
            Ok(())
        }
    }
}
