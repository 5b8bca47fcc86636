//! A directory held for many calls in it. Each call names one entry, and costs no walk.
//!
//! It is to paths what `openat`, `fstatat` and `unlinkat` are. The path to the directory was
//! walked, and its search permissions checked, once. Every call checks the directory's own
//! permissions. It stays the same directory wherever it is moved. Nothing of its contents is
//! remembered.

use pando_types::op::{NewNode, Op};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name};

use crate::calls::names::Entry;
use crate::client::Client;
use crate::listing::page::DirEntry;
use crate::path::paths::Paths;
use crate::path::tries::walked;
use crate::path::walk::{AtLink, Here};

/// A directory as one user sees it. Calls fail with `ESTALE` or `ENOENT` once it is removed.
pub struct Dir<'a> {
    client: &'a Client,
    credentials: Credentials,
    at: DirRef,
}

impl<'a> Paths<'a> {
    /// The directory at `path`, through symlinks; `ENOTDIR` if it is something else.
    pub async fn dir(&self, path: &[u8]) -> Result<Dir<'a>, Errno> {
        walked!(self, walk => {
            let Here::Dir(at) = walk.end_of(path, AtLink::Follow).await? else {
                return Err(Errno::ENOTDIR);
            };
            walk.make_sure(at).await?;
            Ok(Dir { client: self.client, credentials: self.credentials.clone(), at })
        })
    }
}

impl Dir<'_> {
    /// The directory's ino.
    #[must_use]
    pub const fn ino(&self) -> Ino {
        self.at.ino
    }

    /// Attributes of what `name` itself leads to. One message for a file with one name, more for
    /// others.
    pub async fn stat(&self, name: &Name) -> Result<Attr, Errno> {
        let Entry { attr, .. } = self.client.entry(&self.credentials, self.at.into(), name).await?;
        Ok(attr)
    }

    /// Makes a regular file; `EEXIST` if the name is taken. One message.
    pub async fn create(&self, name: &Name, mode: u16) -> Result<Attr, Errno> {
        let node = NewNode { kind: FileKind::Regular, mode, rdev: 0, symlink: Vec::new() };
        let (dir, name) = (self.at, name.clone());
        let op = Op::Create { dir, name, node, exclusive: true, open: false };
        let (entry, ..) = self.client.create_by(&self.credentials, &op, None).await?;
        Ok(entry.attr)
    }

    /// Removes a name of a file. One message.
    pub async fn unlink(&self, name: &Name) -> Result<(), Errno> {
        self.client.unlink_at(&self.credentials, self.at.into(), name).await
    }

    /// All entries, in the order of their positions.
    pub async fn readdir(&self) -> Result<Vec<DirEntry>, Errno> {
        self.client.entries(&self.credentials, self.at.into()).await
    }
}
