//! Differences from ext4 that follow from what FUSE does not tell a file system. More bits are
//! cleared than on ext4, never fewer. The exceptions are root without `CAP_FSETID`, and a bit that
//! has no meaning.

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::actors::Actor;
use crate::table::{Cell, Seen};

const SETGID: u32 = 0o2000;
const SETUID: u32 = 0o4000;

/// How an act clears bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    Nothing,
    /// By a change of content. The kernel tells whether the caller has `CAP_FSETID`.
    Content,
    /// By a change of content for which the kernel does not tell that.
    Unflagged,
    /// By a change of owner or group, for which the kernel does not tell that either.
    Owner,
    /// By `chown(-1, -1)`, which changes neither. The kernel sends exactly that before a change of
    /// content, and its caller need not be the owner. So Pando must not refuse it to such a caller.
    NoOwner,
}

fn taking(act: &str) -> Taking {
    match act {
        "chown to nothing" | "fchown to nothing" => Taking::NoOwner,
        "copy_file_range" | "write, then fallocate" => Taking::Unflagged,
        "write of nothing" | "write to memory" => Taking::Nothing,
        _ if act.starts_with("fallocate") => Taking::Unflagged,
        _ if ["chown", "chgrp", "fchown"].iter().any(|word| act.starts_with(word)) => Taking::Owner,
        "append" | "creat" | "direct write" | "splice" | "sendfile" => Taking::Content,
        _ if ["write", "truncate", "ftruncate", "open truncating"]
            .iter()
            .any(|word| act.starts_with(word)) =>
        {
            Taking::Content
        }
        _ => Taking::Nothing,
    }
}

/// Whether this is setgid without execution for the group. No program runs with the group's rights
/// through it.
const fn is_idle(mode: u32) -> bool {
    mode & SETGID != 0 && mode & 0o010 == 0
}

/// What must be seen where ext4 shows `ext4`.
pub fn imposed(actor: &Actor, cell: &Cell, ext4: Seen) -> Seen {
    let act = cell.act.0;
    let taking = taking(act);
    let with = |change: &dyn Fn(u32) -> u32| {
        let (mode, uid, gid) = ext4.then;
        Seen { at_once: change(ext4.at_once), then: (change(mode), uid, gid), ..ext4 }
    };
    if cell.kind == FileType::Directory || taking == Taking::Nothing {
        return ext4;
    }
    if matches!(act, "fallocate collapsing" | "fallocate inserting") {
        return Seen { result: Err(Errno::OPNOTSUPP), ..with(&|_| cell.mode) };
    }
    if taking == Taking::NoOwner && ext4.result == Err(Errno::PERM) {
        return Seen { result: Ok(()), ..ext4 };
    }
    let is_root = actor.uid == 0;
    let is_owners = matches!(taking, Taking::Owner | Taking::NoOwner);
    if is_owners && !(actor.may_change_owner() && ext4.result.is_ok()) {
        return ext4;
    }
    match taking {
        Taking::Unflagged if actor.has_fsetid && !is_root => {
            with(&|mode| mode & !(SETUID | SETGID))
        }
        Taking::Owner if is_root && act == "chown to another, then write" => ext4,
        // Most callers that are root have the capability.
        Taking::Owner if is_root && is_idle(cell.mode) => with(&|mode| mode | SETGID),
        Taking::NoOwner if is_idle(ext4.then.0) && actor.has_fsetid => with(&|mode| mode & !SETGID),
        _ => ext4,
    }
}
