//! Callers that the shard alone judges, such as those of a squashed key. The client may ask
//! anything, by any number that it knows.

use pando_types::op::{FileAt, FileRef, NewNode, Op, Payload, Piece, Target, XattrMode};
use pando_types::reply::{Body, Refusal};
use pando_types::{
    Credentials, DirRef, Errno, FileKind, Judge, Lock, LockKind, LockOwner, LockRange, LockSpace,
    Order, SetAttr, Trail,
};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const OWNER: u32 = 5;
const GROUP: u32 = 6;

fn user(uid: u32) -> Credentials {
    Credentials::new(uid, uid, Vec::new())
}

fn owned(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), uid: Some(OWNER), gid: Some(GROUP), ..SetAttr::default() }
}

/// A directory of the owner with this mode, and a file in it.
fn dir(shards: u16, mode: u16) -> (Cluster, DirRef) {
    let mut c = Cluster::new(shards, 100);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.create(dir, "file").unwrap();
    c.done(&Op::DirSetAttr(dir, owned(mode))).unwrap();
    (c, dir)
}

/// A node of the owner with this mode, in the root.
fn node(c: &mut Cluster, name: &str, kind: FileKind, mode: u16) -> FileRef {
    let symlink = if kind == FileKind::Symlink { b"there".to_vec() } else { Vec::new() };
    let (node, at) = (NewNode { kind, mode, rdev: 0, symlink }, c.name(name));
    let create = Op::Create { dir: ROOT, name: at.clone(), node, exclusive: true, open: false };
    let Ok(Body::Created(made, true, _)) = c.on_owner(&create) else { panic!("made") };
    let file = FileRef { ino: made.ino, at: FileAt::Name(ROOT, at) };
    c.done(&Op::SetAttr(file.clone(), owned(mode))).unwrap();
    file
}

fn file(c: &mut Cluster, mode: u16) -> FileRef {
    node(c, "file", FileKind::Regular, mode)
}

#[test]
fn a_listing_by_number_needs_the_right_to_read_or_the_directory_itself() {
    let kernel = Credentials { uid: 9, gid: 9, judge: Judge::Kernel };
    let table = [
        (0o700, user(9), Err(Errno::EACCES)),
        (0o711, user(9), Err(Errno::EACCES)),
        (0o750, Credentials::new(9, 9, vec![GROUP]), Ok(())),
        (0o704, user(9), Ok(())),
        (0o704, Credentials::new(9, 9, vec![GROUP]), Err(Errno::EACCES)),
        // The owner may have opened the directory before it removed its own permission.
        (0o300, user(OWNER), Ok(())),
        (0o000, Credentials::ROOT, Ok(())),
        (0o000, kernel, Ok(())),
    ];
    for (mode, by, expected) in table {
        let (mut c, dir) = dir(2, mode);
        c.by = by.clone();
        let list = Op::ReadDir { dir, from: Order(0), limit: 9 };
        assert_eq!(c.done(&list), expected, "{mode:o} by {by:?}");
    }
}

#[test]
fn a_listing_by_path_needs_the_right_to_read_whosever_it_is() {
    for (mode, expected) in [(0o300, Err(Refusal::Errno(Errno::EACCES))), (0o700, Ok(()))] {
        let (mut c, dir) = dir(1, mode);
        c.by = user(OWNER);
        let list = Op::ReadDir { dir, from: Order(0), limit: 9 };
        let trail = Trail { version: c.newest_version(), dirs: vec![ROOT.ino, dir.ino] };
        let shard = c.home(dir);
        let listed = c.ask(shard, (list, trail)).unwrap();
        assert_eq!(listed.map(drop), expected, "{mode:o}");
    }
}

#[test]
fn contents_need_the_right_or_the_file_itself() {
    let no = Err(Errno::EACCES);
    let table = [
        (0o600, user(9), no, no),
        (0o604, user(9), Ok(()), no),
        (0o602, user(9), no, Ok(())),
        (0o660, Credentials::new(9, 9, vec![GROUP]), Ok(()), Ok(())),
        (0o000, user(OWNER), Ok(()), Ok(())),
    ];
    for (mode, by, reads, writes) in table {
        let mut c = Cluster::new(1, 100);
        let file = file(&mut c, mode);
        c.by = by.clone();
        let read = Op::ReadData { file: file.clone(), offset: 0, len: 9 };
        assert_eq!(c.done(&read), reads, "{mode:o} by {by:?}");
        let pieces = vec![Piece { offset: 0, payload: Payload::Inline(b"x".to_vec()) }];
        let write =
            Op::WriteData { file: file.clone(), base: None, pieces, mtime: None, kill: None };
        assert_eq!(c.done(&write), writes, "{mode:o} by {by:?}");
        let by_handle = SetAttr { size: Some(0), size_by_handle: true, ..SetAttr::default() };
        assert_eq!(c.done(&Op::SetAttr(file.clone(), by_handle)), writes, "{mode:o} by {by:?}");
        let by_name = SetAttr { size: Some(0), ..SetAttr::default() };
        let expected = if mode == 0 { no } else { writes };
        assert_eq!(c.done(&Op::SetAttr(file, by_name)), expected, "{mode:o} by {by:?}");
    }
}

