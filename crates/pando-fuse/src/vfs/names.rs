//! Operations on names. A method that returns attributes counts as one lookup of their node.

use pando_client::{IfThere, Then};
use pando_types::op::{NewNode, RenameFlags, SYMLINK_MAX};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Name};

use crate::vfs::file_system::Vfs;

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;

impl Vfs {
    /// Looks up a name.
    pub async fn lookup(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        self.show(self.namespace.lookup(credentials, parent, name).await?)
    }

    /// Makes a file, pipe, socket or device.
    pub async fn mknod(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        kind: FileKind,
        mode: u16,
        rdev: u32,
    ) -> Result<Attr, Errno> {
        let node = NewNode { kind, mode, rdev, symlink: Vec::new() };
        Ok(self
            .namespace
            .create(credentials, parent, name, node, IfThere::Refuse, Then::Nothing)
            .await?
            .0)
    }

    /// Makes a directory.
    pub async fn mkdir(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        mode: u16,
    ) -> Result<Attr, Errno> {
        self.namespace.mkdir(credentials, parent, name, mode).await
    }

    /// Makes a symbolic link.
    pub async fn symlink(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        target: &[u8],
    ) -> Result<Attr, Errno> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            len if len > SYMLINK_MAX => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let (kind, symlink) = (FileKind::Symlink, target.to_vec());
        let node = NewNode { kind, mode: 0o777, rdev: 0, symlink };
        Ok(self
            .namespace
            .create(credentials, parent, name, node, IfThere::Refuse, Then::Nothing)
            .await?
            .0)
    }

    /// Reads the target of a symbolic link.
    pub async fn readlink(&self, credentials: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        self.namespace.readlink(credentials, ino).await
    }

    /// Removes a name of a file.
    pub async fn unlink(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.namespace.unlink(credentials, parent, name).await
    }

    /// Removes a directory.
    pub async fn rmdir(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.namespace.rmdir(credentials, parent, name).await
    }

    /// Makes a further name for a file.
    pub async fn link(
        &self,
        credentials: &Credentials,
        ino: Ino,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        self.show(self.namespace.link(credentials, ino, parent, name).await?)
    }

    /// Renames, with the flags of `renameat2`.
    pub async fn rename(
        &self,
        credentials: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        flags: u32,
    ) -> Result<(), Errno> {
        let no_replace = flags & RENAME_NOREPLACE != 0;
        let exchange = flags & RENAME_EXCHANGE != 0;
        if flags & !(RENAME_NOREPLACE | RENAME_EXCHANGE) != 0 || (no_replace && exchange) {
            return Err(Errno::EINVAL);
        }
        let flags = RenameFlags { no_replace, exchange };
        self.namespace.rename(credentials, from, to, flags).await
    }
}
