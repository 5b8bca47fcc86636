//! Who may do what, as Linux decides it (`generic_permission`, `setattr_prepare`, `may_delete`).

use pando_types::op::AccessMask;
use pando_types::peer::Inherit;
use pando_types::{
    Attr, Credentials, Errno, FileKind, Judge, Judged, Kill, Search, SetAttr, TimeSet, Timestamp,
};

/// Read.
pub const R: AccessMask = 4;
/// Write.
pub const W: AccessMask = 2;
/// Execute or search.
pub const X: AccessMask = 1;

const SETGID: u16 = 0o2000;
const STICKY: u16 = 0o1000;

/// Whether `by` has all of `mask` on an object. The superuser has, but for executing a file that nobody may execute.
pub fn check(
    kind: FileKind,
    mode: u16,
    uid: u32,
    gid: u32,
    by: &Credentials,
    mask: AccessMask,
) -> Result<(), Errno> {
    let class = |shift: u16| (mode >> shift) as u8 & 7;
    let allowed = match (&by.judge, by.uid) {
        _ if decided(by, Judged { mode, uid, gid }) => return Ok(()),
        (Judge::Shard(_), 0) if kind == FileKind::Directory || mode & 0o111 != 0 => R | W | X,
        (Judge::Shard(_), 0) => R | W,
        (_, user) if user == uid => class(6),
        _ if by.in_group(gid) => class(3),
        (Judge::Shard(_), _) => class(0),
        // Of which other groups the caller is, its kernel did not say.
        _ => class(3) & class(0),
    };
    if mask & !allowed == 0 { Ok(()) } else { Err(refusal(by, Errno::EACCES)) }
}

/// Whether the caller's kernel has decided by what is so now.
pub fn decided(by: &Credentials, now: Judged) -> bool {
    match &by.judge {
        Judge::Shard(_) => false,
        Judge::Kernel(judged) => judged.contains(&now),
        Judge::KernelAlone => true,
    }
}

/// What a caller is told who may not: where a kernel decided, it knows attributes of another time, and is to look again.
fn refusal(by: &Credentials, errno: Errno) -> Errno {
    match by.judge {
        Judge::Shard(_) => errno,
        Judge::Kernel(_) | Judge::KernelAlone => Errno::ESTALE,
    }
}

/// Whether the shard takes user 0 for one that may do everything. A kernel says so by what it decided.
fn is_root(by: &Credentials) -> bool {
    by.uid == 0 && matches!(by.judge, Judge::Shard(_))
}

/// The same on a file's attributes.
pub fn check_attr(attr: &Attr, by: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    check(attr.kind, attr.mode, attr.uid, attr.gid, by, mask)
}

/// The same on the directory a partition belongs to.
pub fn check_dir(dir: &Inherit, by: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    check(FileKind::Directory, dir.mode, dir.uid, dir.gid, by, mask)
}

/// What decides who may search the directory a partition belongs to.
pub const fn search(dir: &Inherit) -> Search {
    Search::new(dir.mode, dir.uid, dir.gid)
}

/// Sticky directories: only the entry's owner, the directory's owner or root removes or renames it.
pub fn check_sticky(dir: &Inherit, entry: Judged, by: &Credentials) -> Result<(), Errno> {
    if dir.mode & STICKY == 0 || by.uid == entry.uid || by.uid == dir.uid || is_root(by) {
        return Ok(());
    }
    if decided(by, Judged { mode: dir.mode, uid: dir.uid, gid: dir.gid }) && decided(by, entry) {
        return Ok(());
    }
    Err(refusal(by, Errno::EPERM))
}

/// Mode and group of what is made in a directory (`inode_init_owner`). A kernel that judges takes off by itself what its
/// caller must not give.
pub fn inherit(dir: &Inherit, kind: FileKind, mode: u16, by: &Credentials) -> (u16, u32) {
    let mode = mode & 0o7777;
    if dir.mode & SETGID == 0 {
        return (mode, by.gid);
    }
    match kind {
        FileKind::Directory => (mode | SETGID, dir.gid),
        _ if mode & (SETGID | 0o010) == (SETGID | 0o010)
            && matches!(by.judge, Judge::Shard(_))
            && by.uid != 0
            && !by.in_group(dir.gid) =>
        {
            (mode & !SETGID, dir.gid)
        }
        _ => (mode, dir.gid),
    }
}

