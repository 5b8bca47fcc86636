//! Splits within one shard: the half that goes is counted page by page, whatever is made and
//! removed meanwhile.

use std::collections::BTreeSet;

use pando_placement::range;
use pando_types::op::Op;
use pando_types::{DirRef, PartitionIndex, Radix, SetAttr, ShardIndex};

use crate::growth::splits::{fill, names, sum};
use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const SHARD: ShardIndex = ShardIndex(0);
/// Longer than the pause between two pages, nanoseconds.
const PAGE: u64 = 60_000;

/// A directory on one shard, with a half that is being counted in pages of three entries. One page
/// is read.
fn counting() -> (Cluster, DirRef) {
    let mut c = Cluster::with(1, |config| {
        (config.split_threshold, config.partitions_per_shard) = (40, 64);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    for n in 0..8 {
        c.mkdir(dir, &format!("d{n}")).unwrap();
    }
    c.settle();
    c.hurries = false;
    let mut more = 0;
    while c.partitions([SHARD], dir)[0].state == "owned" {
        c.ask(SHARD, c.create_op(dir, &format!("f{more}"))).unwrap().unwrap();
        more += 1;
    }
    assert_eq!(c.partitions([SHARD], dir).len(), 1, "it is counted, not split at once");
    (c, dir)
}

/// Checks that every header's counts are right.
fn check(c: &mut Cluster, dir: DirRef, expected: &BTreeSet<String>) {
    assert_eq!(names(c, dir), *expected);
    for it in c.partitions([SHARD], dir) {
        let orders = range(it.delta.partition, it.delta.radix);
        let inside = |name: &&String| orders.contains(&c.secrets.order(name.as_bytes()).0);
        let here: Vec<_> = expected.iter().filter(inside).collect();
        let subdirs = here.iter().filter(|name| name.starts_with('d')).count() as u64;
        let counted = (it.delta.entries, it.delta.subdirs);
        assert_eq!(counted, (here.len() as u64, subdirs), "{:?}", it.delta.partition);
    }
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

#[test]
fn what_is_made_and_removed_while_a_half_is_counted_counts() {
    for seed in 0..40_u64 {
        let (mut c, dir) = counting();
        let mut expected = names(&mut c, dir);
        let (mut steps, mut random) = (0, fastrand::Rng::with_seed(seed + 1));
        while c.partitions([SHARD], dir).len() == 1 {
            assert!(steps < 200, "it ends however much is done meanwhile");
            let nth = random.usize(..expected.len());
            let old = expected.iter().nth(nth).cloned().unwrap();
            match random.usize(..4) {
                0 if old.starts_with('d') => {
                    c.rmdir(dir, &old).unwrap();
                    expected.remove(&old);
                }
                0 | 1 if !old.starts_with('d') => {
                    c.unlink(dir, &old).unwrap();
                    expected.remove(&old);
                }
                2 => {
                    let (new, to) = (format!("d{steps}.{seed}"), format!("d.{steps}"));
                    c.mkdir(dir, &new).unwrap();
                    c.rename(dir, &new, dir, &to).unwrap();
                    expected.insert(to);
                }
                _ => {
                    let new = format!("new{steps}");
                    c.create(dir, &new).unwrap();
                    expected.insert(new);
                }
            }
            if steps % 3 == 0 {
                c.tick(c.all(), PAGE);
            }
            steps += 1;
        }
        c.hurries = true;
        c.settle();
        assert!(sum(&c, |n| n.splits_local) >= 1);
        check(&mut c, dir, &expected);
    }
}

#[test]
fn a_request_for_the_partition_ends_the_count_and_the_next_change_begins_it_anew() {
    let (mut c, dir) = counting();
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    c.run(SHARD, Op::DirSetAttr(dir, set)).unwrap();
    assert_eq!(sum(&c, |n| n.splits_yielded), 1);
    c.hurries = true;
    c.settle();
    assert!(c.partitions([SHARD], dir).len() >= 2);
    let expected = names(&mut c, dir);
    check(&mut c, dir, &expected);
}

#[test]
fn a_restart_forgets_the_count_and_nothing_else() {
    let (mut c, dir) = counting();
    c.tick(c.all(), PAGE);
    let expected = names(&mut c, dir);
    c.restart([SHARD]);
    assert_eq!(c.partitions([SHARD], dir)[0].state, "owned");
    check(&mut c, dir, &expected);
    c.hurries = true;
    fill(&mut c, dir, "more", 1);
    c.settle();
    assert!(c.partitions([SHARD], dir).iter().any(|it| it.delta.partition == PartitionIndex(1)));
    let expected = names(&mut c, dir);
    check(&mut c, dir, &expected);
}

#[test]
fn a_page_reads_no_more_than_it_may() {
    let (mut c, dir) = counting();
    let mut pages = 0;
    while c.partitions([SHARD], dir).len() == 1 {
        c.tick(c.all(), PAGE);
        pages += 1;
    }
    assert_eq!(c.partitions([SHARD], dir)[0].delta.radix, Radix(1));
    assert!(pages >= 5, "some 20 entries by 3: {pages} pages");
}
