//! What names lead to.

use pando_types::op::{FileAt, FileRef, Op};
use pando_types::reply::{Access, Body, Found};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name, Search, Timestamp};

use crate::cache::on_path::At;
use crate::cache::remembered::Read;
use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::nodes::table::Spot;
use crate::request::backoff::Backoff;
use crate::request::outcome::{stale, take};

/// How often a name is looked up anew when its inode is gone a moment later.
pub(crate) const LOOKS_MAX: u32 = 8;
/// Most directories on a path from the root.
const PATH_DIRS_MAX: usize = 4096;

/// An inode, as a name led to it.
pub(crate) struct Entry {
    pub(crate) attr: Attr,
    pub(crate) spot: Spot,
}

impl Client {
    /// Attributes of what `name` leads to. Counts as one more lookup of it.
    pub async fn lookup(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        self.by_dentry(None).lookup(credentials, parent, name).await
    }

    /// Looks `name` up as [`Client::lookup`] does. Of a directory it tells only what the entry
    /// holds: kind, mode, owner and group. That is for callers that only pass through: it costs one
    /// message instead of two or more.
    pub async fn lookup_brief(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        self.by_dentry(None).lookup_brief(credentials, parent, name).await
    }

    /// The directory that holds the directory `ino`; the root holds itself. Calls may name the
    /// returned ino from then on.
    pub async fn parent(&self, ino: Ino) -> Result<Ino, Errno> {
        let dir = self.nodes.dir(ino)?;
        let asked = self.nodes.stamp();
        let parent = self.parent_of(dir).await?;
        if parent.ino != Ino::ROOT {
            self.nodes.remember(parent.ino, Spot::Dir(parent), asked);
        }
        Ok(parent.ino)
    }

    pub(crate) async fn parent_of(&self, dir: DirRef) -> Result<DirRef, Errno> {
        let body = self.run_plain(SYSTEM, Op::Parent(dir)).await.map_err(stale)?;
        take!(body, Body::Parent(parent, _) => parent)
    }

    /// The directory and the name of a file that was looked up, as far as this client knows. No
    /// message is sent.
    pub fn place(&self, ino: Ino) -> Option<(DirRef, Name)> {
        match self.nodes.find(ino) {
            Ok(Spot::File(FileAt::Name(dir, name))) => Some((dir, name)),
            _ => None,
        }
    }

    /// The names that lead from the root to a directory.
    pub async fn path_to(&self, mut dir: DirRef) -> Result<Vec<Name>, Errno> {
        let mut names = Vec::new();
        while dir.ino != Ino::ROOT {
            // While directories move, this loop might not end.
            if names.len() >= PATH_DIRS_MAX {
                return Err(Errno::ELOOP);
            }
            let body = self.run_plain(SYSTEM, Op::Parent(dir)).await.map_err(stale)?;
            let (parent, name) = take!(body, Body::Parent(parent, name) => (parent, name))?;
            names.push(name.ok_or(Errno::ESTALE)?);
            dir = parent;
        }
        names.reverse();
        Ok(names)
    }

    /// What `name` leads to, as the entry itself says.
    pub(crate) async fn found(
        &self,
        credentials: &Credentials,
        at: &At<'_>,
        name: &Name,
    ) -> Result<Found, Errno> {
        match self.run_by(credentials, &Op::Lookup(at.dir, name.clone()), at.on).await? {
            Body::Found(found) => Ok(found),
            Body::Entry(found, search) => {
                if let Some(on) = at.on {
                    on.told(search);
                }
                self.learn(at, search, name, &found);
                Ok(found)
            }
            _ => Err(Errno::EIO),
        }
    }

    /// Remembers a directory, as it was when the shard answered.
    fn learn(&self, at: &At<'_>, search: Search, name: &Name, found: &Found) {
        if let (Some(on), Found::Dir(access)) = (at.on, found) {
            let (dir, version) = (at.dir.ino, on.version());
            self.paths.learn(&Read { dir, search, name, access: *access, version });
        }
    }

    /// What `name` leads to, with attributes. Looks again if the inode is gone between the two
    /// requests.
    pub(crate) async fn entry(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        name: &Name,
    ) -> Result<Entry, Errno> {
        let mut backoff = Backoff::astray();
        for look in 0..LOOKS_MAX {
            if look > 1 {
                Box::pin(backoff.pause(self)).await;
            }
            let found = self.found(credentials, &at, name).await?;
            if let Found::File(attr) = found {
                let spot = Spot::File(FileAt::Name(at.dir, name.clone()));
                return Ok(Entry { attr, spot });
            }
            match self.behind(found).await {
                Err(Errno::ESTALE) => {}
                entry => return entry,
            }
        }
        Err(Errno::ENOENT)
    }

    /// The inode that an entry points to but does not hold. `ESTALE` if it is gone.
    pub(crate) async fn behind(&self, found: Found) -> Result<Entry, Errno> {
        match found {
            Found::Dir(access) => {
                let attr = self.stat_dir(access.dir.into()).await?;
                Ok(Entry { attr, spot: Spot::Dir(access.dir) })
            }
            Found::Linked(ino, _) => {
                let op = Op::GetAttr(FileRef { ino, at: FileAt::Link });
                let body = self.run_plain(SYSTEM, op).await.map_err(stale)?;
                let attr = take!(body, Body::Attr(attr) => attr)?;
                Ok(Entry { attr, spot: Spot::File(FileAt::Link) })
            }
            Found::File(_) => Err(Errno::EINVAL),
        }
    }
}

/// The attributes of a directory that its entry tells.
pub(crate) fn brief(access: &Access) -> Attr {
    let unknown = Timestamp::default();
    Attr {
        ino: access.dir.ino,
        kind: FileKind::Directory,
        mode: access.mode,
        nlink: 2,
        uid: access.uid,
        gid: access.gid,
        rdev: 0,
        size: 0,
        atime: unknown,
        mtime: unknown,
        ctime: unknown,
        btime: unknown,
        data_version: 0,
        change: 0,
        project: 0,
    }
}
