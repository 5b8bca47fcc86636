//! Operations on names. Those that return attributes count as one lookup of their node.

use pando_types::op::{NewNode, RenameFlags, SYMLINK_MAX};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Name};

use super::Vfs;

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

impl Vfs {
    /// What a name leads to.
    pub fn lookup(&self, by: &Credentials, parent: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.show(self.namespace.lookup(by, parent, &Name::new(name)?)?)
    }

    /// The same for who will not take a directory's attributes from it: a kernel that may not keep any asks for them
    /// when it needs them.
    pub fn lookup_brief(&self, by: &Credentials, parent: Ino, name: &[u8]) -> Result<Attr, Errno> {
        self.show(self.namespace.lookup_brief(by, parent, &Name::new(name)?)?)
    }

    /// Makes a file, pipe, socket or device.
    pub fn mknod(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attr, Errno> {
        let node = NewNode { kind, mode, rdev, symlink: Vec::new() };
        Ok(self.namespace.create(by, parent, &Name::new(name)?, node, true, false)?.0)
    }

    /// Makes a directory.
    pub fn mkdir(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &[u8],
        mode: u16,
    ) -> Result<Attr, Errno> {
        self.namespace.mkdir(by, parent, &Name::new(name)?, mode)
    }

    /// Makes a symbolic link.
    pub fn symlink(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attr, Errno> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            len if len > SYMLINK_MAX => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let (kind, symlink) = (FileKind::Symlink, target.to_vec());
        let node = NewNode { kind, mode: 0o777, rdev: 0, symlink };
        Ok(self.namespace.create(by, parent, &Name::new(name)?, node, true, false)?.0)
    }

    /// Target of a symbolic link.
    pub fn readlink(&self, by: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.namespace.readlink(by, ino)
    }

    /// Removes a name of a file.
    pub fn unlink(&self, by: &Credentials, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        self.namespace.unlink(by, parent, &Name::new(name)?)
    }

    /// Removes a directory.
    pub fn rmdir(&self, by: &Credentials, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        self.namespace.rmdir(by, parent, &Name::new(name)?)
    }

    /// A further name for a file.
    pub fn link(
        &self,
        by: &Credentials,
        ino: Ino,
        parent: Ino,
        name: &[u8],
    ) -> Result<Attr, Errno> {
        self.show(self.namespace.link(by, ino, parent, &Name::new(name)?)?)
    }

    /// Moves a name, with the flags of `renameat2`.
    pub fn rename(
        &self,
        by: &Credentials,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        let no_replace = flags & RENAME_NOREPLACE != 0;
        let exchange = flags & RENAME_EXCHANGE != 0;
        if flags & !(RENAME_NOREPLACE | RENAME_EXCHANGE) != 0 || (no_replace && exchange) {
            return Err(Errno::EINVAL);
        }
        let (name, new_name) = (Name::new(from.1)?, Name::new(to.1)?);
        let flags = RenameFlags { no_replace, exchange };
        self.namespace.rename(by, (from.0, &name), (to.0, &new_name), flags)
    }
}
