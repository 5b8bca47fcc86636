//! Attributes of files and directories, and credentials of callers.

use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::Ino;

/// Time since 1970 in nanoseconds. Before 1970 `seconds` is negative, and `nanos` still counts
/// forward.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanos: u32,
}

/// Largest step back of a clock that is ignored: the clock stands still until real time has caught
/// up. After a larger step the clock was wrong before, and the new time is followed.
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

/// Kind of an inode.
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

/// All that `stat` shows, and counters for caches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Permission, setuid, setgid and sticky bits: the lowest 12.
    pub mode: u16,
    /// Number of names of a file. For a directory, 2 and its number of subdirectories.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as `makedev` builds it; else 0.
    pub rdev: u32,
    /// Length of a file or of a symlink's target, bytes. For a directory, its number of entries.
    pub size: u64,
    /// Last access. Only a request sets it: Pando behaves as if mounted `noatime`.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Rises with every change of data or size. A cached page is valid only for one value of it.
    pub data_version: u64,
    /// Rises with every change of the inode.
    pub change: u64,
    /// Project, inherited from the directory. Reserved for quotas.
    pub project: u32,
}

/// One time of a `setattr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimeSet {
    /// The shard's time when it runs the request.
    Now,
    /// This time. The caller must be the owner, where `Now` needs only write permission.
    To(Timestamp),
}

/// Which of setuid and setgid a change of content or owner clears. With them a file runs with the
/// rights of its owner or group. The shard clears them in the input of the change. Security labels
/// and directories are not affected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kill {
    /// Setuid, and setgid where the group may execute the file.
    Programs,
    /// Setuid, and setgid where the group may execute the file. Where it may not, setgid too,
    /// unless the file is of this group. The caller is not known to be in any other group.
    UnlessOf(u32),
    /// Both in any case.
    All,
}

impl Kill {
    const SETUID: u16 = 0o4000;
    const SETGID: u16 = 0o2000;
    const GROUP_EXECUTE: u16 = 0o010;

    /// Whether `mode` has setuid or setgid.
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

    /// What two changes clear together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Self::Programs, more) | (more, Self::Programs) => more,
            _ => Self::All,
        }
    }
}

/// Changes of a `setattr`. `None` leaves the value as it is.
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
    /// Whether the truncation comes through a descriptor that was opened for writing. Its
    /// permission was checked at the open.
    pub size_by_handle: bool,
    /// New access time.
    pub atime: Option<TimeSet>,
    /// New modification time.
    pub mtime: Option<TimeSet>,
    /// Which of setuid and setgid a new size clears. The shard computes this itself for a caller
    /// that it judges, and for a new owner. With no other change in the request, the shard clears
    /// the bits if the caller is the owner or root. Otherwise nothing changes. A new mode is set
    /// after that.
    pub kill: Option<Kill>,
}

/// User and group for which a request runs, and how its permission is decided.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Credentials {
    /// Effective user (`fsuid`). User 0 is the superuser.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// What is known of the caller beyond user and group.
    pub judge: Judge,
}

/// What is known of a caller beyond its user and first group. The shard decides by it, whether or
/// not the caller's kernel has already decided.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Judge {
    /// These supplementary groups, unordered. User 0 is the superuser.
    Shard(Vec<u32>),
    /// Nothing more. The caller's kernel has decided, too, by attributes that may have changed
    /// since. Where the answer may depend on another group or a capability, the shard refuses
    /// (`EACCES`, `EPERM`). The mount then asks again with [`Judge::Powers`]. Whether user 0 has
    /// capabilities, its kernel knows.
    Kernel,
    /// All that Linux decides by. The caller's kernel has decided, too.
    Powers(Box<Powers>),
}

/// Supplementary groups and capabilities of a caller.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Powers {
    /// Supplementary groups, unordered.
    pub groups: Vec<u32>,
    /// Effective capabilities, a bit each, numbered as in `linux/capability.h`. They hold for files
    /// of the users and groups of the caller's user namespace.
    pub capabilities: u64,
    /// Users of that namespace: ranges of a first user and a count.
    pub users: Vec<(u32, u32)>,
    /// Groups of that namespace: ranges of a first group and a count.
    pub groups_known: Vec<(u32, u32)>,
}

impl Powers {
    /// Most ranges of users, or of groups, of a namespace. Linux has this limit.
    pub const RANGES_MAX: usize = 340;

    /// Whether the caller has a capability over files of this user and, if one is given, of this
    /// group.
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
    /// Do what only the owner may do.
    Fowner = 3,
    /// Keep and give setgid of a foreign group.
    Fsetid = 4,
}

impl Default for Judge {
    fn default() -> Self {
        Self::Shard(Vec::new())
    }
}

/// Attributes by which permission on a file or directory is decided.
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

    /// Credentials of a caller that the shard judges, with supplementary groups.
    #[must_use]
    pub const fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Self { uid, gid, judge: Judge::Shard(groups) }
    }

    /// Supplementary groups. Empty if they are not known.
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
        // Mode, then what is left of it by `Programs`, by a member and by `All`. The file is of
        // group 5.
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
