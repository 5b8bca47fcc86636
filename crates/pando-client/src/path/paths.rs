//! The calls by path.

use std::sync::atomic::{AtomicBool, Ordering};

use pando_types::op::{AccessMask, FileRef, NewNode, Op, RenameFlags};
use pando_types::reply::{Body, Found};
use pando_types::{Attr, Credentials, Errno, FileKind, Ino, SetAttr};

use crate::cache::on_path::At;
use crate::calls::files::Content;
use crate::calls::make::IfThere;
use crate::client::Client;
use crate::listing::page::{DirEntry, plain};
use crate::nodes::table::Spot;
use crate::path::open::Opened;
use crate::path::tries::walked;
use crate::path::walk::{AtLink, Here, Last};
use crate::request::outcome::{stale, take};

const READ: AccessMask = 4;
/// Entries asked for at once.
const PAGE: u32 = 1024;

/// The tree as one user sees it. Every path begins at the root, with a slash or without.
pub struct Paths<'a> {
    pub(super) client: &'a Client,
    pub(super) credentials: Credentials,
    pub(super) is_loose: AtomicBool,
}

impl<'a> Paths<'a> {
    /// The tree as `by` sees it.
    #[must_use]
    pub const fn new(client: &'a Client, credentials: Credentials) -> Self {
        Self { client, credentials, is_loose: AtomicBool::new(false) }
    }

    /// Whether the last call ended in a walk without a trail, after many refusals. Then each
    /// component existed at some moment of the call, but perhaps not all at one.
    #[must_use]
    pub fn was_loose(&self) -> bool {
        self.is_loose.load(Ordering::Relaxed)
    }

    /// The inode of a path, through symlinks. Counts as one more lookup, for [`Client::forget`].
    pub async fn resolve(&self, path: &[u8]) -> Result<Ino, Errno> {
        walked!(self, walk => {
            let asked = self.client.nodes.stamp();
            let (ino, spot) = match walk.end_of(path, AtLink::Follow).await? {
                Here::Dir(dir) => {
                    walk.make_sure(dir).await?;
                    (dir.ino, Spot::Dir(dir))
                }
                Here::File(file, _) => (file.ino, Spot::File(file.at)),
            };
            self.client.nodes.look_up(ino, spot, asked);
            Ok(ino)
        })
    }

