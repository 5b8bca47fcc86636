//! Permission checks: what a caller may do, as Linux decides it (`generic_permission`,
//! `setattr_prepare`, `may_delete`).

use pando_types::op::AccessMask;
use pando_types::peer::Inherit;
use pando_types::{
    Attr, Capability, Credentials, Errno, FileKind, Judge, Judged, Kill, Lock, LockKind, LockSpace,
    Search, SetAttr, TimeSet, Timestamp,
};

/// Permission to read.
pub const R: AccessMask = 4;
/// Permission to write.
pub const W: AccessMask = 2;
/// Permission to execute a file or search a directory.
pub const X: AccessMask = 1;

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
/// Mode bits of a setgid program: setgid, and the group may execute it.
const SETGID_PROGRAM: u16 = SETGID | 0o010;
const STICKY: u16 = 0o1000;

/// Whether `by` has all of `mask` on an object with this kind, mode, owner and group; else
/// `EACCES`. User 0 has, but for executing a file that no execute bit allows.
pub fn check(
    kind: FileKind,
    mode: u16,
    uid: u32,
    gid: u32,
    credentials: &Credentials,
    mask: AccessMask,
) -> Result<(), Errno> {
    let class = |shift: u16| (mode >> shift) as u8 & 7;
    let may_be_run = kind == FileKind::Directory || mode & 0o111 != 0;
    let allowed = match (&credentials.judge, credentials.uid) {
        (Judge::Kernel, 0) => R | W | X,
        (Judge::Shard(_), 0) if may_be_run => R | W | X,
        (Judge::Shard(_), 0) => R | W,
        (_, user) if user == uid => class(6),
        _ if credentials.in_group(gid) => class(3),
        // The kernel's caller may or may not be in the group, so only what both classes allow is
        // sure.
        (Judge::Kernel, _) => class(3) & class(0),
        _ => class(0),
    };
    if mask & !allowed == 0 {
        return Ok(());
    }
    let has = |capability| may_by(capability, uid, Some(gid), credentials);
    let (reads, overrides) = match kind {
        FileKind::Directory => (mask & W == 0, true),
        _ => (mask == R, mask & X == 0 || may_be_run),
    };
    let is_overridden =
        reads && has(Capability::DacReadSearch) || overrides && has(Capability::DacOverride);
    if is_overridden { Ok(()) } else { Err(Errno::EACCES) }
}

/// Whether `by` is known to have a capability over files of this user and group.
fn may_by(capability: Capability, uid: u32, gid: Option<u32>, credentials: &Credentials) -> bool {
    match &credentials.judge {
        Judge::Powers(powers) => powers.over(capability, uid, gid),
        Judge::Shard(_) | Judge::Kernel => false,
    }
}

/// Whether `by` is user 0 without known limits: its capabilities were not told, or its kernel has
/// judged them.
fn is_root(credentials: &Credentials) -> bool {
    credentials.uid == 0 && !matches!(credentials.judge, Judge::Powers(_))
}

/// Whether `by` may do what the owner of this inode may.
pub fn owns(of: Judged, credentials: &Credentials) -> bool {
    is_root(credentials)
        || credentials.uid == of.uid
        || may_by(Capability::Fowner, of.uid, None, credentials)
}

/// Whether `by` may give setgid to a file of this group (`in_group_or_capable`). `None`: it is not
/// known.
fn gives_setgid(uid: u32, gid: u32, credentials: &Credentials) -> Option<bool> {
    let may = is_root(credentials)
        || credentials.in_group(gid)
        || may_by(Capability::Fsetid, uid, Some(gid), credentials);
    match credentials.judge {
        Judge::Kernel if !may => None,
        _ => Some(may),
    }
}

/// [`check`] on a file's attributes.
pub fn check_attr(attr: &Attr, credentials: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    check(attr.kind, attr.mode, attr.uid, attr.gid, credentials, mask)
}

/// Whether a file's owner and mode let a caller open it so. If not, the shard may know more.
pub fn may(attr: &Attr, credentials: &Credentials, access: AccessMask) -> bool {
    check_attr(attr, credentials, access).is_ok()
}