/// A time that is one: others' clients reckon with it.
pub fn check_time(time: Timestamp) -> Result<(), Errno> {
    if time.is_valid() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Checks a `setattr` on `attr`, and returns it with the side effects Linux adds (cleared setgid).
pub fn check_setattr(attr: &Attr, set: &SetAttr, by: &Credentials) -> Result<SetAttr, Errno> {
    for time in [set.atime, set.mtime].into_iter().flatten() {
        if let TimeSet::To(time) = time {
            check_time(time)?;
        }
    }
    if decided(by, attr.into()) {
        return Ok(set.clone());
    }
    let root = is_root(by);
    let owner = root || by.uid == attr.uid;
    let mut set = set.clone();
    if set.uid.is_some_and(|uid| !root && (by.uid != attr.uid || uid != attr.uid)) {
        return Err(refusal(by, Errno::EPERM));
    }
    if let Some(gid) = set.gid {
        let member = gid == attr.gid || by.in_group(gid);
        if !root && (by.uid != attr.uid || !member) {
            return Err(refusal(by, Errno::EPERM));
        }
    }
    if let Some(mode) = set.mode {
        if !owner {
            return Err(refusal(by, Errno::EPERM));
        }
        let gid = set.gid.unwrap_or(attr.gid);
        if !root && mode & SETGID != 0 && !by.in_group(gid) {
            match by.judge {
                Judge::Shard(_) => set.mode = Some(mode & !SETGID),
                // It may be of the group, or not: by what is so now, its kernel has not decided.
                Judge::Kernel(_) | Judge::KernelAlone => return Err(Errno::ESTALE),
            }
        }
    }
    if set.size.is_some() && !set.size_by_handle {
        check_attr(attr, by, W)?;
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        match time {
            TimeSet::To(_) if !owner => return Err(refusal(by, Errno::EPERM)),
            TimeSet::Now if !owner => check_attr(attr, by, W)?,
            _ => {}
        }
    }
    Ok(set)
}

/// What a caller takes off a file that is known to have no `CAP_FSETID`, or whose change takes it off in any case.
fn kill_by(attr: &Attr, by: &Credentials) -> Kill {
    if by.in_group(attr.gid) { Kill::Programs } else { Kill::All }
}

/// What a change of content takes off, where the caller or its kernel says `told` (`setattr_should_drop_suidgid`).
pub fn kill_by_content(attr: &Attr, by: &Credentials, told: Option<Kill>) -> Option<Kill> {
    match by.judge {
        Judge::Shard(_) if by.uid != 0 => {
            Some(told.map_or(kill_by(attr, by), |kill| kill.and(kill_by(attr, by))))
        }
        _ => told,
    }
}

/// What a checked `setattr` takes off (`chown_common`, `do_truncate`).
pub fn kill_by_setattr(attr: &Attr, set: &SetAttr, by: &Credentials) -> Option<Kill> {
    let owner = by.uid == 0 || by.uid == attr.uid;
    if attr.kind == FileKind::Directory {
        None
    } else if set.uid.is_some() || set.gid.is_some() {
        // Whether a kernel's user 0 has `CAP_FSETID`, is not told: most have.
        Some(if by.uid == 0 { Kill::Programs } else { kill_by(attr, by) })
    } else if set.size.is_some() {
        kill_by_content(attr, by, set.kill)
    } else {
        set.kill.filter(|_| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileKind::{Directory, Regular};
    use alloc::vec;

    fn user(uid: u32, gid: u32) -> Credentials {
        Credentials::new(uid, gid, vec![])
    }

    #[test]
    fn the_first_class_that_matches_decides() {
        let cases = [
            (0o700, user(5, 9), R | W | X, Ok(())),
            (0o070, user(5, 6), R, Err(Errno::EACCES)), // the owner's class, although the group may
            (0o070, user(7, 6), R | W | X, Ok(())),
            (0o007, user(7, 8), X, Ok(())),
            (0o070, user(7, 8), R, Err(Errno::EACCES)),
        ];
        for (mode, by, mask, expected) in cases {
            assert_eq!(check(Regular, mode, 5, 6, &by, mask), expected, "{mode:o} {by:?} {mask}");
        }
    }

    #[test]
    fn root_may_all_but_execute_what_nobody_may() {
        let root = Credentials::ROOT;
        assert_eq!(check(Regular, 0, 5, 6, &root, R | W), Ok(()));
        assert_eq!(check(Regular, 0, 5, 6, &root, X), Err(Errno::EACCES));
        assert_eq!(check(Regular, 0o001, 5, 6, &root, X), Ok(()));
        assert_eq!(check(Directory, 0, 5, 6, &root, R | W | X), Ok(()));
    }

    #[test]
    fn setgid_directories_pass_on_their_group() {
        let dir = Inherit { mode: 0o2775, uid: 1, gid: 50, project: 0 };
        assert_eq!(inherit(&dir, Directory, 0o755, &user(5, 6)), (0o2755, 50));
        assert_eq!(inherit(&dir, Regular, 0o2755, &user(5, 6)), (0o755, 50));
        assert_eq!(inherit(&dir, Regular, 0o644, &user(5, 6)), (0o644, 50));
        let plain = Inherit { mode: 0o755, ..dir };
        assert_eq!(inherit(&plain, Regular, 0o644, &user(5, 6)), (0o644, 6));
    }

    #[test]
    fn sticky_directories_protect_strangers_entries() {
        let dir = Inherit { mode: 0o1777, uid: 1, gid: 1, project: 0 };
        let of_five = Judged { mode: 0o644, uid: 5, gid: 5 };
        assert_eq!(check_sticky(&dir, of_five, &user(5, 5)), Ok(()));
        assert_eq!(check_sticky(&dir, of_five, &user(1, 5)), Ok(()));
        assert_eq!(check_sticky(&dir, of_five, &user(0, 0)), Ok(()));
        assert_eq!(check_sticky(&dir, of_five, &user(6, 5)), Err(Errno::EPERM));
    }

    fn judged(uid: u32, by: &[(u16, u32, u32)]) -> Credentials {
        let judged = by.iter().map(|&(mode, uid, gid)| Judged { mode, uid, gid }).collect();
        Credentials { uid, gid: uid, judge: Judge::Kernel(judged) }
    }

    #[test]
    fn what_a_kernel_decided_by_what_is_so_holds() {
        let by = judged(9, &[(0o700, 5, 6)]);
        assert_eq!(
            check(Directory, 0o700, 5, 6, &by, R | W | X),
            Ok(()),
            "it may hold a capability"
        );
        for (mode, uid, gid) in [(0o500, 5, 6), (0o700, 4, 6), (0o700, 5, 7)] {
            let changed = check(Directory, mode, uid, gid, &by, R);
            assert_eq!(changed, Err(Errno::ESTALE), "{mode:o} {uid} {gid}");
        }
        let alone = Credentials { judge: Judge::KernelAlone, ..by };
        assert_eq!(check(Directory, 0, 5, 6, &alone, R | W | X), Ok(()));
    }

    /// Whoever decided by what is not so any more may do what its user and group alone may, whatever its other groups.
    #[test]
    fn a_kernel_that_decided_by_what_was_is_believed_its_user_and_group_only() {
        let by = judged(9, &[(0o700, 5, 6)]);
        assert_eq!(check(Regular, 0o600, 9, 6, &by, R | W), Ok(()), "its owner");
        assert_eq!(check(Regular, 0o060, 5, 9, &by, R | W), Ok(()), "its group");
        assert_eq!(check(Regular, 0o044, 5, 7, &by, R), Ok(()), "whichever of both classes");
        assert_eq!(
            check(Regular, 0o004, 5, 7, &by, R),
            Err(Errno::ESTALE),
            "it may be of the group"
        );
        let root = judged(0, &[]);
        assert_eq!(
            check(Regular, 0o600, 5, 5, &root, R),
            Err(Errno::ESTALE),
            "without capabilities"
        );
    }

    #[test]
    fn a_kernel_judges_sticky_directories_by_both() {
        let dir = Inherit { mode: 0o1777, uid: 1, gid: 1, project: 0 };
        let (of_dir, entry) = ((0o1777, 1, 1), Judged { mode: 0o644, uid: 5, gid: 5 });
        assert_eq!(check_sticky(&dir, entry, &judged(9, &[of_dir, (0o644, 5, 5)])), Ok(()));
        assert_eq!(check_sticky(&dir, entry, &judged(9, &[of_dir])), Err(Errno::ESTALE));
        assert_eq!(check_sticky(&dir, entry, &judged(5, &[of_dir])), Ok(()), "its own");
    }

    #[test]
    fn a_kernel_takes_setgid_off_by_itself() {
        let dir = Inherit { mode: 0o2775, uid: 1, gid: 50, project: 0 };
        assert_eq!(inherit(&dir, Regular, 0o2755, &judged(5, &[])), (0o2755, 50));
        let alone = Credentials { judge: Judge::KernelAlone, ..user(5, 6) };
        assert_eq!(inherit(&dir, Regular, 0o2755, &alone), (0o2755, 50));
    }
}
