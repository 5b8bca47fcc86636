//! Conversions between Pando's types and the kernel's.

use pando_types::{Attr, Errno, FileKind, Kill, SetAttr, TimeSet, Timestamp};

use crate::protocol::abi::{self, fattr};
use crate::protocol::request::Caller;

/// Preferred size of reads and writes, bytes.
const BLOCK_SIZE: u32 = 4096;

pub(crate) fn errno(errno: Errno) -> rustix::io::Errno {
    rustix::io::Errno::from_raw_os_error(errno.number())
}

/// Type bits of a mode.
pub(crate) const fn type_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
    }
}

/// Kind of file for the type bits of a mode. `None` for a directory, or for unknown bits.
pub(crate) const fn node_kind(mode: u32) -> Option<FileKind> {
    match mode & 0o170_000 {
        0o100_000 | 0 => Some(FileKind::Regular),
        0o120_000 => Some(FileKind::Symlink),
        0o010_000 => Some(FileKind::Fifo),
        0o140_000 => Some(FileKind::Socket),
        0o020_000 => Some(FileKind::CharDevice),
        0o060_000 => Some(FileKind::BlockDevice),
        _ => None,
    }
}

pub(crate) const fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// Converts a time. Seconds before the epoch come as a negative number in 64 bits.
const fn time(seconds: u64, nanos: u32) -> Timestamp {
    Timestamp { seconds: seconds.cast_signed(), nanos }
}

/// Which bits a change of contents takes off, if the caller has no `CAP_FSETID`.
pub(crate) const fn kill(caller: Caller) -> Kill {
    Kill::UnlessOf(caller.gid)
}

/// Converts a SETATTR. The kernel sends an empty one for `chown(-1, -1)`. It also sends one to take
/// off setuid and setgid before a caller without `CAP_FSETID` changes contents.
pub(crate) fn set_attr(set: &abi::SetattrIn, caller: Caller) -> SetAttr {
    let has = |bit| set.valid & bit != 0;
    let time_set = |given, now, seconds, nanos| match (has(given), has(now)) {
        (_, true) => Some(TimeSet::Now),
        (true, false) => Some(TimeSet::To(time(seconds, nanos))),
        (false, false) => None,
    };
    let mut asked = SetAttr {
        mode: has(fattr::MODE).then(|| permissions(set.mode)),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size: has(fattr::SIZE).then_some(set.size),
        size_by_handle: has(fattr::FH),
        atime: time_set(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time_set(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        kill: None,
    };
    let nothing = SetAttr { size_by_handle: asked.size_by_handle, ..SetAttr::default() };
    if asked == nothing || asked.size.is_some() && has(fattr::KILL_SUIDGID) {
        asked.kill = Some(kill(caller));
    }
    asked
}

pub(crate) fn file_attr(attr: &Attr) -> abi::Attr {
    let blocks = match attr.kind {
        // Whole blocks of 4 KiB, as if the file had no holes.
        FileKind::Regular => attr.size.div_ceil(u64::from(BLOCK_SIZE)).saturating_mul(8),
        _ => 0,
    };
    abi::Attr {
        ino: attr.ino.0,
        size: attr.size,
        blocks,
        atime: attr.atime.seconds.cast_unsigned(),
        mtime: attr.mtime.seconds.cast_unsigned(),
        ctime: attr.ctime.seconds.cast_unsigned(),
        atimensec: attr.atime.nanos,
        mtimensec: attr.mtime.nanos,
        ctimensec: attr.ctime.nanos,
        mode: type_bits(attr.kind) | u32::from(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_back() {
        for bits in 1..16 {
            let mode = bits << 12 | 0o644;
            if let Some(kind) = node_kind(mode) {
                assert_eq!(type_bits(kind) | u32::from(permissions(mode)), mode);
            }
        }
        assert_eq!(node_kind(0o644), Some(FileKind::Regular));
        assert_eq!(node_kind(0o040_755), None);
    }

    #[test]
    fn only_what_is_marked_is_set() {
        let all = abi::SetattrIn {
            mode: 0o104_755,
            uid: 5,
            size: 9,
            atime: (-2i64).cast_unsigned(),
            atimensec: 800_000_000,
            ..Default::default()
        };
        let user = Caller { uid: 5, gid: 6, pid: 7, request: 8 };
        let kill = Some(Kill::UnlessOf(6));
        assert_eq!(set_attr(&all, user), SetAttr { kill, ..SetAttr::default() });
        let valid = fattr::MODE | fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW | fattr::FH;
        let atime = Timestamp { seconds: -2, nanos: 800_000_000 };
        let expected = SetAttr {
            mode: Some(0o4755),
            atime: Some(TimeSet::To(atime)),
            mtime: Some(TimeSet::Now),
            size_by_handle: true,
            ..SetAttr::default()
        };
        assert_eq!(set_attr(&abi::SetattrIn { valid, ..all }, user), expected);
        for (kills, kill) in [(0, None), (fattr::KILL_SUIDGID, Some(Kill::UnlessOf(6)))] {
            let valid = fattr::SIZE | kills;
            let expected = SetAttr { size: Some(9), kill, ..SetAttr::default() };
            assert_eq!(set_attr(&abi::SetattrIn { valid, ..all }, user), expected);
            // The shard knows which bits a new owner takes off.
            let valid = fattr::UID | kills;
            let expected = SetAttr { uid: Some(5), ..SetAttr::default() };
            assert_eq!(set_attr(&abi::SetattrIn { valid, ..all }, user), expected);
        }
    }
}
