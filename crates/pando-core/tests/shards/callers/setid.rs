//! Setuid and setgid are cleared in the input that changes content or owner, for every caller.

use pando_types::op::{FileAt, FileRef, NewNode, Op, Payload, Piece};
use pando_types::reply::Body;
use pando_types::{
    Attr, Capability, Credentials, DirRef, Errno, FileKind, Judge, Kill, Powers, SetAttr,
};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const OWNER: u32 = 5;
const GROUP: u32 = 6;

/// A file of the owner with this mode, in a volume of its own.
fn file(kind: FileKind, mode: u16) -> (Cluster, FileRef) {
    let mut c = Cluster::new(1, 100);
    let node = NewNode { kind, mode: 0, rdev: 0, symlink: Vec::new() };
    let name = c.name("file");
    let create = Op::Create { dir: ROOT, name: name.clone(), node, exclusive: true, open: false };
    let Ok(Body::Created(made, true, _)) = c.on_owner(&create) else { panic!("made") };
    let file = FileRef { ino: made.ino, at: FileAt::Name(ROOT, name) };
    let owned = SetAttr { uid: Some(OWNER), gid: Some(GROUP), ..SetAttr::default() };
    c.done(&Op::SetAttr(file.clone(), SetAttr { mode: Some(mode), ..owned })).unwrap();
    (c, file)
}

fn stat(c: &mut Cluster, file: &FileRef) -> Attr {
    match c.on_owner(&Op::GetAttr(file.clone())) {
        Ok(Body::Attr(attr)) => attr,
        other => panic!("{other:?}"),
    }
}

/// The file's mode after `op` by this caller.
fn left(kind: FileKind, mode: u16, by: &Credentials, op: impl Fn(FileRef) -> Op) -> u16 {
    let (mut c, file) = file(kind, mode);
    c.by = by.clone();
    let op = op(file.clone());
    c.done(&op).unwrap_or_else(|errno| panic!("{op:?} by {by:?}: {errno:?}"));
    stat(&mut c, &file).mode
}

fn by_kernel(uid: u32, gid: u32) -> Credentials {
    Credentials { uid, gid, judge: Judge::Kernel }
}

fn set(set: SetAttr) -> impl Fn(FileRef) -> Op {
    move |file| Op::SetAttr(file, set.clone())
}

fn resize(kill: Option<Kill>) -> SetAttr {
    SetAttr { size: Some(3), kill, ..SetAttr::default() }
}

fn write(kill: Option<Kill>) -> impl Fn(FileRef) -> Op {
    move |file| {
        let pieces = vec![Piece { offset: 0, payload: Payload::Inline(b"x".to_vec()) }];
        Op::WriteData { file, base: None, pieces, mtime: None, kill }
    }
}

fn truncate(kill: Option<Kill>) -> impl Fn(FileRef) -> Op {
    move |file| Op::Open { file, access: 2, truncate: true, kill }
}

#[test]
fn a_change_of_content_takes_off_what_its_kernel_says() {
    let by = by_kernel(9, 9);
    let kills = [(None, 0o6777), (Some(Kill::UnlessOf(9)), 0o777), (Some(Kill::All), 0o777)];
    for (kill, expected) in kills {
        assert_eq!(left(FileKind::Regular, 0o6777, &by, write(kill)), expected, "{kill:?}");
        assert_eq!(left(FileKind::Regular, 0o6777, &by, set(resize(kill))), expected, "{kill:?}");
        assert_eq!(left(FileKind::Regular, 0o6777, &by, truncate(kill)), expected, "{kill:?}");
    }
    let kill = Some(Kill::UnlessOf(GROUP));
    assert_eq!(left(FileKind::Regular, 0o6767, &by, write(kill)), 0o2767, "of its group");
    assert_eq!(left(FileKind::Regular, 0o6767, &by, write(Some(Kill::UnlessOf(9)))), 0o767);
}

/// The shard computes this itself for a caller that it judges. What the client says does not count.
#[test]
fn the_shard_knows_the_groups_of_a_caller_that_it_judges() {
    let stranger = Credentials::new(9, 9, vec![]);
    let member = Credentials::new(9, 9, vec![GROUP]);
    for (by, mode, expected) in [
        (&stranger, 0o6777, 0o777),
        (&member, 0o6777, 0o777),
        (&stranger, 0o6767, 0o767),
        (&member, 0o6767, 0o2767),
        (&Credentials::ROOT, 0o6777, 0o6777),
    ] {
        assert_eq!(left(FileKind::Regular, mode, by, set(resize(None))), expected, "{by:?}");
        assert_eq!(left(FileKind::Regular, mode, by, truncate(None)), expected, "{by:?}");
        assert_eq!(left(FileKind::Regular, mode, by, write(None)), expected, "{by:?}");
    }
}

