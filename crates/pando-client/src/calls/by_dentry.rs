//! Calls by ino from a caller that came to the directory by a remembered path. A mount is such a
//! caller, as its kernel remembers dentries. Shards refuse such a call with `ESTALE`, before it
//! runs, if the path has changed. Calls about a file alone carry no path.

use pando_types::op::{AccessMask, FileAt, FileRef, NewNode, Op, RenameFlags};
use pando_types::reply::{Body, Found};
use pando_types::{Attr, Credentials, DirRef, Errno, Ino, Name, News, SetAttr};

use crate::cache::on_path::{At, OnPath};
use crate::calls::make::{IfThere, Then};
use crate::calls::names::{Entry, brief};
use crate::client::Client;
use crate::nodes::openers::{READ, SYSTEM, WRITE};
use crate::nodes::table::Spot;
use crate::request::outcome::{Failure, stale, take};
use crate::request::pending::Via;

/// The calls of [`Client`] of the same names, for a caller that came by a path.
#[derive(Clone, Copy)]
pub struct ByDentry<'a> {
    pub(crate) client: &'a Client,
    pub(crate) on: Option<&'a OnPath>,
}

impl Client {
    /// Calls that carry the trail of `on`. Without one, a rename of the directory makes no
    /// difference.
    #[must_use]
    pub const fn by_dentry<'a>(&'a self, on: Option<&'a OnPath>) -> ByDentry<'a> {
        ByDentry { client: self, on }
    }

    /// Has `watcher` hear all news of changed directories, in order. It hears each before any
    /// request carries the version of that news. Returns the version with which it begins. Only the
    /// first watcher counts.
    pub fn watch(&self, watcher: impl Fn(&News) + Send + Sync + 'static) -> u64 {
        self.paths.watch(Box::new(watcher))
    }
}

