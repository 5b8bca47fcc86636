//! Requests about nodes, except about their contents.

use std::sync::Arc;

use pando_types::{Credentials, Errno, Ino, Kill};

use crate::adaptor::answers::{data, empty, failed, statfs, xattr};
use crate::adaptor::callers::Refused;
use crate::adaptor::convert::set_attr;
use crate::adaptor::state::inner::{Adaptor, Inner};
use crate::device::session::Reply;
use crate::protocol::abi;
use crate::protocol::request::{Caller, Operation, Request};
use crate::vfs::files::OpenFlags;

/// Largest answer to a request for the names of extended attributes, bytes.
const XATTR_LIST_MAX: usize = 65536;

impl Adaptor {
    /// Handles operations on nodes, except on their contents.
    pub(crate) fn nodes(&self, request: &Request<'_>, reply: Reply) {
        let this = &self.0;
        match request.operation {
            Operation::Getattr => {
                let ino = Ino(request.node);
                later!(this, reply, |this, reply| {
                    // A write that is stored during the request changes the file's times again.
                    let is_settled = this.fs.data().is_stored(ino);
                    let found = this.getattr(ino).await;
                    this.attr(reply, found, is_settled);
                });
            }
            Operation::Setattr(set) => {
                let mut set = set_attr(&set, request.caller);
                set.kill = set.kill.map(|_| this.killed_by(request.caller, request.node));
                let was_settled = this.fs.data().is_stored(Ino(request.node));
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.setattr(by, ino, set.clone()),
                    |this: &Inner, reply, changed| this.attr(reply, changed, was_settled)
                );
            }
            Operation::Readlink => {
                let node = Ino(request.node);
                later!(this, reply, |this, reply| {
                    data(reply, this.fs.readlink(&Credentials::ROOT, node).await);
                });
            }
            Operation::Open { flags, open_flags } => {
                let (caller, node) = (request.caller, request.node);
                let kills = open_flags & abi::open::KILL_SUIDGID != 0;
                let how = (OpenFlags(flags), kills.then(|| this.killed_by(caller, node)));
                later!(this, reply, |this, reply| this.open(reply, caller, node, how).await)
            }
            Operation::Opendir => {
                let (caller, node) = (request.caller, request.node);
                later!(this, reply, |this, reply| this.opendir(reply, caller, node).await)
            }
            Operation::Readdir { handle, offset, size, plus } => {
                later!(this, reply, |this, reply| this
                    .list(reply, handle, offset, size, plus)
                    .await)
            }
            Operation::Releasedir { handle } => {
                this.close_directory(handle);
                empty(reply, Ok(()));
            }
            Operation::Statfs => {
                later!(this, reply, |this, reply| statfs(reply, this.fs.statfs().await))
            }
            Operation::Access { mask } => of_node!(
                this,
                reply,
                request,
                |this, by, ino| this.fs.access(by, ino, (mask & 7) as u8),
                |_: &Inner, reply, result| empty(reply, result)
            ),
            Operation::Getxattr { name, size } => {
                let (name, ino) = (name.to_vec(), request.node);
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, node| this.fs.getxattr(by, node, &name),
                    |this: &Inner, reply, value| {
                        let value = this.or_none(ino, value, Err(Errno::ENODATA));
                        xattr(reply, size, usize::MAX, value);
                    }
                );
            }
            Operation::Listxattr { size } => {
                let ino = request.node;
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, node| this.fs.listxattr(by, node),
                    |this: &Inner, reply, names| {
                        let names = this.or_none(ino, names, Ok(Vec::new()));
                        xattr(reply, size, XATTR_LIST_MAX, names);
                    }
                );
            }
            Operation::Setxattr { name, value, flags } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.fs.setxattr(by, ino, &name, &value, flags),
                    |_: &Inner, reply, result| empty(reply, result)
                );
            }
            Operation::Removexattr { name } => {
                let name = name.to_vec();
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.fs.removexattr(by, ino, &name),
                    |_: &Inner, reply, result| empty(reply, result)
                );
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }
}

impl Inner {
    pub(crate) async fn open(
        &self,
        reply: Reply,
        caller: Caller,
        node: u64,
        (flags, kill): (OpenFlags, Option<Kill>),
    ) {
        let ino = Ino(node);
        match judged!(self, caller, &[node], |by| self.fs.open(by, ino, flags, kill).await) {
            Ok(opened) => {
                self.appends(node, &opened, flags);
                if kill.is_some() && self.memory.is_program(node) {
                    self.killed(node);
                }
                if reply.opened(self.new_handle(), self.open_flags(&opened)).is_err() {
                    self.fs.release(ino).await;
                }
            }
            Err(error) => failed(reply, error),
        }
    }
}