/// The owner, with this group and no other, and with permission to give files away.
fn may_give(gid: u32) -> Credentials {
    let all = vec![(0, u32::MAX)];
    let capabilities = 1 << Capability::Chown as u8;
    let powers = Powers { groups: vec![], capabilities, users: all.clone(), groups_known: all };
    Credentials { uid: OWNER, gid, judge: Judge::Powers(Box::new(powers)) }
}

#[test]
fn any_change_of_owner_takes_off_what_is_no_directorys() {
    let kinds = [
        FileKind::Regular,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];
    let owner = |uid, gid| SetAttr { uid, gid, ..SetAttr::default() };
    let sets = [
        owner(Some(OWNER), None),
        owner(None, Some(GROUP)),
        owner(Some(OWNER), Some(GROUP)),
        owner(Some(9), Some(9)),
    ];
    for (kind, change) in kinds.iter().flat_map(|kind| sets.iter().map(move |set| (*kind, set))) {
        let left = |mode, by: &Credentials| left(kind, mode, by, set(change.clone()));
        assert_eq!(left(0o6777, &Credentials::ROOT), 0o777, "{kind:?} {change:?}");
        assert_eq!(left(0o6767, &Credentials::ROOT), 0o2767, "{kind:?} {change:?}");
        assert_eq!(left(0o6767, &may_give(9)), 0o767, "{kind:?} {change:?}");
        assert_eq!(left(0o6767, &may_give(GROUP)), 0o2767, "{kind:?} {change:?}");
    }
    let both = SetAttr { mode: Some(0o4711), ..owner(Some(9), None) };
    let by = Credentials::ROOT;
    assert_eq!(left(FileKind::Regular, 0o6777, &by, set(both)), 0o4711, "a mode that is asked for");
    let mut c = Cluster::new(1, 100);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    let change = |set| Op::DirSetAttr(dir, set);
    c.done(&change(SetAttr { mode: Some(0o6777), ..SetAttr::default() })).unwrap();
    c.done(&change(owner(Some(9), Some(9)))).unwrap();
    c.done(&change(SetAttr { kill: Some(Kill::All), ..SetAttr::default() })).unwrap();
    let Ok(Body::Dir(attr)) = c.on_owner(&Op::DirGetAttr(dir)) else { panic!("there") };
    assert_eq!(attr.base.mode, 0o6777);
}

/// `chown(-1, -1)`. A kernel sends it, too, before a caller changes the content of a file.
#[test]
fn to_take_off_and_nothing_else_is_the_owners_and_roots() {
    let only = || set(SetAttr { kill: Some(Kill::UnlessOf(9)), ..SetAttr::default() });
    for by in [by_kernel(OWNER, 9), Credentials::new(OWNER, 9, vec![]), Credentials::ROOT] {
        assert_eq!(left(FileKind::Regular, 0o6777, &by, only()), 0o777, "{by:?}");
    }
    let strangers = [by_kernel(9, 9), Credentials::new(9, GROUP, vec![])];
    for by in strangers {
        let (mut c, file) = file(FileKind::Regular, 0o6777);
        let before = stat(&mut c, &file);
        c.by = by.clone();
        c.done(&only()(file.clone())).unwrap();
        assert_eq!(stat(&mut c, &file), before, "{by:?} changes nothing, its times neither");
    }
}

/// If only the caller's first group is known, it may or may not be in the file's group. The shard
/// asks for all groups, and does nothing until then.
#[test]
fn setgid_of_a_group_that_is_not_the_callers_first_waits_for_all_of_them() {
    let (mut c, file) = file(FileKind::Regular, 0o755);
    let chmod = |mode| {
        let mode = SetAttr { mode: Some(mode), ..SetAttr::default() };
        Op::SetAttr(file.clone(), mode)
    };
    c.by = by_kernel(OWNER, 9);
    assert_eq!(c.done(&chmod(0o2755)), Err(Errno::EPERM));
    assert_eq!(c.done(&chmod(0o4755)), Ok(()));
    assert_eq!(stat(&mut c, &file).mode, 0o4755);
    let powers = |groups| Judge::Powers(Box::new(Powers { groups, ..Powers::default() }));
    for (groups, expected) in [(vec![], 0o755), (vec![GROUP], 0o2755)] {
        c.by = Credentials { uid: OWNER, gid: 9, judge: powers(groups) };
        assert_eq!(c.done(&chmod(0o2755)), Ok(()));
        assert_eq!(stat(&mut c, &file).mode, expected);
    }
}
