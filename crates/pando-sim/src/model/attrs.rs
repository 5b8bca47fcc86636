//! Attributes and extended attributes.

use pando_types::op::{FILE_SIZE_MAX, XATTR_NAME_MAX, XATTR_VALUE_MAX, XattrMode};
use pando_types::{Credentials, Errno, FileKind, Ino, SetAttr, TimeSet};

use crate::model::permission::{self, READ, SETGID, STICKY, WRITE};
use crate::model::{Node, Outcome, Tree, Value};

impl Tree {
    pub(crate) fn access(&self, credentials: &Credentials, ino: Ino, mask: u8) -> Outcome {
        permission::check(self.node(ino)?, credentials, mask)?;
        Ok(Value::Done)
    }

    pub(crate) fn set_attr(
        &mut self,
        credentials: &Credentials,
        ino: Ino,
        set: &SetAttr,
    ) -> Outcome {
        let node = self.node(ino)?;
        check_set(node, credentials, set)?;
        self.edit(ino, |node| {
            if let Some(size) = set.size {
                node.data.resize(size as usize, 0);
                permission::drop_setid_after_change(node, credentials);
            }
            if (set.uid.is_some() || set.gid.is_some()) && !node.is_dir() {
                permission::drop_setid(node, credentials);
            }
            node.uid = set.uid.unwrap_or(node.uid);
            node.gid = set.gid.unwrap_or(node.gid);
            if let Some(mode) = set.mode {
                node.mode = mode & 0o7777;
                if !permission::is_member(node.gid, credentials) {
                    node.mode &= !SETGID;
                }
            }
        });
        Ok(Value::Stat(self.stat(ino)?))
    }

    pub(crate) fn get_xattr(&self, credentials: &Credentials, ino: Ino, name: &[u8]) -> Outcome {
        let node = self.node(ino)?;
        check_xattr(node, credentials, name, READ)?;
        node.xattrs.get(name).map(|value| Value::Bytes(value.clone())).ok_or(Errno::ENODATA)
    }

    pub(crate) fn list_xattr(&self, ino: Ino) -> Outcome {
        Ok(Value::Names(self.node(ino)?.xattrs.keys().cloned().collect()))
    }

    pub(crate) fn set_xattr(
        &mut self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome {
        let node = self.node(ino)?;
        if name.is_empty() || name.len() > XATTR_NAME_MAX {
            return Err(Errno::ERANGE);
        }
        if value.len() > XATTR_VALUE_MAX {
            return Err(Errno::ERANGE);
        }
        check_xattr(node, credentials, name, WRITE)?;
        match (mode, node.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::EEXIST),
            (XattrMode::Replace, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        self.edit(ino, |node| {
            node.xattrs.insert(name.to_vec(), value.to_vec());
        });
        Ok(Value::Done)
    }

    pub(crate) fn remove_xattr(
        &mut self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Outcome {
        let node = self.node(ino)?;
        check_xattr(node, credentials, name, WRITE)?;
        if !node.xattrs.contains_key(name) {
            return Err(Errno::ENODATA);
        }
        self.edit(ino, |node| {
            node.xattrs.remove(name);
        });
        Ok(Value::Done)
    }
}

/// `setattr_prepare` of Linux, preceded by the checks of `truncate`.
fn check_set(node: &Node, credentials: &Credentials, set: &SetAttr) -> Result<(), Errno> {
    if let Some(size) = set.size {
        match node.kind {
            FileKind::Directory => return Err(Errno::EISDIR),
            FileKind::Regular => {}
            _ => return Err(Errno::EINVAL),
        }
        if !set.size_by_handle {
            permission::check(node, credentials, WRITE)?;
        }
        if size > FILE_SIZE_MAX {
            return Err(Errno::EFBIG);
        }
    }
    let owns = credentials.uid == node.uid;
    let uid_ok = set.uid.is_none_or(|uid| credentials.uid == 0 || owns && uid == node.uid);
    let gid_ok = set.gid.is_none_or(|gid| {
        credentials.uid == 0 || owns && (credentials.in_group(gid) || gid == node.gid)
    });
    let mode_ok = set.mode.is_none() || permission::is_owner(node, credentials);
    if !(uid_ok && gid_ok && mode_ok) {
        return Err(Errno::EPERM);
    }
    let times = [set.atime, set.mtime];
    if times.iter().any(Option::is_some) && !permission::is_owner(node, credentials) {
        if times.iter().any(|time| matches!(time, Some(TimeSet::To(_)))) {
            return Err(Errno::EPERM);
        }
        permission::check(node, credentials, WRITE)?;
    }
    Ok(())
}

/// `xattr_permission` of Linux, for the `user.` space. Other spaces are not restricted here.
fn check_xattr(node: &Node, credentials: &Credentials, name: &[u8], mask: u8) -> Result<(), Errno> {
    if !name.starts_with(b"user.") {
        return Ok(());
    }
    if !matches!(node.kind, FileKind::Regular | FileKind::Directory) {
        return Err(if mask == WRITE { Errno::EPERM } else { Errno::ENODATA });
    }
    let restricted =
        node.is_dir() && node.mode & STICKY != 0 && !permission::is_owner(node, credentials);
    if mask == WRITE && restricted {
        return Err(Errno::EPERM);
    }
    permission::check(node, credentials, mask)
}