/// Whether the shard alone judges this caller. No trusted kernel has judged it: its key fixes the
/// user as which it acts.
pub fn judges_alone(credentials: &Credentials) -> bool {
    credentials.uid != 0 && matches!(credentials.judge, Judge::Shard(_))
}

/// Checks access through an open file. Linux checks permission at open time, but a shard keeps no
/// record of that check. So a caller that the shard alone judges needs the permission now, or must
/// own the file. An owner passes, since it could give itself the permission
/// (`NFSD_MAY_OWNER_OVERRIDE`). All other callers pass, because their kernel has judged.
pub fn check_held(attr: &Attr, credentials: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    if !judges_alone(credentials) || credentials.uid == attr.uid {
        Ok(())
    } else {
        check_attr(attr, credentials, mask)
    }
}

/// Checks a later page of a listing. A caller that the shard alone judges must be allowed to read
/// the directory now, or must own it.
pub fn check_listing(dir: &Inherit, credentials: &Credentials) -> Result<(), Errno> {
    if !judges_alone(credentials) || credentials.uid == dir.uid {
        Ok(())
    } else {
        check_dir(dir, credentials, R)
    }
}

/// Checks a program's lock by the open mode that Linux requires. `flock` needs a file that is open
/// in any mode. A shared `fcntl` lock needs one open for reading, an exclusive lock one open for
/// writing.
pub fn check_lock(attr: &Attr, credentials: &Credentials, lock: &Lock) -> Result<(), Errno> {
    let may = |mask| check_held(attr, credentials, mask);
    match (lock.space, lock.kind) {
        (LockSpace::Flock, _) => may(R).or_else(|_| may(W)),
        (LockSpace::Record, LockKind::Shared) => may(R),
        (LockSpace::Record, LockKind::Exclusive) => may(W),
    }
}

