//! Extended attributes of files and directories.

use pando_types::op::{FileRef, Op, Target, XattrMode};
use pando_types::reply::Body;
use pando_types::{Credentials, Errno, Ino};

use crate::calls::by_dentry::ByDentry;
use crate::client::Client;
use crate::nodes::table::Spot;
use crate::request::outcome::{stale, take};

impl Client {
    /// The value of one attribute.
    pub async fn getxattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.by_dentry(None).getxattr(credentials, ino, name).await
    }

    /// The names of all attributes.
    pub async fn listxattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        self.by_dentry(None).listxattr(credentials, ino).await
    }

    /// Sets one attribute.
    pub async fn setxattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        self.by_dentry(None).setxattr(credentials, ino, name, value, mode).await
    }

    /// Removes one attribute.
    pub async fn removexattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.by_dentry(None).removexattr(credentials, ino, name).await
    }
}

impl ByDentry<'_> {
    /// The value of one attribute.
    pub async fn getxattr(
        self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let body = self.on_target(credentials, ino, |it| Op::GetXattr(it, name.to_vec())).await?;
        take!(body, Body::Bytes(value) => value)
    }

    /// The names of all attributes.
    pub async fn listxattr(
        self,
        credentials: &Credentials,
        ino: Ino,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        let body = self.on_target(credentials, ino, Op::ListXattr).await?;
        take!(body, Body::Names(names) => names)
    }

    /// Sets one attribute.
    pub async fn setxattr(
        self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let op = |target| Op::SetXattr { target, name: name.to_vec(), value: value.to_vec(), mode };
        self.on_target(credentials, ino, op).await?;
        Ok(())
    }

    /// Removes one attribute.
    pub async fn removexattr(
        self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.on_target(credentials, ino, |it| Op::RemoveXattr(it, name.to_vec())).await?;
        Ok(())
    }

    async fn on_target(
        self,
        credentials: &Credentials,
        ino: Ino,
        op: impl Fn(Target) -> Op,
    ) -> Result<Body, Errno> {
        let client = self.client;
        match client.nodes.find(ino)? {
            Spot::Dir(dir) => {
                client.run_by(credentials, &op(Target::Dir(dir)), self.on).await.map_err(stale)
            }
            Spot::File(at) => {
                client
                    .by_ino(credentials, &FileRef { ino, at }, |file| op(Target::File(file)))
                    .await
            }
        }
    }
}
