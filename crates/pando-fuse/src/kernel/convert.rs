//! Between our types and those of the FUSE library.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use pando_types::{Attr, Errno, FileKind, Ino, TimeSet, Timestamp};

/// Preferred size of reads and writes, bytes.
const BLOCK_SIZE: u32 = 4096;

pub(super) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.number())
}

pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Kind of the type bits of a mode; none for a directory or nonsense.
pub(super) fn node_kind(mode: u32) -> Option<FileKind> {
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

pub(super) fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// What the library makes of `before the epoch` and back is `seconds` below zero with `nanos` counting on from there.
pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    let whole = match u64::try_from(time.seconds) {
        Ok(seconds) => UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        Err(_) => UNIX_EPOCH.checked_sub(Duration::from_secs(time.seconds.unsigned_abs())),
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// A time from a request. The library turns (seconds, nanos) before the epoch into `epoch - |seconds| - nanos`, where
/// `epoch - |seconds| + nanos` is meant: undone here.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanos: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let seconds = 0i64.saturating_sub_unsigned(before.as_secs());
            Timestamp { seconds, nanos: before.subsec_nanos() }
        }
    }
}

pub(super) fn time_set(time: TimeOrNow) -> TimeSet {
    match time {
        TimeOrNow::Now => TimeSet::Now,
        TimeOrNow::SpecificTime(time) => TimeSet::To(timestamp(time)),
    }
}

pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    let blocks = match attr.kind {
        // Whole blocks of 4 KiB, as if nothing were a hole.
        FileKind::Regular => attr.size.div_ceil(u64::from(BLOCK_SIZE)).saturating_mul(8),
        _ => 0,
    };
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size,
        blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.kind),
        perm: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// Attributes of which only number and kind are known and matter.
pub(super) fn bare_attr(ino: Ino, kind: FileKind) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: file_type(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_survive_the_library() {
        for time in [(0, 0), (5, 7), (-1, 0), (-2, 800_000_000), (1 << 35, 1)] {
            let time = Timestamp { seconds: time.0, nanos: time.1 };
            // As the library makes it of what the kernel sends.
            let nanos = Duration::from_nanos(u64::from(time.nanos));
            let sent = if time.seconds >= 0 {
                UNIX_EPOCH + Duration::from_secs(time.seconds.unsigned_abs()) + nanos
            } else {
                UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) - nanos
            };
            assert_eq!(timestamp(sent), time);
        }
        let before = system_time(Timestamp { seconds: -2, nanos: 800_000_000 });
        assert_eq!(before, UNIX_EPOCH - Duration::from_millis(1200));
    }
}
