//! Attributes of a node, as the kernel wants them.

use std::time::UNIX_EPOCH;

use pando_fuse::device::abi;

use super::node::{Content, Node};

/// Bits of a mode that hold the type. The others are types.
const TYPE_BITS: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

pub(super) fn is_directory(attr: &abi::Attr) -> bool {
    attr.mode & TYPE_BITS == DIRECTORY
}

pub(super) fn attributes(number: u64, node: &Node) -> abi::Attr {
    let (kind, size) = match &node.content {
        Content::File { size } => (0o100_000, *size),
        Content::Dir(_) => (DIRECTORY, 0),
        Content::Link(target) => (LINK, target.len() as u64),
    };
    let since = node.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, nanos) = (since.as_secs(), since.subsec_nanos());
    abi::Attr {
        ino: number,
        size,
        blocks: size.div_ceil(512),
        atime: seconds,
        mtime: seconds,
        ctime: seconds,
        atimensec: nanos,
        mtimensec: nanos,
        ctimensec: nanos,
        mode: kind | u32::from(node.mode),
        nlink: 1,
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
