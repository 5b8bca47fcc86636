//! Requests whose caller was judged by its kernel, by attributes that may have changed since.

use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::{Credentials, DirRef, Errno, Judge, Judged, SetAttr};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;

/// A caller whose kernel has decided by these.
fn judged(uid: u32, by: &[Judged]) -> Credentials {
    Credentials { uid, gid: uid, judge: Judge::Kernel(by.to_vec()) }
}

fn mode(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

const OPEN_TO_ROOT: Judged = Judged { mode: 0o700, uid: 0, gid: 0 };

/// A directory of root's, 0700, with a file and a subdirectory in it.
fn cluster(shards: u16) -> (Cluster, DirRef) {
    let mut c = Cluster::new(shards, 100);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.done(&Op::DirSetAttr(dir, mode(0o700))).unwrap();
    c.create(dir, "file").unwrap();
    c.mkdir(dir, "sub").unwrap();
    (c, dir)
}

/// Operations in a directory, each of which needs more than the caller's user and group give it.
fn acts(c: &Cluster, dir: DirRef) -> Vec<Op> {
    let name = |name| c.name(name);
    vec![
        Op::Lookup(dir, name("file")),
        c.create_op(dir, "new", false),
        Op::Mkdir(dir, name("made"), 0o755),
        Op::Rename {
            from: dir,
            name: name("new"),
            to: dir,
            new_name: name("newer"),
            flags: RenameFlags::default(),
        },
        Op::Unlink(dir, name("newer")),
        Op::Rmdir(dir, name("made")),
    ]
}

#[test]
fn what_a_kernel_decided_counts_while_it_is_so() {
    for shards in [1, 3] {
        let (mut c, dir) = cluster(shards);
        // A holder of a capability that shards do not know of.
        c.by = judged(9, &[OPEN_TO_ROOT]);
        for op in acts(&c, dir) {
            assert_eq!(c.done(&op), Ok(()), "{op:?} of {shards} shards");
        }
    }
}

#[test]
fn what_a_kernel_decided_by_what_was_is_refused_and_not_done() {
    for shards in [1, 3] {
        let (mut c, dir) = cluster(shards);
        c.done(&Op::DirSetAttr(dir, mode(0o750))).unwrap();
        c.settle();
        let before = c.rows();
        c.by = judged(9, &[OPEN_TO_ROOT]);
        for op in acts(&c, dir) {
            let done = c.done(&op);
            assert!(matches!(done, Err(Errno::ESTALE)), "{op:?} of {shards} shards: {done:?}");
        }
        c.settle();
        let is_of_dir = |key: &(u16, Vec<u8>)| key.1.first() == Some(&b'd');
        let of_dirs = |rows: std::collections::BTreeMap<(u16, Vec<u8>), Vec<u8>>| {
            rows.into_iter().filter(|(key, _)| is_of_dir(key)).collect::<Vec<_>>()
        };
        assert_eq!(of_dirs(c.rows()), of_dirs(before));
    }
}

#[test]
fn a_file_is_opened_and_changed_by_what_its_kernel_saw() {
    let (mut c, dir) = cluster(2);
    let attr = c.create(dir, "mine").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name("mine")) };
    let open = Op::Open { file: file.clone(), access: 4, truncate: false, kill: None };
    let private = Judged { mode: 0o600, uid: 0, gid: 0 };
    c.done(&Op::SetAttr(file.clone(), mode(0o600))).unwrap();
    c.by = judged(9, &[private]);
    assert_eq!(c.done(&open), Ok(()));
    assert_eq!(c.done(&Op::SetAttr(file.clone(), mode(0o644))), Ok(()));
    // It decides by what was there before.
    assert_eq!(c.done(&Op::SetAttr(file, mode(0o666))), Err(Errno::ESTALE));
    c.by = judged(9, &[]);
    assert_eq!(c.done(&open), Ok(()), "everybody may read it");
}

#[test]
fn one_who_may_is_let_through_a_sticky_directory_only_to_what_its_kernel_saw_there() {
    let (mut c, dir) = cluster(2);
    c.done(&Op::DirSetAttr(dir, mode(0o1777))).unwrap();
    let sticky = Judged { mode: 0o1777, uid: 0, gid: 0 };
    let unlink = Op::Unlink(dir, c.name("file"));
    c.by = judged(9, &[sticky]);
    assert_eq!(c.done(&unlink), Err(Errno::ESTALE), "it was told of no such file");
    let of_file = Judged { mode: 0o644, uid: 0, gid: 0 };
    c.by = judged(9, &[sticky, of_file]);
    assert_eq!(c.done(&unlink), Ok(()));
}

/// What moves to another parent has its `..` changed.
#[test]
fn a_directory_moves_to_another_parent_by_what_its_kernel_saw_of_itself() {
    let (mut c, dir) = cluster(3);
    let of_root = Judged { mode: 0o755, uid: 0, gid: 0 };
    let rename = Op::Rename {
        from: dir,
        name: c.name("sub"),
        to: ROOT,
        new_name: c.name("moved"),
        flags: RenameFlags::default(),
    };
    let other = Judged { mode: 0o711, ..of_root };
    c.done(&Op::DirSetAttr(ROOT, mode(0o777))).unwrap();
    let open = Judged { mode: 0o777, ..of_root };
    c.by = judged(9, &[OPEN_TO_ROOT, open, other]);
    assert_eq!(c.done(&rename), Err(Errno::ESTALE), "it was told of another one");
    c.by = judged(9, &[OPEN_TO_ROOT, open, of_root]);
    assert_eq!(c.done(&rename), Ok(()));
}
