//! Permissions, as `generic_permission`, `may_delete` and `setattr_prepare` of Linux decide them.

use pando_types::op::AccessMask;
use pando_types::{Credentials, Errno, FileKind};

use crate::model::Node;

/// Permission to read, or to list.
pub const READ: AccessMask = 4;
/// Permission to write, or to change entries.
pub const WRITE: AccessMask = 2;
/// Permission to execute, or to search.
pub const SEARCH: AccessMask = 1;

/// Mode bit: set group id.
pub const SETGID: u16 = 0o2000;
/// Mode bit: set user id.
pub const SETUID: u16 = 0o4000;
/// Mode bit: restricted deletion.
pub const STICKY: u16 = 0o1000;
/// Mode bit: execute for the group.
pub const GROUP_EXECUTE: u16 = 0o0010;

/// `EACCES` unless `by` has all permissions of `mask` on `node`.
pub fn check(node: &Node, credentials: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    if credentials.uid == 0 {
        let executable = node.is_dir() || node.mode & 0o111 != 0;
        return if mask & SEARCH == 0 || executable { Ok(()) } else { Err(Errno::EACCES) };
    }
    let class = if credentials.uid == node.uid {
        6
    } else if credentials.in_group(node.gid) {
        3
    } else {
        0
    };
    let granted = (node.mode >> class) as AccessMask & 7;
    if granted & mask == mask { Ok(()) } else { Err(Errno::EACCES) }
}

/// `may_delete` of Linux without the checks of kinds: may `by` remove the entry of `victim` from
/// `dir`?
pub fn check_delete(dir: &Node, victim: &Node, credentials: &Credentials) -> Result<(), Errno> {
    check(dir, credentials, WRITE | SEARCH)?;
    let restricted =
        dir.mode & STICKY != 0 && !is_owner(dir, credentials) && !is_owner(victim, credentials);
    if restricted { Err(Errno::EPERM) } else { Ok(()) }
}

/// `may_linkat` of Linux with `fs.protected_hardlinks`: may `by` give the file a further name?
pub fn check_link(node: &Node, credentials: &Credentials) -> Result<(), Errno> {
    let is_program =
        node.mode & SETUID != 0 || node.mode & (SETGID | GROUP_EXECUTE) == SETGID | GROUP_EXECUTE;
    let is_safe = node.kind == FileKind::Regular && !is_program;
    let may =
        is_owner(node, credentials) || is_safe && check(node, credentials, READ | WRITE).is_ok();
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Whether `by` owns the node, or is root.
pub fn is_owner(node: &Node, credentials: &Credentials) -> bool {
    credentials.uid == 0 || credentials.uid == node.uid
}

/// Whether `by` belongs to the group, or is root.
pub fn is_member(gid: u32, credentials: &Credentials) -> bool {
    credentials.uid == 0 || credentials.in_group(gid)
}

/// Mode and group of what `by` makes in `dir` (`inode_init_owner` and `mode_strip_sgid` of Linux).
pub fn inherit(dir: &Node, kind: FileKind, mode: u16, credentials: &Credentials) -> (u16, u32) {
    if dir.mode & SETGID == 0 {
        return (mode, credentials.gid);
    }
    let strip = SETGID | GROUP_EXECUTE;
    if kind == FileKind::Directory {
        (mode | SETGID, dir.gid)
    } else if mode & strip == strip && !is_member(dir.gid, credentials) {
        (mode & !SETGID, dir.gid)
    } else {
        (mode, dir.gid)
    }
}

/// Drops the mode bits that a change of owner drops (`setattr_should_drop_sgid` of Linux).
pub fn drop_setid(node: &mut Node, credentials: &Credentials) {
    node.mode &= !SETUID;
    if node.mode & GROUP_EXECUTE != 0 || !is_member(node.gid, credentials) {
        node.mode &= !SETGID;
    }
}

/// Drops the mode bits that a change of content drops (`setattr_should_drop_suidgid` of Linux).
/// Root's changes drop none.
pub fn drop_setid_after_change(node: &mut Node, credentials: &Credentials) {
    if credentials.uid != 0 {
        drop_setid(node, credentials);
    }
}
