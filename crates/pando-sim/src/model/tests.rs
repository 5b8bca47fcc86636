//! Tables of what Linux answers.
//!
//! ```text
//!   /            2 d (0755, root)      directory with  f (file 3), s (directory 4, empty)
//!                5 t (01777, root)     sticky, with     a (file 6 of user 1), b (directory 7 of user 1, with x 8)
//!                9 p (0700, user 2)    private, with    q (file 10)
//!               11 g (02777, group 7)  setgid
//!               12 l (symlink)
//! ```

use pando_types::op::{RenameFlags, XattrMode};
use pando_types::{Credentials, Errno, FileKind, Ino, Name, SetAttr};

use crate::model::{Call, Op, Outcome, Tree, Value};

const ROOT: u32 = 0;
const PLAIN: RenameFlags = RenameFlags { no_replace: false, exchange: false };
const KEEP: RenameFlags = RenameFlags { no_replace: true, exchange: false };
const SWAP: RenameFlags = RenameFlags { no_replace: false, exchange: true };

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

fn run(tree: &mut Tree, uid: u32, op: Op, new: u64) -> Outcome {
    let credentials = Credentials::new(uid, uid, Vec::new());
    tree.apply(&Call { who: uid, credentials, op }, Ino(new))
}

fn file(dir: u64, at: &str, mode: u16) -> Op {
    Op::Create {
        dir: Ino(dir),
        name: name(at),
        kind: FileKind::Regular,
        mode,
        symlink: Vec::new(),
        exclusive: true,
        open: false,
    }
}

fn mkdir(dir: u64, at: &str, mode: u16) -> Op {
    Op::Mkdir(Ino(dir), name(at), mode)
}

fn rename(from: u64, old: &str, to: u64, new: &str, flags: RenameFlags) -> Op {
    Op::Rename { from: Ino(from), name: name(old), to: Ino(to), new_name: name(new), flags }
}

fn chmod(ino: u64, mode: u16) -> Op {
    Op::SetAttr(Ino(ino), SetAttr { mode: Some(mode), ..SetAttr::default() })
}

fn chown(ino: u64, uid: Option<u32>, gid: Option<u32>) -> Op {
    Op::SetAttr(Ino(ino), SetAttr { uid, gid, ..SetAttr::default() })
}

fn sample() -> Tree {
    let mut tree = Tree::new();
    let link = Op::Create {
        dir: Ino(1),
        name: name("l"),
        kind: FileKind::Symlink,
        mode: 0o600,
        symlink: b"d/f".to_vec(),
        exclusive: true,
        open: false,
    };
    let steps = [
        (ROOT, mkdir(1, "d", 0o755), 2),
        (ROOT, file(2, "f", 0o644), 3),
        (ROOT, mkdir(2, "s", 0o755), 4),
        (ROOT, mkdir(1, "t", 0o1777), 5),
        (1, file(5, "a", 0o644), 6),
        (1, mkdir(5, "b", 0o777), 7),
        (1, file(7, "x", 0o644), 8),
        (ROOT, mkdir(1, "p", 0o700), 9),
        (ROOT, chown(9, Some(2), Some(2)), 0),
        (2, file(9, "q", 0o600), 10),
        (ROOT, mkdir(1, "g", 0o777), 11),
        (ROOT, chown(11, None, Some(7)), 0),
        (ROOT, chmod(11, 0o2777), 0),
        (ROOT, link, 12),
    ];
    for (uid, op, new) in steps {
        run(&mut tree, uid, op.clone(), new).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
    }
    tree
}

/// Runs each operation on a fresh sample tree. `None` means success.
fn check(table: &[(u32, Op, Option<Errno>)]) {
    for (uid, op, expected) in table {
        let before = sample();
        let mut tree = before.clone();
        let outcome = run(&mut tree, *uid, op.clone(), 99);
        assert_eq!(outcome.as_ref().err(), expected.as_ref(), "user {uid}: {op:?}");
        if outcome.is_err() {
            assert_eq!(
                tree.fingerprint(),
                before.fingerprint(),
                "a failure changes nothing: {op:?}"
            );
        }
        let summed =
            tree.nodes().fold(0_u64, |sum, (ino, node)| sum.wrapping_add(node.fingerprint(ino)));
        assert_eq!(tree.fingerprint(), summed, "{op:?}");
    }
}

