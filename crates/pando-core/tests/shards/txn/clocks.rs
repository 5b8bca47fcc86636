//! Clocks that are set back, and clocks of shards that differ.

use pando_types::op::{Op, RenameFlags};
use pando_types::{DirRef, ShardIndex, Timestamp};

use crate::support::{Cluster, dir_at};

const HOUR: u64 = 3_600_000_000_000;
const FAST: ShardIndex = ShardIndex(1);
const RIGHT: ShardIndex = ShardIndex(2);

fn mtime(c: &mut Cluster, dir: DirRef) -> Timestamp {
    c.partitions(c.all(), dir).iter().map(|it| it.delta.mtime).max().unwrap()
}

/// Whether `time` lies between `from` and now, by the clock of a shard that is ahead by `ahead`.
fn is_of(c: &Cluster, time: Timestamp, from: u64, ahead: u64) -> bool {
    Timestamp::from_nanos(from + ahead) <= time
        && time <= Timestamp::from_nanos(c.now().wall + ahead)
}

#[test]
fn a_directory_follows_a_clock_that_was_corrected() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, DirRef::ROOT, "dir", |home| home == FAST);
    c.ahead.insert(FAST, HOUR);
    c.create(dir, "a").unwrap();
    let (time, begun) = (mtime(&mut c, dir), c.now().wall - 1_000_000);
    assert!(is_of(&c, time, begun, HOUR), "{time:?}");
    c.ahead.insert(FAST, 0);
    let begun = c.now().wall;
    c.create(dir, "b").unwrap();
    let time = mtime(&mut c, dir);
    assert!(is_of(&c, time, begun, 0), "{time:?}");
}

#[test]
fn a_clock_that_is_fast_is_its_own_shards_only() {
    let mut c = Cluster::new(3, 1_000);
    let (_, from) = dir_at(&mut c, DirRef::ROOT, "from", |home| home == FAST);
    let (_, to) = dir_at(&mut c, DirRef::ROOT, "to", |home| home == RIGHT);
    c.ahead.insert(FAST, HOUR);
    c.create(from, "file").unwrap();
    let begun = c.now().wall;
    let (name, new_name) = (c.name("file"), c.name("moved"));
    let flags = RenameFlags::default();
    c.done(&Op::Rename { from, name, to, new_name, flags }).unwrap();
    c.settle();
    let times = [(from, HOUR), (to, 0)].map(|(dir, ahead)| (mtime(&mut c, dir), ahead));
    for (time, ahead) in times {
        assert!(is_of(&c, time, begun, ahead), "{time:?}");
    }
}

#[test]
fn clocks_that_are_a_little_apart_take_nothing_back() {
    let mut c = Cluster::new(3, 1_000);
    let (_, dir) = dir_at(&mut c, DirRef::ROOT, "dir", |home| home == FAST);
    c.ahead.insert(FAST, HOUR / 7_200);
    c.create(dir, "a").unwrap();
    let before = mtime(&mut c, dir);
    c.ahead.insert(FAST, 0);
    c.create(dir, "b").unwrap();
    assert_eq!(mtime(&mut c, dir), before);
}
