//! What `fsync` of a file waits for.

use pando_types::op::{FileAt, FileRef, Op, RenameFlags};
use pando_types::reply::Body;
use pando_types::{DirRef, ShardIndex};

use super::support::{Cluster, dir_at};

const SOURCE: ShardIndex = ShardIndex(1);
const TARGET: ShardIndex = ShardIndex(2);

/// A rename is answered when it is decided. Until the target has heard so, the decision is only in
/// the log of the source, and with it the file's data.
#[test]
fn a_sync_waits_for_what_another_shard_has_decided_about_the_file() {
    let mut c = Cluster::new(3, 1_000);
    let (_, from) = dir_at(&mut c, DirRef::ROOT, "from", |home| home == SOURCE);
    let (_, to) = dir_at(&mut c, DirRef::ROOT, "to", |home| home == TARGET);
    let attr = c.create(from, "file").unwrap();
    c.settle();
    let (name, new_name) = (c.name("file"), c.name("moved"));
    let flags = RenameFlags::default();
    let moved = Op::Rename { from, name, to, new_name: new_name.clone(), flags };
    let tag = c.start(SOURCE, moved, None);
    while c.answer(tag).is_none() {
        assert!(c.step(), "it is answered");
    }
    let sync = Op::SyncFile(FileRef { ino: attr.ino, at: FileAt::Name(to, new_name) });
    assert_eq!(c.glance(TARGET, sync.clone()), None);
    c.settle();
    assert_eq!(c.glance(TARGET, sync), Some(Ok(Body::Done)));
}