#[test]
fn a_further_name_needs_what_protected_hardlinks_asks_for() {
    use FileKind::{Fifo, Regular, Symlink};
    let kernel = Credentials { uid: 9, gid: 9, judge: Judge::Kernel };
    let no = Err(Errno::EPERM);
    let table = [
        (Regular, 0o600, user(9), no),
        (Regular, 0o604, user(9), no),
        (Regular, 0o602, user(9), no),
        (Regular, 0o606, user(9), Ok(())),
        (Regular, 0o4606, user(9), no),
        (Regular, 0o2616, user(9), no),
        (Regular, 0o2606, user(9), Ok(())),
        (Regular, 0o660, Credentials::new(9, 9, vec![GROUP]), Ok(())),
        (Fifo, 0o666, user(9), no),
        (Symlink, 0o777, user(9), no),
        (Fifo, 0o600, user(OWNER), Ok(())),
        (Symlink, 0o777, user(OWNER), Ok(())),
        (Regular, 0o4000, user(OWNER), Ok(())),
        (Regular, 0o600, Credentials::ROOT, Ok(())),
        (Regular, 0o600, kernel, Ok(())),
    ];
    for (shards, (kind, mode, by, expected)) in
        [1, 3].into_iter().flat_map(|shards| table.clone().map(|row| (shards, row)))
    {
        let mut c = Cluster::new(shards, 100);
        let open = c.mkdir(ROOT, "open").unwrap();
        let all_may = SetAttr { mode: Some(0o777), ..SetAttr::default() };
        c.done(&Op::DirSetAttr(open, all_may)).unwrap();
        let file = node(&mut c, "file", kind, mode);
        let link = |c: &Cluster, file: &FileRef, name| Op::Link(file.clone(), open, c.name(name));
        c.by = by.clone();
        let first = link(&c, &file, "first");
        assert_eq!(c.done(&first), expected, "{kind:?} {mode:o} by {by:?}");
        // The rule holds, too, once the inode is at its link shard.
        c.by = Credentials::ROOT;
        let second = link(&c, &file, "second");
        c.done(&second).unwrap();
        c.by = by.clone();
        let linked = FileRef { ino: file.ino, at: FileAt::Link };
        let third = link(&c, &linked, "third");
        assert_eq!(c.done(&third), expected, "{kind:?} {mode:o} by {by:?}, linked");
        c.settle();
        assert_eq!(c.in_flight(), [0; 4]);
    }
}

#[test]
fn values_of_extended_attributes_need_the_right_to_read() {
    for (mode, by, expected) in [
        (0o600, user(9), Err(Errno::EACCES)),
        (0o604, user(9), Ok(())),
        (0o000, user(OWNER), Err(Errno::EACCES)),
    ] {
        let mut c = Cluster::new(1, 100);
        let file = file(&mut c, mode);
        let target = Target::File(file);
        let set = Op::SetXattr {
            target: target.clone(),
            name: b"user.x".to_vec(),
            value: b"value".to_vec(),
            mode: XattrMode::Any,
        };
        c.done(&set).unwrap();
        c.by = by.clone();
        let got = Op::GetXattr(target, b"user.x".to_vec());
        assert_eq!(c.done(&got), expected, "{mode:o} by {by:?}");
    }
}

fn lock(owner: u64, space: LockSpace, kind: LockKind) -> Lock {
    Lock { space, owner: LockOwner(owner), range: LockRange::ALL, kind, pid: 7 }
}

