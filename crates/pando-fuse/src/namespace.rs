//! What the adaptor asks of the client, blocking. Tests have a small model of it.

use pando_client::{Client, DirEntry, block_on};
use pando_data::Metadata;
use pando_types::op::{AccessMask, NewNode, RenameFlags, XattrMode};
use pando_types::{Attr, Credentials, Errno, Ino, Name};

/// Names, permissions and attributes. Calls block the calling thread; any thread may call. What each does is said at the
/// client's method of the same name.
#[expect(missing_docs, reason = "each is the client's method of the same name")]
pub trait Namespace: Metadata {
    fn lookup(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<Attr, Errno>;
    fn lookup_brief(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        self.lookup(by, parent, name)
    }
    fn forget(&self, ino: Ino, count: u64);
    fn access(&self, by: &Credentials, ino: Ino, mask: AccessMask) -> Result<(), Errno>;
    fn create(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &Name,
        node: NewNode,
        exclusive: bool,
        open: bool,
    ) -> Result<(Attr, bool), Errno>;
    fn mkdir(&self, by: &Credentials, parent: Ino, name: &Name, mode: u16) -> Result<Attr, Errno>;
    fn unlink(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno>;
    fn rmdir(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno>;
    fn link(&self, by: &Credentials, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Errno>;
    fn rename(
        &self,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        flags: RenameFlags,
    ) -> Result<(), Errno>;
    fn readlink(&self, by: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno>;
    fn open(
        &self,
        by: &Credentials,
        ino: Ino,
        access: AccessMask,
        truncate: bool,
    ) -> Result<Attr, Errno>;
    fn release(&self, ino: Ino) -> Result<(), Errno>;
    fn opendir(&self, by: &Credentials, ino: Ino) -> Result<(), Errno>;
    fn readdir(
        &self,
        by: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
        plus: bool,
    ) -> Result<Vec<DirEntry>, Errno>;
    fn parent(&self, ino: Ino) -> Result<Ino, Errno>;
    fn getxattr(&self, by: &Credentials, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno>;
    fn listxattr(&self, by: &Credentials, ino: Ino) -> Result<Vec<Vec<u8>>, Errno>;
    fn setxattr(
        &self,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno>;
    fn removexattr(&self, by: &Credentials, ino: Ino, name: &[u8]) -> Result<(), Errno>;
    fn statfs(&self) -> Result<(u64, u64), Errno>;
}

impl Namespace for Client {
    fn lookup(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        block_on(self.lookup(by, parent, name))
    }

    fn lookup_brief(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        block_on(self.lookup_brief(by, parent, name))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.forget(ino, count);
    }

    fn access(&self, by: &Credentials, ino: Ino, mask: AccessMask) -> Result<(), Errno> {
        block_on(self.access(by, ino, mask))
    }

    fn create(
        &self,
        by: &Credentials,
        parent: Ino,
        name: &Name,
        node: NewNode,
        exclusive: bool,
        open: bool,
    ) -> Result<(Attr, bool), Errno> {
        block_on(self.create(by, parent, name, node, exclusive, open))
    }

    fn mkdir(&self, by: &Credentials, parent: Ino, name: &Name, mode: u16) -> Result<Attr, Errno> {
        block_on(self.mkdir(by, parent, name, mode))
    }

    fn unlink(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno> {
        block_on(self.unlink(by, parent, name))
    }

    fn rmdir(&self, by: &Credentials, parent: Ino, name: &Name) -> Result<(), Errno> {
        block_on(self.rmdir(by, parent, name))
    }

    fn link(&self, by: &Credentials, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Errno> {
        block_on(self.link(by, ino, parent, name))
    }

    fn rename(
        &self,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        block_on(self.rename(by, from.0, from.1, to.0, to.1, flags))
    }

    fn readlink(&self, by: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        block_on(self.readlink(by, ino))
    }

    fn open(
        &self,
        by: &Credentials,
        ino: Ino,
        access: AccessMask,
        truncate: bool,
    ) -> Result<Attr, Errno> {
        block_on(self.open(by, ino, access, truncate))
    }

    fn release(&self, ino: Ino) -> Result<(), Errno> {
        block_on(self.release(ino))
    }

    fn opendir(&self, by: &Credentials, ino: Ino) -> Result<(), Errno> {
        block_on(self.opendir(by, ino))
    }

    fn readdir(
        &self,
        by: &Credentials,
        ino: Ino,
        position: u64,
        limit: u32,
        plus: bool,
    ) -> Result<Vec<DirEntry>, Errno> {
        block_on(self.readdir(by, ino, position, limit, plus))
    }

    fn parent(&self, ino: Ino) -> Result<Ino, Errno> {
        block_on(self.parent(ino))
    }

    fn getxattr(&self, by: &Credentials, ino: Ino, name: &[u8]) -> Result<Vec<u8>, Errno> {
        block_on(self.getxattr(by, ino, name))
    }

    fn listxattr(&self, by: &Credentials, ino: Ino) -> Result<Vec<Vec<u8>>, Errno> {
        block_on(self.listxattr(by, ino))
    }

    fn setxattr(
        &self,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        block_on(self.setxattr(by, ino, name, value, mode))
    }

    fn removexattr(&self, by: &Credentials, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        block_on(self.removexattr(by, ino, name))
    }

    fn statfs(&self) -> Result<(u64, u64), Errno> {
        block_on(self.statfs())
    }
}
