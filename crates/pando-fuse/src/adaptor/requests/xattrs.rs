//! Requests about extended attributes.

use std::sync::Arc;

use pando_types::{Errno, Ino};

use crate::adaptor::answers::{empty, failed, xattr};
use crate::adaptor::callers::Refused;
use crate::adaptor::state::inner::{Adaptor, Inner};
use crate::device::session::Reply;
use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

/// Largest answer to a request for the names of extended attributes, bytes.
const XATTR_LIST_MAX: usize = 65536;

impl Adaptor {
    /// Handles operations on extended attributes.
    pub(crate) fn xattrs(&self, request: &Request<'_>, reply: Reply) {
        let this = &self.0;
        match request.operation {
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
