//! Who may do what, as Linux decides it (`generic_permission`, `setattr_prepare`, `may_delete`).

use pando_types::op::AccessMask;
use pando_types::peer::Inherit;
use pando_types::{Attr, Credentials, Errno, FileKind, Search, SetAttr, TimeSet};

/// Read.
pub const R: AccessMask = 4;
/// Write.
pub const W: AccessMask = 2;
/// Execute or search.
pub const X: AccessMask = 1;

const SETUID: u16 = 0o4000;
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
    let allowed = if by.uid == 0 {
        if kind == FileKind::Directory || mode & 0o111 != 0 { R | W | X } else { R | W }
    } else if by.uid == uid {
        (mode >> 6) as u8 & 7
    } else if by.in_group(gid) {
        (mode >> 3) as u8 & 7
    } else {
        mode as u8 & 7
    };
    if mask & !allowed == 0 { Ok(()) } else { Err(Errno::EACCES) }
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
pub fn check_sticky(dir: &Inherit, entry_uid: u32, by: &Credentials) -> Result<(), Errno> {
    if dir.mode & STICKY != 0 && by.uid != 0 && by.uid != entry_uid && by.uid != dir.uid {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Mode and group of what is made in a directory (`inode_init_owner`).
pub fn inherit(dir: &Inherit, kind: FileKind, mode: u16, by: &Credentials) -> (u16, u32) {
    let mode = mode & 0o7777;
    if dir.mode & SETGID == 0 {
        return (mode, by.gid);
    }
    match kind {
        FileKind::Directory => (mode | SETGID, dir.gid),
        _ if mode & (SETGID | 0o010) == (SETGID | 0o010)
            && by.uid != 0
            && !by.in_group(dir.gid) =>
        {
            (mode & !SETGID, dir.gid)
        }
        _ => (mode, dir.gid),
    }
}

/// Checks a `setattr` on `attr`, and returns it with the side effects Linux adds (cleared setgid).
pub fn check_setattr(attr: &Attr, set: &SetAttr, by: &Credentials) -> Result<SetAttr, Errno> {
    let owner = by.uid == 0 || by.uid == attr.uid;
    let mut set = set.clone();
    if set.uid.is_some_and(|uid| by.uid != 0 && (by.uid != attr.uid || uid != attr.uid)) {
        return Err(Errno::EPERM);
    }
    if let Some(gid) = set.gid {
        let member = gid == attr.gid || by.in_group(gid);
        if by.uid != 0 && (by.uid != attr.uid || !member) {
            return Err(Errno::EPERM);
        }
    }
    if let Some(mode) = set.mode {
        if !owner && !only_drops_privilege(attr, mode) {
            return Err(Errno::EPERM);
        }
        let gid = set.gid.unwrap_or(attr.gid);
        if by.uid != 0 && !by.in_group(gid) {
            set.mode = Some(mode & 0o7777 & !SETGID);
        }
    }
    if set.size.is_some() && !set.size_by_handle {
        check_attr(attr, by, W)?;
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        match time {
            TimeSet::To(_) if !owner => return Err(Errno::EPERM),
            TimeSet::Now if !owner => check_attr(attr, by, W)?,
            _ => {}
        }
    }
    Ok(set)
}

/// The kernel clears setuid and setgid itself when a stranger writes: a mode change in the writer's name that does
/// nothing else, and only where that stranger could write.
fn only_drops_privilege(attr: &Attr, mode: u16) -> bool {
    attr.kind == FileKind::Regular
        && attr.mode & (SETUID | SETGID) != 0
        && mode & 0o7777 & !attr.mode == 0
        && attr.mode & !(mode & 0o7777) & !(SETUID | SETGID) == 0
        && mode & 0o7777 != attr.mode
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileKind::{Directory, Regular};
    use alloc::vec;

    fn user(uid: u32, gid: u32) -> Credentials {
        Credentials { uid, gid, groups: vec![] }
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
        assert_eq!(check_sticky(&dir, 5, &user(5, 5)), Ok(()));
        assert_eq!(check_sticky(&dir, 5, &user(1, 5)), Ok(()));
        assert_eq!(check_sticky(&dir, 5, &user(0, 0)), Ok(()));
        assert_eq!(check_sticky(&dir, 5, &user(6, 5)), Err(Errno::EPERM));
    }
}
