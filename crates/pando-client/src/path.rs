//! Calls by path, for programs that use the file system as a library.
//!
//! A path is walked as Linux walks it: component by component from the root, each with the caller's search permission,
//! through symlinks, and `..` is the directory's parent at that moment. Nothing is remembered between calls, so nothing
//! needs to be forgotten; only what [`Paths::resolve`] and [`Paths::open`] return is.

mod dir;
mod walk;

use pando_types::op::{AccessMask, NewNode, RenameFlags};
use pando_types::reply::Found;
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino};

use crate::client::Client;
use crate::listing::{DirEntry, plain};
use crate::nodes::Spot;
use walk::{Here, Last, Walk};

pub use dir::Dir;

/// Entries asked for at once.
const PAGE: u32 = 1024;

/// The tree as one user sees it. Every path begins at the root, with a slash or without.
pub struct Paths<'a> {
    client: &'a Client,
    by: Credentials,
}

impl<'a> Paths<'a> {
    /// The tree as `by` sees it.
    #[must_use]
    pub const fn new(client: &'a Client, by: Credentials) -> Self {
        Self { client, by }
    }

    const fn walk(&self) -> Walk<'_> {
        Walk::new(self.client, &self.by)
    }

    /// Directory and name of a path whose last component is about to be made, removed or moved; `at_dir` if it ends in
    /// the root, `.` or `..`.
    async fn last(&self, path: &[u8], at_dir: Errno) -> Result<(DirRef, Last), Errno> {
        self.walk().last_of(path).await?.ok_or(at_dir)
    }

    /// The inode of a path, through symlinks. One more lookup: see [`Client::forget`].
    pub async fn resolve(&self, path: &[u8]) -> Result<Ino, Errno> {
        let asked = self.client.nodes.stamp();
        let (ino, spot) = match self.walk().end_of(path, true).await? {
            Here::Dir(dir) => (dir.ino, Spot::Dir(dir)),
            Here::File(file, _) => (file.ino, Spot::File(file.at)),
        };
        self.client.nodes.look_up(ino, spot, asked);
        Ok(ino)
    }

    /// Attributes, through symlinks.
    pub async fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, true).await
    }

    /// Attributes of what the path itself names.
    pub async fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, false).await
    }

    async fn attributes(&self, path: &[u8], follow: bool) -> Result<Attr, Errno> {
        match self.walk().end_of(path, follow).await? {
            Here::Dir(dir) => self.client.stat_dir(dir).await,
            Here::File(_, attr) => Ok(attr),
        }
    }

    /// Makes a regular file; whether it is new. Without `exclusive` an existing one is taken as it is, through symlinks.
    pub async fn create(
        &self,
        path: &[u8],
        mode: u16,
        exclusive: bool,
    ) -> Result<(Attr, bool), Errno> {
        let mut walk = self.walk();
        let mut next = walk.last_of(path).await?;
        loop {
            let if_dir = if exclusive { Errno::EEXIST } else { Errno::EISDIR };
            let (dir, last) = next.ok_or(if_dir)?;
            let name = last.file(Errno::EISDIR)?;
            let node = NewNode { kind: FileKind::Regular, mode, rdev: 0, symlink: Vec::new() };
            let (entry, is_new, _) =
                self.client.create_at(&self.by, dir, &name, node, exclusive, false).await?;
            let Spot::File(at) = entry.spot else { return Err(Errno::EIO) };
            if is_new || entry.attr.kind != FileKind::Symlink {
                return Ok((entry.attr, is_new));
            }
            next = walk.through(dir, entry.attr.ino, at).await?;
        }
    }

    /// Makes a directory.
    pub async fn mkdir(&self, path: &[u8], mode: u16) -> Result<Attr, Errno> {
        let (dir, last) = self.last(path, Errno::EEXIST).await?;
        let (_, attr) = self.client.mkdir_at(&self.by, dir, &last.name, mode).await?;
        Ok(attr)
    }

    /// Makes a symlink at `path`.
    pub async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<Attr, Errno> {
        let (dir, last) = self.last(path, Errno::EEXIST).await?;
        let name = last.file(Errno::ENOENT)?;
        let node =
            NewNode { kind: FileKind::Symlink, mode: 0o777, rdev: 0, symlink: target.to_vec() };
        let made = self.client.create_at(&self.by, dir, &name, node, true, false).await?;
        Ok(made.0.attr)
    }

    /// Target of a symlink.
    pub async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        match self.walk().end_of(path, false).await? {
            Here::File(file, attr) if attr.kind == FileKind::Symlink => {
                self.client.readlink_at(&self.by, file).await
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// A further name for a file; a symlink is not followed.
    pub async fn link(&self, existing: &[u8], path: &[u8]) -> Result<Attr, Errno> {
        let Here::File(file, _) = self.walk().end_of(existing, false).await? else {
            return Err(Errno::EPERM);
        };
        let (dir, last) = self.last(path, Errno::EEXIST).await?;
        let name = last.file(Errno::ENOENT)?;
        self.client.link_at(&self.by, file, dir, &name).await
    }

    /// Removes a name of a file.
    pub async fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        let (dir, last) = self.last(path, Errno::EISDIR).await?;
        let name = last.file(Errno::ENOTDIR)?;
        self.client.unlink_at(&self.by, dir, &name).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        let (dir, last) = self.last(path, Errno::EBUSY).await?;
        self.client.rmdir_at(&self.by, dir, &last.name).await
    }

    /// Moves a name.
    pub async fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<(), Errno> {
        let (dir, last) = self.last(from, Errno::EBUSY).await?;
        let (new_dir, new_last) = self.last(to, Errno::EBUSY).await?;
        if last.is_dir || new_last.is_dir {
            let moved = self.client.found(&self.by, dir, &last.name).await?;
            if !matches!(moved, Found::Dir(_)) {
                return Err(Errno::ENOTDIR);
            }
        }
        let (from, to) = ((dir, &last.name), (new_dir, &new_last.name));
        self.client.rename_at(&self.by, from, to, flags).await
    }

    /// All entries of a directory, in the order of their positions.
    pub async fn readdir(&self, path: &[u8]) -> Result<Vec<DirEntry>, Errno> {
        let Here::Dir(dir) = self.walk().end_of(path, true).await? else {
            return Err(Errno::ENOTDIR);
        };
        self.client.entries(&self.by, dir).await
    }

    /// Opens a file, through symlinks; its inode can be spoken of until [`Client::release`].
    pub async fn open(
        &self,
        path: &[u8],
        access: AccessMask,
        truncate: bool,
    ) -> Result<Attr, Errno> {
        match self.walk().end_of(path, true).await? {
            Here::File(file, _) => self.client.open_at(&self.by, file, access, truncate).await,
            Here::Dir(_) => Err(Errno::EISDIR),
        }
    }
}

impl Client {
    /// All entries of a directory, in the order of their positions.
    async fn entries(&self, by: &Credentials, dir: DirRef) -> Result<Vec<DirEntry>, Errno> {
        let mut entries: Vec<DirEntry> = Vec::new();
        loop {
            let position = entries.last().map_or(0, |entry| entry.position);
            let page = self.page(by, dir, position, PAGE).await?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page.iter().map(plain));
        }
    }
}