#[test]
fn lookups_and_creates_fail_in_linux_order() {
    use Errno::*;
    check(&[
        (1, Op::Lookup(Ino(2), name("f")), None),
        (1, Op::Lookup(Ino(2), name("no")), Some(ENOENT)),
        (1, Op::Lookup(Ino(9), name("no")), Some(EACCES)),
        (1, Op::Lookup(Ino(3), name("f")), Some(ENOTDIR)),
        (1, Op::Lookup(Ino(77), name("f")), Some(ESTALE)),
        (1, file(2, "f", 0o644), Some(EEXIST)),
        (1, file(2, "new", 0o644), Some(EACCES)),
        (1, file(9, "q", 0o644), Some(EACCES)),
        (2, file(9, "q", 0o644), Some(EEXIST)),
        (1, mkdir(2, "s", 0o755), Some(EEXIST)),
        (1, mkdir(2, "new", 0o755), Some(EACCES)),
        (ROOT, mkdir(3, "new", 0o755), Some(ENOTDIR)),
        (ROOT, mkdir(77, "new", 0o755), Some(ESTALE)),
        (1, Op::Link(Ino(3), Ino(2), name("s")), Some(EEXIST)),
        (1, Op::Link(Ino(3), Ino(2), name("new")), Some(EACCES)),
        (1, Op::Link(Ino(2), Ino(2), name("new")), Some(EACCES)),
        (ROOT, Op::Link(Ino(4), Ino(2), name("new")), Some(EPERM)),
        (ROOT, Op::Link(Ino(77), Ino(2), name("new")), Some(ESTALE)),
        (1, Op::Link(Ino(3), Ino(5), name("new")), Some(EPERM)),
        (2, Op::Link(Ino(6), Ino(5), name("new")), Some(EPERM)),
        (1, Op::Link(Ino(6), Ino(5), name("new")), None),
        (ROOT, Op::Link(Ino(6), Ino(5), name("new")), None),
    ]);
}

#[test]
fn removals_fail_in_linux_order() {
    use Errno::*;
    let unlink = |dir, at| Op::Unlink(Ino(dir), name(at));
    let rmdir = |dir, at| Op::Rmdir(Ino(dir), name(at));
    check(&[
        (1, unlink(2, "no"), Some(ENOENT)),
        (1, unlink(2, "f"), Some(EACCES)),
        (1, unlink(2, "s"), Some(EACCES)),
        (ROOT, unlink(2, "s"), Some(EISDIR)),
        (2, unlink(5, "b"), Some(EPERM)),
        (2, unlink(5, "a"), Some(EPERM)),
        (1, unlink(5, "a"), None),
        (1, unlink(9, "q"), Some(EACCES)),
        (1, rmdir(2, "s"), Some(EACCES)),
        (ROOT, rmdir(2, "f"), Some(ENOTDIR)),
        (2, rmdir(5, "b"), Some(EPERM)),
        (2, rmdir(5, "a"), Some(EPERM)),
        (1, rmdir(5, "b"), Some(ENOTEMPTY)),
        (ROOT, rmdir(2, "s"), None),
    ]);
}

#[test]
fn renames_fail_in_linux_order() {
    use Errno::*;
    check(&[
        (ROOT, rename(2, "f", 1, "new", PLAIN), None),
        (ROOT, rename(2, "f", 2, "f", PLAIN), None),
        (ROOT, rename(2, "f", 2, "f", KEEP), Some(EEXIST)),
        (ROOT, rename(2, "no", 2, "f", PLAIN), Some(ENOENT)),
        (ROOT, rename(2, "no", 2, "f", KEEP), Some(ENOENT)),
        (ROOT, rename(2, "f", 2, "s", KEEP), Some(EEXIST)),
        (ROOT, rename(2, "f", 2, "s", PLAIN), Some(EISDIR)),
        (ROOT, rename(2, "s", 2, "f", PLAIN), Some(ENOTDIR)),
        (ROOT, rename(2, "s", 5, "b", PLAIN), Some(ENOTEMPTY)),
        (ROOT, rename(2, "f", 5, "b", PLAIN), Some(EISDIR)),
        (ROOT, rename(1, "d", 2, "new", PLAIN), Some(EINVAL)),
        (ROOT, rename(1, "d", 4, "new", PLAIN), Some(EINVAL)),
        (ROOT, rename(2, "f", 1, "d", PLAIN), Some(ENOTEMPTY)),
        (ROOT, rename(2, "s", 1, "d", PLAIN), Some(ENOTEMPTY)),
        (ROOT, rename(2, "f", 1, "d", SWAP), Some(EINVAL)),
        (ROOT, rename(2, "f", 2, "no", SWAP), Some(ENOENT)),
        (ROOT, rename(2, "f", 2, "s", SWAP), None),
        (ROOT, rename(2, "f", 5, "b", SWAP), None),
        (
            ROOT,
            rename(2, "f", 2, "g", RenameFlags { no_replace: true, exchange: true }),
            Some(EINVAL),
        ),
        (ROOT, rename(2, "f", 77, "g", PLAIN), Some(ESTALE)),
        (ROOT, rename(2, "f", 3, "g", PLAIN), Some(ENOTDIR)),
        (1, rename(2, "f", 5, "new", PLAIN), Some(EACCES)),
        (1, rename(5, "a", 2, "new", PLAIN), Some(EACCES)),
        (2, rename(5, "a", 5, "new", PLAIN), Some(EPERM)),
        (2, rename(9, "q", 5, "a", PLAIN), Some(EPERM)),
        (1, rename(5, "a", 5, "new", PLAIN), None),
        (1, rename(5, "a", 9, "new", PLAIN), Some(EACCES)),
    ]);
}

