//! Operations by path: which directories they mean.

use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use crate::{Call, Op, Tree};

impl Tree {
    /// The same call, by number. Symlinks are thought to lead nowhere.
    pub fn resolved(&self, call: &Call) -> Result<Call, Errno> {
        let Op::ByPath { way, to_way, op } = &call.op else { return Ok(call.clone()) };
        let by = &call.credentials;
        let at = self.walk(by, way)?;
        let mut op = (**op).clone();
        match &mut op {
            Op::Lookup(dir, _)
            | Op::Create { dir, .. }
            | Op::Mkdir(dir, ..)
            | Op::Unlink(dir, _)
            | Op::Rmdir(dir, _)
            | Op::ReadDir(dir) => *dir = at,
            Op::Rename { from, to, .. } => (*from, *to) = (at, self.walk(by, to_way)?),
            _ => return Err(Errno::EINVAL),
        }
        Ok(Call { op, ..call.clone() })
    }

    pub(crate) fn walk(&self, by: &Credentials, way: &[Name]) -> Result<Ino, Errno> {
        way.iter().try_fold(Ino::ROOT, |dir, name| {
            let ino = self.search(by, dir, name)?.ok_or(Errno::ENOENT)?;
            match self.node(ino)?.kind {
                FileKind::Directory => Ok(ino),
                FileKind::Symlink => Err(Errno::ENOENT),
                _ => Err(Errno::ENOTDIR),
            }
        })
    }
}
