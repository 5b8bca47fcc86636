//! Making and removing names.

use pando_types::op::{FileAt, FileRef, NewNode, Op};
use pando_types::reply::Body;
use pando_types::{Attr, Credentials, DirRef, Errno, Ino, Name, SessionId};

use crate::cache::on_path::{At, OnPath};
use crate::calls::names::{Entry, LOOKS_MAX};
use crate::client::Client;
use crate::nodes::table::Spot;
use crate::request::backoff::Backoff;
use crate::request::outcome::{stale, take};
use crate::request::pending::{Asked, Via};

/// What a create does about a file that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfThere {
    /// It fails with `EEXIST`.
    Refuse,
    /// It takes the file as it is.
    Take,
}

/// What a create does with the file that it has made or taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// It opens the file, without a check of its permissions.
    Open,
    /// It only looks the file up.
    Nothing,
}

impl Client {
    /// Makes anything but a directory. Returns also whether it is new. Counts as one more lookup.
    pub async fn create(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        node: NewNode,
        if_there: IfThere,
        then: Then,
    ) -> Result<(Attr, bool), Errno> {
        self.by_dentry(None).create(credentials, parent, name, node, if_there, then).await
    }

    /// Makes a directory. Counts as one lookup of it.
    pub async fn mkdir(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        mode: u16,
    ) -> Result<Attr, Errno> {
        self.by_dentry(None).mkdir(credentials, parent, name, mode).await
    }

    /// Removes a name of a file. A file that is open, or has another name, is at its link shard
    /// afterwards.
    pub async fn unlink(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.by_dentry(None).unlink(credentials, parent, name).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
    ) -> Result<(), Errno> {
        self.by_dentry(None).rmdir(credentials, parent, name).await
    }

    /// Runs an [`Op::Create`], by a trail if there is one. Returns the entry, whether it is new,
    /// and the session in which the file was opened.
    pub(crate) async fn create_by(
        &self,
        credentials: &Credentials,
        op: &Op,
        on: Option<&OnPath>,
    ) -> Result<(Entry, bool, SessionId), Errno> {
        let Op::Create { dir, name, open, .. } = op else { return Err(Errno::EINVAL) };
        let mut backoff = Backoff::astray();
        for look in 0..LOOKS_MAX {
            if look > 1 {
                Box::pin(backoff.pause(self)).await;
            }
            let ino = match self.run_told(Via::Current, credentials, Asked { op, on }).await? {
                (Body::Created(attr, is_new, radix), session) => {
                    self.routes.deepen(*dir, radix, || self.secrets.order(name.as_bytes()));
                    let spot = Spot::File(FileAt::Name(*dir, name.clone()));
                    return Ok((Entry { attr, spot }, is_new, session));
                }
                (Body::Linked(ino, _), _) => ino,
                _ => return Err(Errno::EIO),
            };
            let file = FileRef { ino, at: FileAt::Link };
            let op = if *open {
                Op::Open { file, access: 0, truncate: false, kill: None }
            } else {
                Op::GetAttr(file)
            };
            let answer = Box::pin(self.run_told(Via::Current, credentials, (&op).into())).await;
            match answer.map_err(|failure| stale(failure.into())) {
                Ok((Body::Attr(attr), session)) => {
                    return Ok((Entry { attr, spot: Spot::File(FileAt::Link) }, false, session));
                }
                Ok(_) => return Err(Errno::EIO),
                Err(Errno::ESTALE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ENOENT)
    }

    pub(crate) async fn mkdir_at(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        name: &Name,
        mode: u16,
    ) -> Result<(DirRef, Attr), Errno> {
        let body = self.run_by(credentials, &Op::Mkdir(at.dir, name.clone(), mode), at.on).await?;
        take!(body, Body::Made(dir, home) => (dir, home.base))
    }

    pub(crate) async fn unlink_at(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        name: &Name,
    ) -> Result<(), Errno> {
        let _changing = self.change(&[(at.dir, name)]).await?;
        self.run_by(credentials, &Op::Unlink(at.dir, name.clone()), at.on).await?;
        Ok(())
    }

    pub(crate) async fn rmdir_at(
        &self,
        credentials: &Credentials,
        at: At<'_>,
        name: &Name,
    ) -> Result<(), Errno> {
        self.run_by(credentials, &Op::Rmdir(at.dir, name.clone()), at.on).await?;
        Ok(())
    }
}
