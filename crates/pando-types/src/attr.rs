//! Attributes of files and directories, and who asks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::Ino;

/// Nanosecond time since 1970; before it, `seconds` is negative and `nanos` still counts forward.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

/// A clock that is set back by no more than this stands still until it has caught up; by more, it
/// was wrong, and is followed.
pub const CLOCK_SLACK_NANOS: u64 = 1_000_000_000;

impl Timestamp {
    /// Whether its nanoseconds are less than a second.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.nanos < 1_000_000_000
    }

    /// From nanoseconds since 1970.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { seconds: (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as u32 }
    }
}

/// What an inode is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// Everything `stat` shows, and the counters that prepare caches, feeds and quotas (DESIGN §12).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Permission, setuid, setgid and sticky bits: the lowest 12.
    pub mode: u16,
    /// Names of a file; for a directory 2 + its subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as `makedev` builds it; else 0.
    pub rdev: u32,
    /// Bytes of a file or of a symlink's target; entries of a directory.
    pub size: u64,
    /// Last access. Pando behaves as if mounted `noatime`; it changes only when set.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
    /// Goes up with every change of data or size; a cached page is good only while it stands still.
    pub data_version: u64,
    /// Goes up with every change at all.
    pub change: u64,
    /// Project, inherited from the directory; for quotas to come.
    pub project: u32,
}

/// One time of a `setattr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimeSet {
    /// The shard's clock when it runs the request.
    Now,
    /// This time. Needs ownership where `Now` needs only write permission.
    To(Timestamp),
}

/// Which of setuid and setgid a change of content or owner takes off a file, as it may be a program
/// that runs with the rights of its owner or group. The shard does it in the same input. Security
/// labels and directories are not concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kill {
    /// Setuid, and setgid where the group may execute the file.
    Programs,
    /// Setgid elsewhere, too, unless the file is of this group: of others the caller is not known
    /// to be.
    UnlessOf(u32),
    /// Both in any case.
    All,
}

impl Kill {
    const SETUID: u16 = 0o4000;
    const SETGID: u16 = 0o2000;
    const GROUP_EXECUTE: u16 = 0o010;

    /// Whether there is anything in `mode` that a change may take off.
    #[must_use]
    pub const fn concerns(mode: u16) -> bool {
        mode & (Self::SETUID | Self::SETGID) != 0
    }

    /// What is left of permission bits `mode` of a file of group `gid`.
    #[must_use]
    pub const fn left(self, mode: u16, gid: u32) -> u16 {
        let keeps_setgid = mode & Self::GROUP_EXECUTE == 0
            && match self {
                Self::Programs => true,
                Self::UnlessOf(group) => group == gid,
                Self::All => false,
            };
        let taken = if keeps_setgid { Self::SETUID } else { Self::SETUID | Self::SETGID };
        mode & !taken
    }

    /// What two changes take off together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Self::Programs, more) | (more, Self::Programs) => more,
            _ => Self::All,
        }
    }
}

/// What a `setattr` changes; `None` stays.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SetAttr {
    /// New permission bits (lowest 12).
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size; files only.
    pub size: Option<u64>,
    /// Whether the truncation comes through a descriptor that was opened for writing, whose right
    /// was checked then.
    pub size_by_handle: bool,
    /// New access time.
    pub atime: Option<TimeSet>,
    /// New modification time.
    pub mtime: Option<TimeSet>,
    /// What a new size takes off; of a caller whom the shard judges, and of a new owner, the shard
    /// itself knows. With nothing else, it is taken off if the caller is the owner or root, and
    /// else nothing is changed. A new mode is set after it.
    pub kill: Option<Kill>,
}

/// On whose behalf a request runs, and who judges whether that caller may.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Credentials {
    /// Effective user (`fsuid`); 0 may do what root may.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Who judges.
    pub judge: Judge,
}

/// What is known of a caller beside its user and first group. The shard decides by it, whoever else
/// has decided before.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Judge {
    /// These supplementary groups, unordered. User 0 may do what root may.
    Shard(Vec<u32>),
    /// Nothing. The caller's kernel has decided, too, by attributes that may have changed since.
    /// What another group or a capability may be needed for is refused (`EACCES`, `EPERM`), and its
    /// mount asks again with [`Judge::Powers`]. Of user 0 its kernel knows whether it has
    /// capabilities.
    Kernel,
    /// All that Linux decides by. The caller's kernel has decided, too.
    Powers(Box<Powers>),
}

