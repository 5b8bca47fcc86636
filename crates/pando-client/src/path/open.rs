//! Opening by name: one request if the entry holds the inode.

use pando_types::op::{AccessMask, FileAt, FileRef, Op};
use pando_types::reply::{Body, Found};
use pando_types::{Attr, Credentials, Errno, FileKind, Name};

use crate::cache::on_path::At;
use crate::calls::files::Content;
use crate::client::Client;
use crate::nodes::table::Spot;
use crate::request::pending::{Asked, Via};

/// The result of opening by name.
pub(super) enum Opened {
    /// The file is open.
    Open(Attr),
    /// The name leads to a symlink; nothing was opened.
    Symlink(FileRef),
}

impl Client {
    pub(super) async fn open_name(
        &self,
        credentials: &Credentials,
        At { dir, on }: At<'_>,
        name: &Name,
        access: AccessMask,
        content: Content,
    ) -> Result<Opened, Errno> {
        let asked = self.nodes.stamp();
        let truncate = content == Content::Cut;
        let op = Op::OpenName { dir, name: name.clone(), access, truncate, kill: None };
        let (body, session) =
            self.run_told(Via::Current, credentials, Asked { op: &op, on }).await?;
        let at = FileAt::Name(dir, name.clone());
        match body {
            Body::Attr(attr) => {
                self.opened(attr.ino, Spot::File(at), asked, session, 0).await;
                Ok(Opened::Open(attr))
            }
            Body::Found(Found::File(attr)) => Ok(Opened::Symlink(FileRef { ino: attr.ino, at })),
            Body::Found(Found::Linked(ino, kind)) => {
                let file = FileRef { ino, at: FileAt::Link };
                match kind {
                    FileKind::Symlink => Ok(Opened::Symlink(file)),
                    _ => self
                        .open_at(credentials, file, access, (truncate, None))
                        .await
                        .map(Opened::Open),
                }
            }
            Body::Found(Found::Dir(_)) => Err(Errno::EISDIR),
            _ => Err(Errno::EIO),
        }
    }
}
