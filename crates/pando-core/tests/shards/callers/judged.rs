//! Requests of callers that their kernel has judged. The shard knows only user and first group.

use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::{Capability, Credentials, DirRef, Errno, Judge, Powers, SetAttr};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;

fn by_kernel(uid: u32) -> Credentials {
    Credentials { uid, gid: uid, judge: Judge::Kernel }
}

/// A caller of user and group 9, in the first namespace.
fn powers(groups: &[u32], capabilities: &[Capability]) -> Credentials {
    let all = vec![(0, u32::MAX)];
    let powers = Powers {
        groups: groups.to_vec(),
        capabilities: capabilities.iter().map(|capability| 1 << *capability as u8).sum(),
        users: all.clone(),
        groups_known: all,
    };
    Credentials { uid: 9, gid: 9, judge: Judge::Powers(Box::new(powers)) }
}

fn mode(mode: u16) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// A directory of root and group 7, mode 0770, with a file and a subdirectory.
fn cluster(shards: u16) -> (Cluster, DirRef) {
    let mut c = Cluster::new(shards, 100);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    let group = SetAttr { gid: Some(7), ..mode(0o770) };
    c.done(&Op::DirSetAttr(dir, group)).unwrap();
    c.create(dir, "file").unwrap();
    c.mkdir(dir, "sub").unwrap();
    (c, dir)
}

/// Operations in a directory. Each needs more than the caller's user and first group give.
fn acts(c: &Cluster, dir: DirRef) -> Vec<Op> {
    let name = |name| c.name(name);
    vec![
        Op::Lookup(dir, name("file")),
        c.create_op(dir, "new"),
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
fn a_group_or_a_capability_counts_once_it_is_known() {
    let known =
        [powers(&[7], &[]), powers(&[], &[Capability::DacOverride]), by_kernel(0), by_kernel(7)];
    for (shards, by) in [1, 3].into_iter().flat_map(|shards| known.clone().map(|by| (shards, by))) {
        let (mut c, dir) = cluster(shards);
        c.by = by;
        for op in acts(&c, dir) {
            assert_eq!(c.done(&op), Ok(()), "{op:?} of {shards} shards by {:?}", c.by);
        }
    }
}

#[test]
fn until_then_and_without_it_is_refused_and_not_done() {
    for (shards, by) in [(1, by_kernel(9)), (3, by_kernel(9)), (3, powers(&[8], &[]))] {
        let (mut c, dir) = cluster(shards);
        c.settle();
        let before = c.rows();
        c.by = by;
        for op in acts(&c, dir) {
            let done = c.done(&op);
            assert!(matches!(done, Err(Errno::EACCES)), "{op:?} of {shards} shards: {done:?}");
        }
        c.settle();
        let is_of_dir = |key: &(u16, Vec<u8>)| key.1.first() == Some(&b'd');
        let of_dirs = |rows: std::collections::BTreeMap<(u16, Vec<u8>), Vec<u8>>| {
            rows.into_iter().filter(|(key, _)| is_of_dir(key)).collect::<Vec<_>>()
        };
        assert_eq!(of_dirs(c.rows()), of_dirs(before));
    }
}

/// A descriptor of a file outlives its ownership, and the kernel may not have heard of that.
#[test]
fn a_former_owner_of_a_file_changes_it_no_more_whatever_its_kernel_says() {
    let (mut c, dir) = cluster(2);
    let attr = c.create(dir, "mine").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name("mine")) };
    let set = |set| Op::SetAttr(file.clone(), set);
    for by in [by_kernel(9), powers(&[], &[])] {
        c.by = by;
        assert_eq!(c.done(&set(mode(0o4777))), Err(Errno::EPERM));
        let group = SetAttr { gid: Some(9), ..SetAttr::default() };
        assert_eq!(c.done(&set(group)), Err(Errno::EPERM));
    }
    c.by = powers(&[], &[Capability::Fowner]);
    assert_eq!(c.done(&set(mode(0o640))), Ok(()));
}

#[test]
fn only_an_owner_removes_from_a_sticky_directory_whatever_its_kernel_says() {
    let (mut c, dir) = cluster(2);
    c.done(&Op::DirSetAttr(dir, mode(0o1777))).unwrap();
    let unlink = Op::Unlink(dir, c.name("file"));
    for by in [by_kernel(9), powers(&[7], &[Capability::DacOverride])] {
        c.by = by;
        assert_eq!(c.done(&unlink), Err(Errno::EPERM));
    }
    c.by = powers(&[], &[Capability::Fowner]);
    assert_eq!(c.done(&unlink), Ok(()));
}