/// Checks whether a file may get a further name (`may_linkat` with `fs.protected_hardlinks`). Its
/// owner could not remove the file any more, and others may read the directory of the new name.
/// Callers with a kernel of their own pass, because that kernel has judged.
pub fn check_link(attr: &Attr, credentials: &Credentials) -> Result<(), Errno> {
    let is_program = attr.mode & SETUID != 0 || attr.mode & SETGID_PROGRAM == SETGID_PROGRAM;
    let is_safe = || {
        attr.kind == FileKind::Regular
            && !is_program
            && check_attr(attr, credentials, R | W).is_ok()
    };
    if !judges_alone(credentials) || credentials.uid == attr.uid || is_safe() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// [`check`] on the directory to which a partition belongs.
pub fn check_dir(dir: &Inherit, credentials: &Credentials, mask: AccessMask) -> Result<(), Errno> {
    check(FileKind::Directory, dir.mode, dir.uid, dir.gid, credentials, mask)
}

/// The attributes that decide which users may search the directory to which a partition belongs.
pub const fn search(dir: &Inherit) -> Search {
    Search::new(dir.mode, dir.uid, dir.gid)
}

/// Checks a removal or rename in a sticky directory. Only the entry's owner, the directory's owner
/// and root may do it; else `EPERM`.
pub fn check_sticky(dir: &Inherit, entry: Judged, credentials: &Credentials) -> Result<(), Errno> {
    let may = dir.mode & STICKY == 0
        || [entry.uid, dir.uid].contains(&credentials.uid)
        || is_root(credentials)
        || may_by(Capability::Fowner, entry.uid, Some(entry.gid), credentials);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Mode and group of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inherited {
    pub mode: u16,
    pub gid: u32,
}

/// What an inode that is made in a directory gets (`inode_init_owner`). `EPERM`: whether it may be
/// setgid is not known.
pub fn inherit(
    dir: &Inherit,
    kind: FileKind,
    mode: u16,
    credentials: &Credentials,
) -> Result<Inherited, Errno> {
    let mode = mode & 0o7777;
    if dir.mode & SETGID == 0 {
        return Ok(Inherited { mode, gid: credentials.gid });
    }
    let inherited = |mode| Ok(Inherited { mode, gid: dir.gid });
    if kind == FileKind::Directory {
        return inherited(mode | SETGID);
    }
    if mode & SETGID_PROGRAM != SETGID_PROGRAM {
        return inherited(mode);
    }
    match gives_setgid(dir.uid, dir.gid, credentials) {
        Some(true) => inherited(mode),
        Some(false) => inherited(mode & !SETGID),
        None => Err(Errno::EPERM),
    }
}

/// Checks that a timestamp from a client is valid; else `EINVAL`. Other clients calculate with it.
pub fn check_time(time: Timestamp) -> Result<(), Errno> {
    if time.is_valid() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Checks a `setattr` on `attr`, and returns it with the side effects that Linux adds (cleared
/// setgid).
pub fn check_setattr(
    attr: &Attr,
    set: &SetAttr,
    credentials: &Credentials,
) -> Result<SetAttr, Errno> {
    for time in [set.atime, set.mtime].into_iter().flatten() {
        if let TimeSet::To(time) = time {
            check_time(time)?;
        }
    }
    let owner = owns(attr.into(), credentials);
    let may_give =
        is_root(credentials) || may_by(Capability::Chown, attr.uid, Some(attr.gid), credentials);
    let mut set = set.clone();
    if set.uid.is_some_and(|uid| !may_give && (credentials.uid != attr.uid || uid != attr.uid)) {
        return Err(Errno::EPERM);
    }
    if let Some(gid) = set.gid {
        let member = gid == attr.gid || credentials.in_group(gid);
        if !may_give && (credentials.uid != attr.uid || !member) {
            return Err(Errno::EPERM);
        }
    }
    if (set.uid.is_some() || set.gid.is_some()) && !is_kill_known(attr, credentials) {
        return Err(Errno::EPERM);
    }
    if let Some(mode) = set.mode {
        if !owner {
            return Err(Errno::EPERM);
        }
        if mode & SETGID != 0 {
            match gives_setgid(attr.uid, set.gid.unwrap_or(attr.gid), credentials) {
                Some(true) => {}
                Some(false) => set.mode = Some(mode & !SETGID),
                None => return Err(Errno::EPERM),
            }
        }
    }
    match set.size {
        Some(_) if !set.size_by_handle => check_attr(attr, credentials, W)?,
        // That the file was opened for writing is only the client's claim.
        Some(_) if judges_alone(credentials) => check_held(attr, credentials, W)?,
        _ => {}
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        match time {
            TimeSet::To(_) if !owner => return Err(Errno::EPERM),
            TimeSet::Now if !owner => check_attr(attr, credentials, W)?,
            _ => {}
        }
    }
    Ok(set)
}

/// Whether it is known what a change of owner clears. It depends on the caller's groups if the file
/// has setgid and its group may not execute it.
fn is_kill_known(attr: &Attr, credentials: &Credentials) -> bool {
    let depends = attr.kind != FileKind::Directory && attr.mode & SETGID_PROGRAM == SETGID;
    !depends || gives_setgid(attr.uid, attr.gid, credentials).is_some()
}

/// What a change by this caller clears. A caller in the file's group, or with a known `CAP_FSETID`,
/// clears setuid, and setgid of a program. Any other caller clears both in any case.
fn kill_by(attr: &Attr, credentials: &Credentials) -> Kill {
    let keeps = credentials.in_group(attr.gid)
        || may_by(Capability::Fsetid, attr.uid, Some(attr.gid), credentials);
    if keeps { Kill::Programs } else { Kill::All }
}

/// What a change of content clears (`setattr_should_drop_suidgid`). `told` is what the caller or
/// its kernel asks for.
pub fn kill_by_content(attr: &Attr, credentials: &Credentials, told: Option<Kill>) -> Option<Kill> {
    match credentials.judge {
        Judge::Shard(_) if credentials.uid != 0 => Some(
            told.map_or(kill_by(attr, credentials), |kill| kill.and(kill_by(attr, credentials))),
        ),
        _ => told,
    }
}

/// What a checked `setattr` clears of setuid and setgid (`chown_common`, `do_truncate`).
pub fn kill_by_setattr(attr: &Attr, set: &SetAttr, credentials: &Credentials) -> Option<Kill> {
    let owner = owns(attr.into(), credentials);
    if attr.kind == FileKind::Directory {
        None
    } else if set.uid.is_some() || set.gid.is_some() {
        // Whether a kernel's user 0 has `CAP_FSETID` is not told. Most have it.
        Some(if credentials.uid == 0 { Kill::Programs } else { kill_by(attr, credentials) })
    } else if set.size.is_some() {
        kill_by_content(attr, credentials, set.kill)
    } else {
        set.kill.filter(|_| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileKind::{Directory, Regular};
    use alloc::boxed::Box;
    use alloc::vec;
    use pando_types::Powers;

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
    fn root_may_all_but_execute_what_no_user_may() {
        let root = Credentials::ROOT;
        assert_eq!(check(Regular, 0, 5, 6, &root, R | W), Ok(()));
        assert_eq!(check(Regular, 0, 5, 6, &root, X), Err(Errno::EACCES));
        assert_eq!(check(Regular, 0o001, 5, 6, &root, X), Ok(()));
        assert_eq!(check(Directory, 0, 5, 6, &root, R | W | X), Ok(()));
    }

    fn inherited(mode: u16, gid: u32) -> Result<Inherited, Errno> {
        Ok(Inherited { mode, gid })
    }

    #[test]
    fn setgid_directories_pass_on_their_group() {
        let dir = Inherit { mode: 0o2775, uid: 1, gid: 50, project: 0 };
        assert_eq!(inherit(&dir, Directory, 0o755, &user(5, 6)), inherited(0o2755, 50));
        assert_eq!(inherit(&dir, Regular, 0o2755, &user(5, 6)), inherited(0o755, 50));
        assert_eq!(inherit(&dir, Regular, 0o644, &user(5, 6)), inherited(0o644, 50));
        let plain = Inherit { mode: 0o755, ..dir };
        assert_eq!(inherit(&plain, Regular, 0o644, &user(5, 6)), inherited(0o644, 6));
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

    fn kernel(uid: u32) -> Credentials {
        Credentials { uid, gid: uid, judge: Judge::Kernel }
    }

    /// Credentials of user and group 9, in a user namespace with one range of users and groups.
    fn powers(
        groups: &[u32],
        capabilities: &[Capability],
        (first, count): (u32, u32),
    ) -> Credentials {
        let powers = Powers {
            groups: groups.to_vec(),
            capabilities: capabilities.iter().map(|capability| 1 << *capability as u8).sum(),
            users: vec![(first, count)],
            groups_known: vec![(first, count)],
        };
        Credentials { uid: 9, gid: 9, judge: Judge::Powers(Box::new(powers)) }
    }

    const ALL: (u32, u32) = (0, u32::MAX);

    #[test]
    fn a_caller_known_by_user_and_group_only_may_what_these_may_in_any_case() {
        let by = kernel(9);
        let no = Err(Errno::EACCES);
        assert_eq!(check(Regular, 0o600, 9, 6, &by, R | W), Ok(()), "its owner");
        assert_eq!(check(Regular, 0o060, 5, 9, &by, R | W), Ok(()), "its group");
        assert_eq!(check(Regular, 0o044, 5, 7, &by, R), Ok(()), "whichever of both classes");
        assert_eq!(check(Regular, 0o004, 5, 7, &by, R), no, "it may be of the group");
        assert_eq!(check(Regular, 0o040, 5, 7, &by, R), no, "or not");
        assert_eq!(check(Directory, 0o700, 5, 6, &by, X), no);
        assert_eq!(check(Regular, 0, 5, 5, &kernel(0), R | W | X), Ok(()), "as its kernel says");
    }

    #[test]
    fn groups_and_capabilities_count_where_they_are_known() {
        use Capability::{Chown, DacOverride, DacReadSearch, Fowner, Fsetid};
        let no = Err(Errno::EACCES);
        assert_eq!(check(Regular, 0o040, 5, 7, &powers(&[7], &[], ALL), R), Ok(()));
        assert_eq!(check(Regular, 0o004, 5, 7, &powers(&[7], &[], ALL), R), no);
        let search = powers(&[], &[DacReadSearch], ALL);
        assert_eq!(check(Regular, 0, 5, 7, &search, R), Ok(()));
        assert_eq!(check(Directory, 0, 5, 7, &search, R | X), Ok(()));
        assert_eq!(check(Regular, 0, 5, 7, &search, R | W), no);
        assert_eq!(check(Directory, 0, 5, 7, &search, W), no);
        let overrides = powers(&[], &[DacOverride], (5, 3));
        assert_eq!(check(Regular, 0, 5, 7, &overrides, R | W), Ok(()));
        assert_eq!(check(Regular, 0, 5, 7, &overrides, X), no, "nobody may");
        assert_eq!(check(Directory, 0, 5, 7, &overrides, R | W | X), Ok(()));
        assert_eq!(check(Directory, 0, 8, 7, &overrides, X), no, "no user of its namespace");
        assert_eq!(check(Directory, 0, 7, 8, &overrides, X), no, "nor group");
        let file = attr(0o644, 5, 7);
        let set =
            |set: SetAttr, by: &Credentials| check_setattr(&file, &set, by).map(|set| set.mode);
        let chmod = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
        let chown = SetAttr { uid: Some(9), ..SetAttr::default() };
        let not = Err(Errno::EPERM);
        for by in [kernel(9), powers(&[7], &[DacOverride], ALL)] {
            assert_eq!((set(chmod(0o600), &by), set(chown.clone(), &by)), (not, not));
        }
        assert_eq!(set(chown, &powers(&[], &[Chown], ALL)), Ok(None));
        assert_eq!(set(chmod(0o2755), &powers(&[], &[Fowner], ALL)), Ok(Some(0o755)));
        assert_eq!(set(chmod(0o2755), &powers(&[7], &[Fowner], ALL)), Ok(Some(0o2755)));
        assert_eq!(set(chmod(0o2755), &powers(&[], &[Fowner, Fsetid], ALL)), Ok(Some(0o2755)));
    }

    fn attr(mode: u16, uid: u32, gid: u32) -> Attr {
        let zero = Timestamp::default();
        Attr {
            ino: pando_types::Ino(2),
            kind: Regular,
            mode,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            size: 0,
            atime: zero,
            mtime: zero,
            ctime: zero,
            btime: zero,
            data_version: 0,
            change: 0,
            project: 0,
        }
    }

    #[test]
    fn a_sticky_directory_is_no_matter_of_groups() {
        let dir = Inherit { mode: 0o1777, uid: 1, gid: 1, project: 0 };
        let entry = Judged { mode: 0o644, uid: 5, gid: 5 };
        assert_eq!(check_sticky(&dir, entry, &kernel(9)), Err(Errno::EPERM));
        assert_eq!(check_sticky(&dir, entry, &kernel(5)), Ok(()), "its own");
        assert_eq!(check_sticky(&dir, entry, &kernel(0)), Ok(()));
        let owner = |of| powers(&[5], &[Capability::Fowner], of);
        assert_eq!(check_sticky(&dir, entry, &owner(ALL)), Ok(()));
        assert_eq!(check_sticky(&dir, entry, &owner((6, 9))), Err(Errno::EPERM));
    }

    #[test]
    fn setgid_of_a_foreign_group_is_given_only_by_a_caller_known_to_be_in_it() {
        let dir = Inherit { mode: 0o2775, uid: 1, gid: 50, project: 0 };
        let made = |by: &Credentials| inherit(&dir, Regular, 0o2755, by);
        assert_eq!(made(&kernel(9)), Err(Errno::EPERM));
        assert_eq!(made(&kernel(50)), inherited(0o2755, 50));
        assert_eq!(made(&powers(&[50], &[], ALL)), inherited(0o2755, 50));
        assert_eq!(made(&powers(&[], &[], ALL)), inherited(0o755, 50));
        assert_eq!(made(&powers(&[], &[Capability::Fsetid], ALL)), inherited(0o2755, 50));
        assert_eq!(inherit(&dir, Regular, 0o2745, &kernel(9)), inherited(0o2745, 50));
    }
}
