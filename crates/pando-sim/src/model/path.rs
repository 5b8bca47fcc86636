//! Operations by path: which directories they mean.

use pando_types::{Credentials, Errno, FileKind, Ino, Name};

use crate::model::{Call, Op, Tree};

impl Op {
    /// This operation on names, in the directories `at` of the (old) name and `new` of a rename's
    /// new name.
    #[must_use]
    pub fn in_dirs(&self, at: Ino, new: Ino) -> Self {
        let mut op = self.clone();
        match &mut op {
            Self::Lookup(dir, _)
            | Self::Create { dir, .. }
            | Self::Mkdir(dir, ..)
            | Self::Unlink(dir, _)
            | Self::Rmdir(dir, _)
            | Self::ReadDir(dir)
            | Self::SetAttr(dir, _) => *dir = at,
            Self::Rename { from, to, .. } => (*from, *to) = (at, new),
            _ => {}
        }
        op
    }
}

impl Tree {
    /// The call with its path resolved to inos. A symlink in the path counts as a missing name.
    pub fn resolved(&self, call: &Call) -> Result<Call, Errno> {
        let Op::ByPath { path, to_path, op } = &call.op else { return Ok(call.clone()) };
        let credentials = &call.credentials;
        let at = self.walk(credentials, path)?;
        let to = match **op {
            Op::Rename { .. } => self.walk(credentials, to_path)?,
            _ => at,
        };
        Ok(Call { op: op.in_dirs(at, to), ..call.clone() })
    }

    pub(crate) fn walk(&self, credentials: &Credentials, path: &[Name]) -> Result<Ino, Errno> {
        path.iter().try_fold(Ino::ROOT, |dir, name| {
            let ino = self.search(credentials, dir, name)?.ok_or(Errno::ENOENT)?;
            match self.node(ino)?.kind {
                FileKind::Directory => Ok(ino),
                FileKind::Symlink => Err(Errno::ENOENT),
                _ => Err(Errno::ENOTDIR),
            }
        })
    }
}
