//! Attributes: what a `setattr`, a rename and a `mkdir` make of them, and answer.

use pando_types::peer::EntryValue;
use pando_types::reply::Body;
use pando_types::{Attr, FileKind, Kill, SetAttr, TimeSet, Timestamp};

use crate::records::format::first_header;
use crate::state::namespace::headers::history;

/// Applies mode, owner and times of a checked `setattr`. The caller applies the size.
pub fn apply(attr: &mut Attr, set: &SetAttr, now: Timestamp) {
    let time = |set: TimeSet| match set {
        TimeSet::Now => now,
        TimeSet::To(time) => time,
    };
    if let Some(mode) = set.mode {
        attr.mode = mode & 0o7777;
    }
    attr.uid = set.uid.unwrap_or(attr.uid);
    attr.gid = set.gid.unwrap_or(attr.gid);
    attr.atime = set.atime.map_or(attr.atime, time);
    attr.mtime = set.mtime.map_or(attr.mtime, time);
    attr.ctime = now;
    attr.change += 1;
}

/// Clears setuid and setgid in the mode, as far as `kill` says.
pub fn take_off(attr: &mut Attr, kill: Option<Kill>) {
    attr.mode = kill.map_or(attr.mode, |kill| kill.left(attr.mode, attr.gid));
}

/// Where a rename has left a file's inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// In the entry.
    InEntry,
    /// At its link shard.
    AtLink,
}

/// The answer to a rename.
pub fn moved(value: &EntryValue, left: Left) -> Body {
    match value {
        EntryValue::File(inode) => {
            Body::Moved(inode.attr.ino, inode.attr.kind, left == Left::AtLink)
        }
        EntryValue::Linked(ino, kind) => Body::Moved(*ino, *kind, true),
        EntryValue::Dir(access) => Body::Moved(access.dir.ino, FileKind::Directory, false),
    }
}

/// Attributes of a new directory, as its home would tell them.
pub fn new_dir_attr(base: Attr, shard: pando_types::ShardIndex) -> pando_types::reply::DirAttr {
    let header = first_header(&base);
    pando_types::reply::DirAttr {
        deltas: alloc::vec![header.delta(shard)],
        history: history(shard, &[header]),
        base,
        generation: 0,
    }
}