/// Supplementary groups and capabilities of a caller.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Powers {
    /// Supplementary groups, unordered.
    pub groups: Vec<u32>,
    /// Effective capabilities, a bit each, numbered as `linux/capability.h` has them. They hold for
    /// files of the users and groups of the caller's user namespace.
    pub capabilities: u64,
    /// Users of that namespace: the first of some, and how many.
    pub users: Vec<(u32, u32)>,
    /// Its groups.
    pub groups_known: Vec<(u32, u32)>,
}

impl Powers {
    /// Most ranges of users, or groups, of a namespace: Linux has no more.
    pub const RANGES_MAX: usize = 340;

    /// Whether the caller has a capability over files of this user; and of this group, if one is
    /// given.
    #[must_use]
    pub fn over(&self, capability: Capability, uid: u32, gid: Option<u32>) -> bool {
        let has = |ranges: &[(u32, u32)], id: u32| {
            ranges.iter().any(|(first, count)| id.checked_sub(*first).is_some_and(|n| n < *count))
        };
        self.capabilities >> capability as u8 & 1 != 0
            && has(&self.users, uid)
            && gid.is_none_or(|gid| has(&self.groups_known, gid))
    }
}

/// Capabilities that concern files (`capabilities(7)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Give a file to another user or group.
    Chown = 0,
    /// Read, write and search whatever the mode.
    DacOverride = 1,
    /// Read, and search directories, whatever the mode.
    DacReadSearch = 2,
    /// Do what the owner may.
    Fowner = 3,
    /// Keep and give setgid of a foreign group.
    Fsetid = 4,
}

impl Default for Judge {
    fn default() -> Self {
        Self::Shard(Vec::new())
    }
}

/// By what is decided about one file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Permission, setuid, setgid and sticky bits: the lowest 12.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl From<&Attr> for Judged {
    fn from(attr: &Attr) -> Self {
        Self { mode: attr.mode, uid: attr.uid, gid: attr.gid }
    }
}

impl Credentials {
    /// The superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0, judge: Judge::Shard(Vec::new()) };

    /// Of a caller whom the shard judges, with supplementary groups.
    #[must_use]
    pub const fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Self { uid, gid, judge: Judge::Shard(groups) }
    }

    /// Supplementary groups, where they are known.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        match &self.judge {
            Judge::Shard(groups) => groups,
            Judge::Powers(powers) => &powers.groups,
            Judge::Kernel => &[],
        }
    }

    /// Whether `gid` is known to be one of the caller's groups.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }
}

#[cfg(test)]
mod tests {
    use super::Kill::{self, All, Programs, UnlessOf};

    #[test]
    fn what_is_taken_off() {
        // Mode, and what is left of it by each, the file being of group 5.
        let cases = [
            (0o4755, 0o755, 0o755, 0o755),
            (0o2755, 0o755, 0o755, 0o755),
            (0o6711, 0o711, 0o711, 0o711),
            (0o2745, 0o2745, 0o2745, 0o745),
            (0o6666, 0o2666, 0o2666, 0o666),
            (0o1777, 0o1777, 0o1777, 0o1777),
        ];
        for (mode, by_program, by_member, by_all) in cases {
            assert_eq!(Programs.left(mode, 5), by_program, "{mode:o}");
            assert_eq!(UnlessOf(5).left(mode, 5), by_member, "{mode:o}");
            assert_eq!(UnlessOf(6).left(mode, 5), by_all, "{mode:o}");
            assert_eq!(All.left(mode, 5), by_all, "{mode:o}");
            assert_eq!(Kill::concerns(mode), mode & 0o6000 != 0);
        }
    }

    #[test]
    fn two_take_off_what_either_does() {
        let all = [Programs, UnlessOf(5), UnlessOf(6), All];
        for (one, two) in all.iter().flat_map(|one| all.map(|two| (*one, two))) {
            for (mode, gid) in [(0o6755, 5), (0o6745, 5), (0o6745, 6), (0o6745, 7)] {
                let both = one.left(two.left(mode, gid), gid);
                assert_eq!(one.and(two).left(mode, gid), both, "{one:?} {two:?} {mode:o} {gid}");
            }
        }
    }
}