    /// Attributes of a path, through symlinks.
    pub async fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, AtLink::Follow).await
    }

    /// Attributes of what the path itself names.
    pub async fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, AtLink::Stop).await
    }

    async fn attributes(&self, path: &[u8], at_link: AtLink) -> Result<Attr, Errno> {
        walked!(self, walk => match walk.end_of(path, at_link).await? {
            Here::Dir(dir) => {
                let on = walk.on();
                self.client.stat_dir(At { dir, on: on.as_ref() }).await
            }
            Here::File(_, attr) => Ok(attr),
        })
    }

    /// Makes a regular file. Returns also whether it is new. It takes an existing file through
    /// symlinks.
    pub async fn create(
        &self,
        path: &[u8],
        mode: u16,
        if_there: IfThere,
    ) -> Result<(Attr, bool), Errno> {
        walked!(self, walk => {
            let mut next = walk.last_of(path).await?;
            loop {
                let exclusive = if_there == IfThere::Refuse;
                let if_dir = if exclusive { Errno::EEXIST } else { Errno::EISDIR };
                let (dir, last) = next.ok_or(if_dir)?;
                let name = last.file(Errno::EISDIR)?;
                let node = NewNode { kind: FileKind::Regular, mode, rdev: 0, symlink: Vec::new() };
                let on = walk.on();
                let op = Op::Create { dir, name, node, exclusive, open: false };
                let (entry, is_new, _) =
                    self.client.create_by(&self.credentials, &op, on.as_ref()).await?;
                let Spot::File(at) = entry.spot else { return Err(Errno::EIO) };
                if is_new || entry.attr.kind != FileKind::Symlink {
                    return Ok((entry.attr, is_new));
                }
                next = walk.through(FileRef { ino: entry.attr.ino, at }).await?;
            }
        })
    }

    /// Makes a directory.
    pub async fn mkdir(&self, path: &[u8], mode: u16) -> Result<Attr, Errno> {
        walked!(self, walk => {
            let (dir, last) = walk.last_of(path).await?.ok_or(Errno::EEXIST)?;
            let on = walk.on();
            let at = At { dir, on: on.as_ref() };
            let (_, attr) = self.client.mkdir_at(&self.credentials, at, &last.name, mode).await?;
            Ok(attr)
        })
    }

    /// Makes a symlink at `path`.
    pub async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<Attr, Errno> {
        walked!(self, walk => {
            let (dir, last) = walk.last_of(path).await?.ok_or(Errno::EEXIST)?;
            let name = last.file(Errno::ENOENT)?;
            let (kind, symlink) = (FileKind::Symlink, target.to_vec());
            let node = NewNode { kind, mode: 0o777, rdev: 0, symlink };
            let on = walk.on();
            let op = Op::Create { dir, name, node, exclusive: true, open: false };
            let made = self.client.create_by(&self.credentials, &op, on.as_ref()).await?;
            Ok(made.0.attr)
        })
    }

    /// The target of a symlink.
    pub async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        walked!(self, walk => match walk.end_of(path, AtLink::Stop).await? {
            Here::File(file, attr) if attr.kind == FileKind::Symlink => {
                self.client.readlink_at(&self.credentials, file).await
            }
            _ => Err(Errno::EINVAL),
        })
    }

    /// Gives a file a further name. A symlink is not followed.
    pub async fn link(&self, existing: &[u8], path: &[u8]) -> Result<Attr, Errno> {
        walked!(self, walk => {
            let Here::File(file, _) = walk.end_of(existing, AtLink::Stop).await? else {
                return Err(Errno::EPERM);
            };
            walk.again();
            let (dir, last) = walk.last_of(path).await?.ok_or(Errno::EEXIST)?;
            let name = last.file(Errno::ENOENT)?;
            let on = walk.on();
            self.client.link_at(&self.credentials, file, At { dir, on: on.as_ref() }, &name).await
        })
    }

    /// Removes a name of a file.
    pub async fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        walked!(self, walk => {
            let (dir, last) = walk.last_of(path).await?.ok_or(Errno::EISDIR)?;
            let name = last.file(Errno::ENOTDIR)?;
            let on = walk.on();
            self.client.unlink_at(&self.credentials, At { dir, on: on.as_ref() }, &name).await
        })
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        walked!(self, walk => {
            let (dir, last) = walk.last_of(path).await?.ok_or(Errno::EBUSY)?;
            let on = walk.on();
            self.client.rmdir_at(&self.credentials, At { dir, on: on.as_ref() }, &last.name).await
        })
    }

    /// Changes mode, owner, group or times of a directory, through symlinks. Returns its ino.
    pub async fn set_dir_attr(&self, path: &[u8], set: &SetAttr) -> Result<Ino, Errno> {
        walked!(self, walk => {
            let Here::Dir(dir) = walk.end_of(path, AtLink::Follow).await? else {
                return Err(Errno::ENOTDIR);
            };
            let (op, on) = (Op::DirSetAttr(dir, set.clone()), walk.on());
            let body = self.client.run_by(&self.credentials, &op, on.as_ref()).await.map_err(stale)?;
            take!(body, Body::Dir(home) => home.base.ino)
        })
    }

    /// Moves a name.
    pub async fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<(), Errno> {
        walked!(self, walk => {
            let (dir, last) = walk.last_of(from).await?.ok_or(Errno::EBUSY)?;
            walk.again();
            let (new_dir, new_last) = walk.last_of(to).await?.ok_or(Errno::EBUSY)?;
            let on = walk.on();
            let at = At { dir, on: on.as_ref() };
            if last.is_dir || new_last.is_dir {
                let moved = self.client.found(&self.credentials, &at, &last.name).await?;
                if !matches!(moved, Found::Dir(_)) {
                    return Err(Errno::ENOTDIR);
                }
            }
            let (from, to) = ((at, &last.name), (new_dir, &new_last.name));
            self.client.rename_at(&self.credentials, from, to, flags).await
        })
    }

    /// All entries of a directory, in the order of their positions.
    pub async fn readdir(&self, path: &[u8]) -> Result<Vec<DirEntry>, Errno> {
        walked!(self, walk => {
            let Here::Dir(dir) = walk.end_of(path, AtLink::Follow).await? else {
                return Err(Errno::ENOTDIR);
            };
            let on = walk.on();
            if on.is_none() {
                self.client.dir_access(&self.credentials, dir.into(), READ).await?;
            }
            self.client.entries(&self.credentials, At { dir, on: on.as_ref() }).await
        })
    }

    /// Opens a file, through symlinks. Calls may name its ino until [`Client::release`].
    pub async fn open(
        &self,
        path: &[u8],
        access: AccessMask,
        content: Content,
    ) -> Result<Attr, Errno> {
        walked!(self, walk => {
            let mut next = walk.last_of(path).await?;
            loop {
                let (dir, Last { name, is_dir }) = next.ok_or(Errno::EISDIR)?;
                let link = if is_dir {
                    match walk.look(&name).await? {
                        Here::Dir(_) => return Err(Errno::EISDIR),
                        Here::File(file, attr) if attr.kind == FileKind::Symlink => file,
                        Here::File(..) => return Err(Errno::ENOTDIR),
                    }
                } else {
                    let on = walk.on();
                    let at = At { dir, on: on.as_ref() };
                    match self.client.open_name(&self.credentials, at, &name, access, content).await? {
                        Opened::Open(attr) => return Ok(attr),
                        Opened::Symlink(link) => link,
                    }
                };
                next = walk.through(link).await?;
                if let Some((_, last)) = &mut next {
                    last.is_dir |= is_dir;
                }
            }
        })
    }
}

impl Client {
    /// All entries of a directory, in the order of their positions. Only the first page carries the
    /// trail.
    pub(super) async fn entries(
        &self,
        credentials: &Credentials,
        at: At<'_>,
    ) -> Result<Vec<DirEntry>, Errno> {
        let mut entries: Vec<DirEntry> = Vec::new();
        let mut on = at.on;
        loop {
            let position = entries.last().map_or(0, |entry| entry.position);
            let at = At { dir: at.dir, on: on.take() };
            let (page, is_last) = self.page(credentials, at, position, PAGE).await?;
            entries.extend(page.iter().map(plain));
            if is_last {
                return Ok(entries);
            }
        }
    }
}