#[test]
fn a_directory_changes_its_parent_only_for_callers_that_may_write_it() {
    let mut tree = sample();
    run(&mut tree, 1, chmod(7, 0o555), 0).unwrap();
    assert_eq!(run(&mut tree, 1, rename(5, "b", 11, "b", PLAIN), 0), Err(Errno::EACCES));
    assert_eq!(run(&mut tree, 1, rename(5, "b", 5, "c", PLAIN), 0), Ok(Value::Done));
    assert_eq!(run(&mut tree, ROOT, rename(5, "c", 11, "b", PLAIN), 0), Ok(Value::Done));
    assert_eq!(tree.node(Ino(7)).unwrap().parent, Ino(11));
    assert_eq!(tree.stat(Ino(5)).unwrap().nlink, 2);
    assert_eq!(tree.stat(Ino(11)).unwrap().nlink, 3);
}

#[test]
fn attributes_change_for_owners_only() {
    use Errno::*;
    let size = |ino| Op::SetAttr(Ino(ino), SetAttr { size: Some(5), ..SetAttr::default() });
    check(&[
        (1, chmod(3, 0o600), Some(EPERM)),
        (1, chmod(6, 0o600), None),
        (1, chown(6, Some(2), None), Some(EPERM)),
        (1, chown(6, Some(1), None), None),
        (1, chown(6, None, Some(2)), Some(EPERM)),
        (1, chown(6, None, Some(1)), None),
        (ROOT, chown(6, Some(2), Some(2)), None),
        (1, size(3), Some(EACCES)),
        (1, size(6), None),
        (ROOT, size(2), Some(EISDIR)),
        (ROOT, size(12), Some(EINVAL)),
        (ROOT, Op::Readlink(Ino(12)), None),
        (ROOT, Op::Readlink(Ino(3)), Some(EINVAL)),
        (1, Op::ReadDir(Ino(9)), Some(EACCES)),
        (2, Op::ReadDir(Ino(9)), None),
        (1, Op::Open { ino: Ino(3), access: 2, truncate: true }, Some(EACCES)),
        (1, Op::Open { ino: Ino(3), access: 4, truncate: false }, None),
        (ROOT, Op::Open { ino: Ino(2), access: 4, truncate: false }, Some(EISDIR)),
        (ROOT, Op::Access(Ino(3), 1), Some(EACCES)),
    ]);
}

#[test]
fn a_setgid_directory_hands_down_its_group() {
    let mut tree = sample();
    run(&mut tree, 1, file(11, "f", 0o2755), 20).unwrap();
    run(&mut tree, 1, file(11, "h", 0o2745), 21).unwrap();
    run(&mut tree, 1, mkdir(11, "d", 0o755), 22).unwrap();
    let shown: Vec<_> = [20, 21, 22]
        .map(|ino| tree.stat(Ino(ino)).unwrap())
        .iter()
        .map(|stat| (stat.mode, stat.uid, stat.gid))
        .collect();
    assert_eq!(shown, [(0o755, 1, 7), (0o2745, 1, 7), (0o2755, 1, 7)]);
}

