//! Requests about nodes, except about their contents and extended attributes.

use std::sync::Arc;

use pando_types::{Credentials, Errno, Ino, Kill};

use crate::adaptor::answers::{data, empty, failed, statfs};
use crate::adaptor::callers::Refused;
use crate::adaptor::convert::set_attr;
use crate::adaptor::state::inner::{Adaptor, Inner};
use crate::device::session::Reply;
use crate::protocol::abi;
use crate::protocol::operation::Operation;
use crate::protocol::request::{Caller, Request};
use crate::vfs::files::OpenFlags;

impl Adaptor {
    /// Handles operations on nodes, except on their contents and extended attributes.
    pub(crate) fn nodes(&self, request: &Request<'_>, reply: Reply) {
        let (this, caller, node) = (&self.0, request.caller, request.node);
        match request.operation {
            Operation::Getattr => {
                let ino = Ino(node);
                later!(this, reply, |this, reply| {
                    // A write that is stored during the request changes the file's times again.
                    let is_settled = this.fs.data().is_stored(ino);
                    let found = this.getattr(ino).await;
                    this.attr(reply, found, is_settled);
                });
            }
            Operation::Setattr(set) => {
                let mut set = set_attr(&set, caller);
                set.kill = set.kill.map(|_| this.killed_by(caller, node));
                let was_settled = this.fs.data().is_stored(Ino(node));
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.setattr(by, ino, set.clone()),
                    |this: &Inner, reply, changed| this.attr(reply, changed, was_settled)
                );
            }
            Operation::Readlink => {
                later!(this, reply, |this, reply| {
                    data(reply, this.fs.readlink(&Credentials::ROOT, Ino(node)).await);
                });
            }
            Operation::Open { flags, open_flags } => {
                let kills = open_flags & abi::open::KILL_SUIDGID != 0;
                let how = (OpenFlags(flags), kills.then(|| this.killed_by(caller, node)));
                later!(this, reply, |this, reply| this.open(reply, caller, node, how).await)
            }
            Operation::Opendir => {
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
