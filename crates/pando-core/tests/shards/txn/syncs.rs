//! What `fsync` of a file or directory waits for.

use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::reply::Body;
use pando_types::{DirRef, Ino, ShardIndex};

use crate::support::{Cluster, dir_at};

const SOURCE: ShardIndex = ShardIndex(1);
const TARGET: ShardIndex = ShardIndex(2);

/// Two directories at different shards, and a file in the first.
fn file_between(c: &mut Cluster) -> (DirRef, DirRef, Ino) {
    let (_, from) = dir_at(c, DirRef::ROOT, "from", |home| home == SOURCE);
    let (_, to) = dir_at(c, DirRef::ROOT, "to", |home| home == TARGET);
    let ino = c.create(from, "file").unwrap().ino;
    c.settle();
    (from, to, ino)
}

/// Runs `op` at `shard` until it is answered, and delivers nothing after that.
fn until_answered(c: &mut Cluster, shard: ShardIndex, op: Op) {
    let tag = c.send(shard, op);
    while c.answer(tag).is_none() {
        assert!(c.step(), "it is answered");
    }
}

/// A rename is answered when it is decided. Until the target has heard so, the decision is only in
/// the log of the source, and with it the file's data.
#[test]
fn a_sync_waits_for_what_another_shard_has_decided_about_the_file() {
    let mut c = Cluster::new(3, 1_000);
    let (from, to, ino) = file_between(&mut c);
    let (name, new_name) = (c.name("file"), c.name("moved"));
    let flags = RenameFlags::default();
    let moved = Op::Rename { from, name, to, new_name: new_name.clone(), flags };
    until_answered(&mut c, SOURCE, moved);
    let sync = Op::SyncFile(FileRef { ino, at: FileAt::Name(to, new_name) });
    assert_eq!(c.ask(TARGET, sync.clone()), None);
    // A sync of the directory begins with a look at it.
    assert_eq!(c.ask(TARGET, Op::DirGetAttr(to)), None);
    c.settle();
    assert_eq!(c.ask(TARGET, sync), Some(Ok(Body::Done)));
    assert!(matches!(c.ask(TARGET, Op::DirGetAttr(to)), Some(Ok(Body::Dir(_)))));
}

/// The shard of the new name decides on a link. The inode is at its link shard from then on.
#[test]
fn a_sync_waits_for_what_another_shard_has_decided_about_a_link() {
    let mut c = Cluster::new(3, 1_000);
    let (from, to, _) = file_between(&mut c);
    let mut elsewhere = 0;
    for n in 0..8 {
        let file = format!("file-{n}");
        let ino = c.create(from, &file).unwrap().ino;
        c.settle();
        let at = FileAt::Name(from, c.name(&file));
        let new_name = c.name(&format!("linked-{n}"));
        until_answered(&mut c, TARGET, Op::Link(FileRef { ino, at }, to, new_name));
        let link_shard = c.shard(TARGET).map().link(ino);
        let sync = Op::SyncFile(FileRef { ino, at: FileAt::Link });
        if link_shard != TARGET {
            elsewhere += 1;
            assert_eq!(c.ask(link_shard, sync.clone()), None, "{n}");
        }
        c.settle();
        assert_eq!(c.ask(link_shard, sync), Some(Ok(Body::Done)));
    }
    assert!(elsewhere > 0);
}