#[test]
fn changes_of_content_and_owner_take_setuid_and_setgid_off() {
    let size = |size| Op::SetAttr(Ino(6), SetAttr { size: Some(size), ..SetAttr::default() });
    let write = || Op::Write(Ino(6), 0, b"x".to_vec());
    let truncate = Op::Open { ino: Ino(6), access: 2, truncate: true };
    // The file belongs to user 1. User 1 is in its group, and user 2 is not.
    let cases = [
        (1, write(), 0o6777, 0o777),
        (1, write(), 0o6767, 0o2767),
        (2, write(), 0o6767, 0o767),
        (ROOT, write(), 0o6777, 0o6777),
        (2, size(4), 0o6777, 0o777),
        (ROOT, size(4), 0o6777, 0o6777),
        (2, truncate.clone(), 0o2767, 0o767),
        (ROOT, truncate, 0o4777, 0o4777),
        (1, chown(6, None, Some(1)), 0o6777, 0o777),
        (ROOT, chown(6, Some(2), None), 0o6777, 0o777),
        (ROOT, chown(6, Some(2), None), 0o2767, 0o2767),
    ];
    for (user, op, mode, left) in cases {
        let mut tree = sample();
        run(&mut tree, ROOT, chown(6, Some(1), Some(1)), 0).unwrap();
        run(&mut tree, ROOT, chmod(6, mode), 0).unwrap();
        run(&mut tree, user, op.clone(), 0).unwrap();
        assert_eq!(tree.stat(Ino(6)).unwrap().mode, left, "{user} {op:?} {mode:o}");
    }
}

#[test]
fn an_open_file_outlives_its_names() {
    let mut tree = sample();
    let open = Op::Open { ino: Ino(6), access: 6, truncate: false };
    run(&mut tree, 1, open, 0).unwrap();
    run(&mut tree, 1, Op::Write(Ino(6), 2, b"ab".to_vec()), 0).unwrap();
    run(&mut tree, 1, Op::Unlink(Ino(5), name("a")), 0).unwrap();
    assert_eq!(tree.stat(Ino(6)).unwrap().nlink, 0);
    assert_eq!(run(&mut tree, 1, Op::Read(Ino(6), 1, 9), 0), Ok(Value::Bytes(b"\0ab".to_vec())));
    assert_eq!(run(&mut tree, 1, Op::Link(Ino(6), Ino(5), name("z")), 0), Err(Errno::ENOENT));
    run(&mut tree, 1, Op::Release(Ino(6)), 0).unwrap();
    assert_eq!(run(&mut tree, 1, Op::GetAttr(Ino(6)), 0), Err(Errno::ESTALE));
}

#[test]
fn a_file_has_as_many_links_as_names() {
    let mut tree = sample();
    run(&mut tree, ROOT, Op::Link(Ino(3), Ino(1), name("h")), 0).unwrap();
    assert_eq!(tree.stat(Ino(3)).unwrap().nlink, 2);
    let same = rename(2, "f", 1, "h", PLAIN);
    assert_eq!(run(&mut tree, ROOT, same, 0), Ok(Value::Done));
    assert_eq!(tree.stat(Ino(3)).unwrap().nlink, 2, "two names of one file: nothing happens");
    run(&mut tree, ROOT, rename(5, "a", 1, "h", PLAIN), 0).unwrap();
    assert_eq!(tree.stat(Ino(3)).unwrap().nlink, 1);
}

#[test]
fn extended_attributes_insist_as_told() {
    use Errno::*;
    let set = |mode| Op::SetXattr(Ino(6), b"user.k".to_vec(), b"v".to_vec(), mode);
    check(&[
        (1, set(XattrMode::Create), None),
        (1, set(XattrMode::Replace), Some(ENODATA)),
        (2, set(XattrMode::Any), Some(EACCES)),
        (1, Op::GetXattr(Ino(6), b"user.k".to_vec()), Some(ENODATA)),
        (1, Op::RemoveXattr(Ino(6), b"user.k".to_vec()), Some(ENODATA)),
    ]);
}

#[test]
fn equal_trees_have_equal_fingerprints_whatever_led_to_them() {
    let mut tree = sample();
    let before = tree.clone();
    run(&mut tree, ROOT, file(2, "z", 0o644), 50).unwrap();
    assert_ne!(tree.fingerprint(), before.fingerprint());
    run(&mut tree, ROOT, Op::Unlink(Ino(2), name("z")), 0).unwrap();
    assert!(tree == before);
}
