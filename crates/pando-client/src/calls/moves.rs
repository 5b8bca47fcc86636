//! Links and renames. They move files, and tell the node table.

use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::reply::{Body, Found};
use pando_types::{Attr, Credentials, DirRef, Errno, FileKind, Ino, Name};

use crate::cache::on_path::At;
use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::backoff::Backoff;
use crate::request::outcome::{Failure, take};
use crate::request::pending::{Asked, Via};

impl Client {
    /// Gives a file a further name. Counts as one more lookup of the file.
    pub async fn link(
        &self,
        credentials: &Credentials,
        ino: Ino,
        parent: Ino,
        name: &Name,
    ) -> Result<Attr, Errno> {
        self.by_dentry(None).link(credentials, ino, parent, name).await
    }

    /// Moves a name.
    pub async fn rename(
        &self,
        credentials: &Credentials,
        parent: Ino,
        name: &Name,
        new_parent: Ino,
        new_name: &Name,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.by_dentry(None)
            .rename(credentials, (parent, name), (new_parent, new_name), flags)
            .await
    }

    /// Makes another name of an inode, in a directory that is known by its id. The inode is at its
    /// link shard afterwards.
    pub(crate) async fn link_at(
        &self,
        credentials: &Credentials,
        file: FileRef,
        At { dir, on }: At<'_>,
        name: &Name,
    ) -> Result<Attr, Errno> {
        let ino = file.ino;
        let _changing = match &file.at {
            FileAt::Name(dir, name) => self.change(&[(*dir, name)]).await?,
            FileAt::Link => None,
        };
        let op = |file| Op::Link(file, dir, name.clone());
        let ran = self.on_file_told(Via::Current, credentials, &file, op, on).await;
        let (body, _) = ran.map_err(Errno::from)?;
        let attr = take!(body, Body::Attr(attr) => attr)?;
        self.nodes.moved(ino, FileAt::Link);
        Ok(attr)
    }

    /// Moves a name between directories that are known by their ids. The trail covers the paths to
    /// both.
    pub(crate) async fn rename_at(
        &self,
        credentials: &Credentials,
        (At { dir: from, on }, name): (At<'_>, &Name),
        (to, new_name): (DirRef, &Name),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        // Before the rename begins: whoever looks for a file may wait for its end.
        let _changing = self.change(&[(from, name), (to, new_name)]).await?;
        let mut backoff = Backoff::astray();
        let deadline = self.deadline(Via::Current);
        let _renaming = loop {
            match self.renames.begin([(from, name), (to, new_name)]) {
                Some(renaming) => break renaming,
                None if self.is_past(deadline) => return Err(Errno::ETIMEDOUT),
                None => backoff.pause(self).await,
            };
        };
        let op = Op::Rename { from, name: name.clone(), to, new_name: new_name.clone(), flags };
        let ran = self.run_told(Via::Current, credentials, Asked { op: &op, on }).await;
        let (body, _) = ran.map_err(|failure| match failure {
            Failure::NotThere => Errno::ENOENT,
            other => other.into(),
        })?;
        self.renamed((from, name), (to, new_name), flags, &body).await;
        Ok(())
    }

    /// Tells the node table what a rename has moved.
    pub(crate) async fn renamed(
        &self,
        (from, name): (DirRef, &Name),
        (to, new_name): (DirRef, &Name),
        flags: RenameFlags,
        body: &Body,
    ) {
        if let Body::Moved(ino, kind, is_linked) = body
            && *kind != FileKind::Directory
        {
            let name = || FileAt::Name(to, new_name.clone());
            self.nodes.moved(*ino, if *is_linked { FileAt::Link } else { name() });
        }
        if flags.exchange {
            // The answer names only one of the two files.
            let is = FileAt::Name(from, name.clone());
            match self.found(SYSTEM, &from.into(), name).await {
                Ok(Found::File(attr)) => self.nodes.moved(attr.ino, is),
                Ok(Found::Linked(ino, _)) => self.nodes.moved(ino, FileAt::Link),
                Ok(Found::Dir(_)) | Err(Errno::ENOENT) => {}
                // The lookup failed, such as by a timeout. The file that the table had under the
                // new name is under the old one now.
                Err(_) => {
                    let moved = match body {
                        Body::Moved(ino, ..) => Some(*ino),
                        _ => None,
                    };
                    for ino in self.nodes.files_at(&FileAt::Name(to, new_name.clone())) {
                        if Some(ino) != moved {
                            self.nodes.moved(ino, is.clone());
                        }
                    }
                }
            }
        }
    }
}