impl<'a> ByDentry<'a> {
    fn dir(&self, ino: Ino) -> Result<At<'a>, Errno> {
        Ok(At { dir: self.client.nodes.dir(ino)?, on: self.on })
    }

    fn at(&self, dir: DirRef) -> At<'a> {
        At { dir, on: self.on }
    }

    /// Attributes of what `name` leads to. Counts as one more lookup of it.
    pub async fn lookup(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        let (client, at) = (self.client, self.dir(parent)?);
        let asked = client.nodes.stamp();
        let Entry { attr, spot } = client.entry(credentials, at, name).await?;
        client.nodes.look_up(attr.ino, spot, asked);
        Ok(attr)
    }

    /// Looks `name` up as [`ByDentry::lookup`] does, but tells of a directory only what its entry
    /// holds.
    pub async fn lookup_brief(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        let (client, at) = (self.client, self.dir(parent)?);
        let asked = client.nodes.stamp();
        match client.found(credentials, &at, name).await? {
            Found::File(attr) => {
                let spot = Spot::File(FileAt::Name(at.dir, name.clone()));
                client.nodes.look_up(attr.ino, spot, asked);
                return Ok(attr);
            }
            Found::Dir(access) => {
                let attr = brief(&access);
                client.nodes.look_up(attr.ino, Spot::Dir(access.dir), asked);
                return Ok(attr);
            }
            Found::Linked(..) => {}
        }
        Box::pin(self.lookup(credentials, parent, name)).await
    }

    /// Attributes of an inode. Those of a directory add up all its partitions.
    pub async fn getattr(self, ino: Ino) -> Result<Attr, Errno> {
        match self.client.nodes.find(ino)? {
            // Boxed: else the future would be three times as large for files, which are most calls.
            Spot::Dir(dir) => Box::pin(self.client.stat_dir(self.at(dir))).await,
            Spot::File(at) => {
                // Boxed, to keep the future small.
                let op = Box::new(Op::GetAttr(FileRef { ino, at }));
                let ran = self.client.run_told(Via::Current, SYSTEM, (&*op).into()).await;
                let failure = match ran {
                    Ok((body, _)) => return take!(body, Body::Attr(attr) => attr),
                    Err(failure) => failure,
                };
                let Op::GetAttr(file) = *op else { return Err(Errno::EIO) };
                let body = Box::pin(self.client.by_ino_after(failure, file, Op::GetAttr)).await?;
                take!(body, Body::Attr(attr) => attr)
            }
        }
    }

    /// Changes attributes, and returns the new ones.
    pub async fn setattr(
        self,
        credentials: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        let client = self.client;
        match client.nodes.find(ino)? {
            Spot::Dir(_) if set.size.is_some() => Err(Errno::EISDIR),
            Spot::Dir(dir) => {
                let ran = client.run_by(credentials, &Op::DirSetAttr(dir, set), self.on).await;
                match ran.map_err(stale)? {
                    Body::Dir(home) => client.complete(dir, home).await,
                    _ => client.stat_dir(dir.into()).await,
                }
            }
            Spot::File(at) => {
                let op = |file| Op::SetAttr(file, set.clone());
                let file = FileRef { ino, at };
                // A truncation under a lock, as a write, must not run once that lock is lost.
                let locked = set.size.and_then(|_| client.locks.session_of(ino));
                let body = match locked {
                    None => client.by_ino(credentials, &file, op).await?,
                    Some(session) => {
                        let cutting = client.on_file(Via::In(&session), credentials, &file, op);
                        let deadline = client.deadline(Via::Current);
                        match Box::pin(client.within(deadline, cutting)).await {
                            None => return Err(Errno::ETIMEDOUT),
                            Some(Err(Failure::Over)) => return Err(Errno::ESTALE),
                            Some(ran) => ran.map_err(|failure| stale(failure.into()))?,
                        }
                    }
                };
                take!(body, Body::Attr(attr) => attr)
            }
        }
    }

    /// `EACCES` unless the caller has all of `mask`.
    pub async fn access(
        self,
        credentials: &Credentials,
        ino: Ino,
        mask: AccessMask,
    ) -> Result<(), Errno> {
        match self.client.nodes.find(ino)? {
            Spot::Dir(dir) => self.client.dir_access(credentials, self.at(dir), mask).await,
            Spot::File(at) => {
                let op = |file| Op::Access(file, mask);
                self.client.by_ino(credentials, &FileRef { ino, at }, op).await?;
                Ok(())
            }
        }
    }

    /// `EACCES` unless the caller may read the directory.
    pub async fn opendir(self, credentials: &Credentials, ino: Ino) -> Result<(), Errno> {
        let at = self.dir(ino)?;
        self.client.dir_access(credentials, at, READ).await
    }

    /// Makes anything but a directory. Returns also whether it is new.
    pub async fn create(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Result<(Attr, bool), Errno> {
        let (client, at) = (self.client, self.dir(parent)?);
        let asked = client.nodes.stamp();
        let (exclusive, open) = (if_there == IfThere::Refuse, then == Then::Open);
        let op = Op::Create { dir: at.dir, name: name.clone(), node, exclusive, open };
        let (Entry { attr, spot }, is_new, session) =
            client.create_by(credentials, &op, at.on).await?;
        match then {
            Then::Open => {
                client.opened(attr.ino, spot, asked, session, 1).await;
                client.openers.opened(attr.ino, credentials, READ | WRITE);
            }
            Then::Nothing => client.nodes.look_up(attr.ino, spot, asked),
        }
        Ok((attr, is_new))
    }

    /// Makes a directory. Counts as one lookup of it.
    pub async fn mkdir(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        mode: u16,
    ) -> Result<Attr, Errno> {
        let (client, at) = (self.client, self.dir(parent)?);
        let asked = client.nodes.stamp();
        let (made, attr) = client.mkdir_at(credentials, at, name, mode).await?;
        client.nodes.look_up(attr.ino, Spot::Dir(made), asked);
        Ok(attr)
    }

    /// Removes a name of a file.
    pub async fn unlink(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.client.unlink_at(credentials, self.dir(parent)?, name).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(
        self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.client.rmdir_at(credentials, self.dir(parent)?, name).await
    }

    /// Gives a file a further name. Counts as one more lookup of the file.
    pub async fn link(
        self,
        credentials: &Credentials,
        ino: Ino,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        let (client, dir) = (self.client, self.dir(parent)?);
        let Spot::File(at) = client.nodes.find(ino)? else { return Err(Errno::EPERM) };
        let attr = client.link_at(credentials, FileRef { ino, at }, dir, name).await?;
        client.nodes.look_up(ino, Spot::File(FileAt::Link), client.nodes.stamp());
        Ok(attr)
    }

    /// Moves a name. The trail covers the paths to both directories.
    pub async fn rename(
        self,
        credentials: &Credentials,
        (parent, name): (Ino, &Name),
        (new_parent, new_name): (Ino, &Name),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (from, to) = (self.dir(parent)?, self.client.nodes.dir(new_parent)?);
        self.client.rename_at(credentials, (from, name), (to, new_name), flags).await
    }
}
