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
fn counts_add_up() {
    let one = Delta { subdirs: 2, ..delta(0, 1, 10) };
    let other = Delta { subdirs: 1, ..delta(1, 1, 5) };
    let attr = merge(base(), 0, [one, other]);
    assert_eq!((attr.size, attr.nlink, attr.change), (15, 5, 16));
}

#[test]
fn names_changed_since_times_were_set_tell_the_time() {
    let set = |seconds| Attr { mtime: at(seconds), ..base() };
    let changed = |seconds, generation| Delta { mtime: at(seconds), generation, ..delta(0, 1, 0) };
    let times = |set, deltas: [Delta; 2]| {
        let attr = merge(set, 4, deltas);
        (attr.mtime.seconds, attr.ctime.seconds, attr.atime.seconds)
    };
    assert_eq!(times(set(5), [changed(9, 3), changed(7, 4)]), (7, 7, 5), "9 was before");
    assert_eq!(times(set(5), [changed(9, 3), changed(0, 4)]), (5, 5, 5), "nothing since");
    assert_eq!(times(set(99), [changed(8, 4), changed(7, 5)]), (8, 8, 5), "set to the future");
    assert_eq!(times(set(1), [changed(3, 4), changed(2, 4)]), (3, 5, 5), "ctime does not go back");
}

/// Adds the answers, as (partition, radix, entries), and compares the missing partitions after
/// each.
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

#[test]
fn a_partition_that_answered_before_it_took_back_another_is_asked_again() {
    let spread = Spread { base: ShardIndex(0), servers: 8, per_server: 1 };
    let mut map = DirMap::with_spread(spread);
    let mut tiles = Tiles::default();
    for (i, r, entries) in [(0, 2, 10), (2, 2, 20)] {
        tiles.add(delta(i, r, entries), &mut map);
    }
    let missing = |tiles: &Tiles, map: &DirMap| -> Vec<u32> {
        tiles.missing(map).into_iter().map(|i| i.0).collect()
    };
    assert_eq!(missing(&tiles, &map), [1]);
    map.forget(PartitionIndex(1));
    assert_eq!(missing(&tiles, &map), [0], "for what was 1, and what 2 became goes with it");
    tiles.add(delta(0, 0, 70), &mut map);
    assert!(missing(&tiles, &map).is_empty());
    assert_eq!(merge(base(), 0, tiles.0.into_values()).size, 70);
}
