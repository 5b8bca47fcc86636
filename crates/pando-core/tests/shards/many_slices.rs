//! Files of which no frame would hold all slices: they stay in their entry, and nobody waits for ever.

use pando_types::op::{FileAt, FileRef, ObjectId, ObjectRange, Op, Payload, Piece};
use pando_types::reply::Found;
use pando_types::{Attr, DirRef, Errno, ShardIndex};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const MOST: usize = 5;

/// A file `/name` of so many slices, with holes between them.
fn sliced(c: &mut Cluster, name: &str, slices: usize) -> Attr {
    let attr = c.create(ROOT, name).unwrap();
    let piece = |n: u64| {
        let object = ObjectId(u128::from(c.session().0) << 64 | (u128::from(n) + 1));
        let (len, object_len) = (10, 10);
        let range = ObjectRange { object, offset: 0, len, object_len, store: 0, key: 0, codec: 0 };
        Piece { offset: n * 100, payload: Payload::Object(range) }
    };
    let pieces = (0..slices as u64).map(piece).collect();
    let file = at_name(c, name, &attr);
    c.done(&Op::WriteData { file, base: Some(attr.data_version), pieces, mtime: None, kill: None })
        .unwrap();
    attr
}

fn at_name(c: &Cluster, name: &str, attr: &Attr) -> FileRef {
    FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name(name)) }
}

/// A directory on the shard of the root's names, and one on another.
fn near_and_far(c: &mut Cluster) -> (DirRef, DirRef) {
    let owns = |c: &mut Cluster, dir| (0..3).map(ShardIndex).find(|s| !c.owned(*s, dir).is_empty());
    let (mut near, mut far) = (None, None);
    for n in 0..40 {
        let dir = c.mkdir(ROOT, &format!("d{n}")).unwrap();
        c.settle();
        let is_near = owns(c, dir) == owns(c, ROOT);
        *(if is_near { &mut near } else { &mut far }) = Some(dir);
    }
    (near.expect("one in three"), far.expect("two in three"))
}

#[test]
fn a_file_of_too_many_slices_is_not_moved_to_another_shard() {
    let mut c = Cluster::new(3, 1_000);
    c.restart_with(|config| config.moved_slices = MOST);
    let (near, far) = near_and_far(&mut c);
    let attr = sliced(&mut c, "large", MOST + 1);
    sliced(&mut c, "small", MOST);
    assert_eq!(c.rename(ROOT, "large", far, "there"), Err(Errno::EXDEV));
    assert_eq!(c.link((ROOT, "large", attr.clone()), far, "again"), Err(Errno::EXDEV));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    c.rename(ROOT, "large", ROOT, "renamed").unwrap();
    c.rename(ROOT, "renamed", near, "near").unwrap();
    c.rename(near, "near", ROOT, "large").unwrap();
    c.rename(ROOT, "small", far, "there").unwrap();
    assert!(matches!(c.lookup(ROOT, "large"), Ok(Found::File(found)) if found.ino == attr.ino));
}

#[test]
fn it_is_removed_when_nobody_has_it_open() {
    let mut c = Cluster::new(3, 1_000);
    c.restart_with(|config| config.moved_slices = MOST);
    let attr = sliced(&mut c, "large", MOST + 1);
    let file = at_name(&c, "large", &attr);
    c.done(&Op::Open { file: file.clone(), access: 4, truncate: false, kill: None }).unwrap();
    assert_eq!(c.unlink(ROOT, "large"), Err(Errno::EFBIG));
    c.done(&Op::Release(file)).unwrap();
    c.unlink(ROOT, "large").unwrap();
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}
