//! The records of an empty shard.

use alloc::vec::Vec;
use pando_types::peer::Inherit;
use pando_types::{Attr, DirId, DirRef, FileKind, Ino, Name, PartitionIndex, Radix, Timestamp};

use crate::contract::{Config, Write};
use crate::records::keys::{self, Kind, Table};
use crate::records::record::{Content, Header, Numbers, Record, Stat};

/// Records with which a new shard's store begins. The home of the root directory (shard 0) gets the
/// root as well: mode 0755, owned by user 0, born at `now`.
#[must_use]
pub fn format(config: &Config, now: Timestamp) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut put = |key, value| writes.push(Write::Put(key, value));
    // Ino 1 is the root; 0 means none.
    put(keys::table(Table::Numbers), Numbers { inos: 16, txns: 1 }.encode());
    let holds_root = config.map.home(DirId::ROOT) == config.shard;
    put(keys::table(Table::Stat), Stat { inodes: u64::from(holds_root), bytes: 0 }.encode());
    if holds_root {
        let base = new_dir(Ino::ROOT, 0o755, 0, 0, 0, now);
        put(keys::dir(DirId::ROOT, Kind::Header, 0), first_header(&base).encode());
        let content =
            Content { base, generation: 0, parent: DirRef::ROOT, name: None, tombstone: false };
        put(keys::dir(DirId::ROOT, Kind::Content, 0), content.encode());
    }
    writes
}

/// Attributes of a new directory.
pub(crate) fn new_dir(
    ino: Ino,
    mode: u16,
    uid: u32,
    gid: u32,
    project: u32,
    now: Timestamp,
) -> Attr {
    Attr {
        ino,
        kind: FileKind::Directory,
        mode,
        nlink: 2,
        uid,
        gid,
        rdev: 0,
        size: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        data_version: 0,
        change: 1,
        project,
    }
}

/// Header of the only partition of a new directory.
pub(crate) fn first_header(base: &Attr) -> Header {
    Header {
        partition: PartitionIndex(0),
        radix: Radix(0),
        ino: base.ino,
        inherit: inherit(base),
        entries: 0,
        subdirs: 0,
        change: 0,
        mtime: Timestamp::default(),
        generation: 0,
        spread: None,
    }
}

/// The content of a new directory.
pub(crate) fn first_content(base: Attr, parent: DirRef, name: &Name) -> Content {
    Content { base, generation: 0, parent, name: Some(name.clone()), tombstone: false }
}

/// The attributes of a directory that its partitions copy.
pub(crate) fn inherit(base: &Attr) -> Inherit {
    Inherit { mode: base.mode, uid: base.uid, gid: base.gid, project: base.project }
}
