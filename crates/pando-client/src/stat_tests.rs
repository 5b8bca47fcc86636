use super::*;
use pando_types::reply::Spread;
use pando_types::{FileKind, Ino, Radix, ShardIndex, Timestamp};

fn delta(i: u32, r: u8, entries: u64) -> Delta {
    Delta {
        partition: PartitionIndex(i),
        radix: Radix(r),
        shard: ShardIndex(0),
        entries,
        subdirs: 0,
        change: entries,
        mtime: Timestamp::default(),
        generation: 0,
    }
}

fn base() -> Attr {
    Attr {
        ino: Ino::ROOT,
        kind: FileKind::Directory,
        mode: 0o755,
        nlink: 2,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        atime: at(5),
        mtime: at(5),
        ctime: at(5),
        btime: at(5),
        data_version: 0,
        change: 1,
        project: 0,
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

#[test]
fn counts_add_up_and_only_times_of_this_generation_count() {
    let old = Delta { subdirs: 2, mtime: at(9), generation: 3, ..delta(0, 1, 10) };
    let new = Delta { subdirs: 1, mtime: at(7), generation: 4, ..delta(1, 1, 5) };
    let attr = merge(base(), 4, [old, new]);
    assert_eq!((attr.size, attr.nlink, attr.change), (15, 5, 16));
    assert_eq!((attr.mtime, attr.ctime, attr.atime), (at(7), at(9), at(5)));
    assert_eq!(merge(base(), 5, [old, new]).mtime, at(5));
}

/// Adds the answers, as (partition, radix, entries); who is missing after each.
fn check(answers: &[(u32, u8, u64)], missing: &[&[u32]], total: u64) {
    let spread = Spread { base: ShardIndex(0), servers: 8, per_server: 1 };
    let mut map = DirMap::with_spread(spread);
    let mut tiles = Tiles::default();
    for ((i, r, entries), expected) in answers.iter().zip(missing) {
        tiles.add(delta(*i, *r, *entries), &mut map);
        let found: Vec<u32> = tiles.missing(&map).into_iter().map(|i| i.0).collect();
        assert_eq!(found, **expected, "after ({i}, {r})");
    }
    assert_eq!(merge(base(), 0, tiles.0.into_values()).size, total);
}

#[test]
fn an_answer_deeper_than_expected_leads_to_the_partition_that_split_off() {
    check(&[(0, 1, 10), (1, 2, 20), (3, 3, 30), (7, 3, 40)], &[&[1], &[3], &[7], &[]], 100);
}

#[test]
fn a_partition_that_answered_before_it_split_has_answered_for_its_children() {
    check(&[(1, 1, 50), (3, 2, 20), (0, 1, 10)], &[&[0], &[0], &[]], 60);
}

#[test]
fn a_wider_answer_replaces_those_within_it() {
    check(&[(3, 2, 20), (1, 1, 50), (0, 1, 10)], &[&[0, 1], &[0], &[]], 60);
}