/// Asks the shard that has the locks of an inode.
fn ask(c: &mut Cluster, op: Op) -> Result<Body, Refusal> {
    let (ino, wanted) = match &op {
        Op::Lock(ino, wanted) => (*ino, *wanted),
        Op::LockOf(target, wanted) => (target.ino(), *wanted),
        op => panic!("{op:?} is about no lock"),
    };
    let test = Op::TestLock(ino, wanted);
    let mut all = c.all();
    let at = all.find(|shard| matches!(c.run(*shard, test.clone()), Ok(Body::Lock(_))));
    let answer = c.run(at.expect("one has them"), op);
    c.settle();
    assert_eq!(c.in_flight(), [0; 4], "{answer:?}");
    // The position on which a lock rests does not matter here.
    answer.map(|body| if let Body::Locked(_) = body { Body::Lock(None) } else { body })
}

#[test]
fn a_lock_needs_the_right_that_it_is_asked_for_with_or_the_file_itself() {
    use LockKind::{Exclusive, Shared};
    use LockSpace::{Flock, Record};
    let kernel = Credentials { uid: 9, gid: 9, judge: Judge::Kernel };
    let table = [
        (0o600, user(9), [false, false, false]),
        (0o604, user(9), [true, true, false]),
        (0o602, user(9), [true, false, true]),
        (0o660, Credentials::new(9, 9, vec![GROUP]), [true, true, true]),
        (0o666, Credentials::new(9, 9, vec![GROUP]), [true, true, true]),
        (0o606, Credentials::new(9, 9, vec![GROUP]), [false, false, false]),
        (0o000, user(OWNER), [true, true, true]),
        (0o000, Credentials::ROOT, [true, true, true]),
        (0o000, kernel, [true, true, true]),
    ];
    for (shards, (mode, by, expected)) in
        [1, 3].into_iter().flat_map(|shards| table.clone().map(|row| (shards, row)))
    {
        let mut c = Cluster::new(shards, 100);
        let file = file(&mut c, mode);
        let dir = c.mkdir(ROOT, "dir").unwrap();
        c.done(&Op::DirSetAttr(dir, owned(mode))).unwrap();
        for step in ["entry", "link", "dir"] {
            let target = match step {
                "entry" => Target::File(file.clone()),
                "link" => {
                    c.by = Credentials::ROOT;
                    let name = c.name("link");
                    c.done(&Op::Link(file.clone(), ROOT, name)).unwrap();
                    Target::File(FileRef { ino: file.ino, at: FileAt::Link })
                }
                _ => Target::Dir(dir),
            };
            c.by = by.clone();
            for ((space, kind), may) in [(Flock, Exclusive), (Record, Shared), (Record, Exclusive)]
                .into_iter()
                .zip(expected)
            {
                let asked = ask(&mut c, Op::LockOf(target.clone(), lock(1, space, kind)));
                let expected =
                    if may { Ok(Body::Lock(None)) } else { Err(Refusal::Errno(Errno::EACCES)) };
                assert_eq!(asked, expected, "{step} {mode:o} {space:?} {kind:?} by {by:?}");
            }
        }
    }
}

#[test]
fn a_lock_of_an_inode_whose_place_is_not_told_is_refused() {
    for (by, expected) in [
        (user(OWNER), Err(Refusal::Errno(Errno::EACCES))),
        (Credentials::ROOT, Ok(Body::Lock(None))),
        (Credentials { judge: Judge::Kernel, ..user(9) }, Ok(Body::Lock(None))),
    ] {
        let mut c = Cluster::new(2, 100);
        let file = file(&mut c, 0o666);
        c.by = by.clone();
        let wanted = lock(1, LockSpace::Flock, LockKind::Shared);
        assert_eq!(ask(&mut c, Op::Lock(file.ino, wanted)), expected, "{by:?}");
    }
}

#[test]
fn a_lock_that_another_has_is_in_the_way_of_any_caller_and_a_file_elsewhere_is_told() {
    let mut c = Cluster::new(3, 100);
    let file = file(&mut c, 0o666);
    let exclusive = |owner| lock(owner, LockSpace::Record, LockKind::Exclusive);
    let target = |at| Target::File(FileRef { ino: file.ino, at });
    assert_eq!(ask(&mut c, Op::Lock(file.ino, exclusive(1))), Ok(Body::Lock(None)));
    c.by = user(9);
    let of = ask(&mut c, Op::LockOf(target(file.at.clone()), exclusive(2)));
    assert!(matches!(of, Ok(Body::Lock(Some(holder))) if holder.lock.owner == LockOwner(1)));
    for at in [FileAt::Link, FileAt::Name(ROOT, c.name("none"))] {
        let asked = ask(&mut c, Op::LockOf(target(at), exclusive(1)));
        assert_eq!(asked, Err(Refusal::NotUnderName));
    }
}
