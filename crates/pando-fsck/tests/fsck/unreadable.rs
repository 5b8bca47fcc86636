//! Rows that the disk does not give back. They are reported, and other faults are still found.
//! Nothing is reported or mended only because these rows are missing.

use std::collections::BTreeSet;
use std::ops::Range;

use pando_core::keys;
use pando_core::record::{Entry, Record};
use pando_fsck::{Code, Mode, Report, Unwatched};
use pando_types::op::Op;
use pando_types::peer::{EntryValue, Inode};
use pando_types::{DirRef, ShardIndex};

use crate::support::{Cluster, name};

const ZERO: ShardIndex = ShardIndex(0);
const ONE: ShardIndex = ShardIndex(1);

type Gap = (ShardIndex, Range<Vec<u8>>);

/// All ranges of `rows` adjacent rows, for each shard.
fn gaps(c: &Cluster, rows: usize) -> Vec<Gap> {
    let of = |shard| {
        let all: Vec<_> = c.rows(shard, b"").into_iter().map(|(key, _)| key).collect();
        let end = |last: &Vec<u8>| [&last[..], &[0]].concat();
        let gap = |keys: &[Vec<u8>]| (shard, keys[0].clone()..end(&keys[keys.len() - 1]));
        all.windows(rows.min(all.len())).map(gap).collect::<Vec<_>>()
    };
    Cluster::all_shards().flat_map(of).collect()
}

fn check_running(c: &mut Cluster) -> Report {
    let objects: &mut dyn pando_fsck::Objects = &mut c.bucket;
    let (rows, volume) = (&mut c.stores, &c.volume);
    pando_fsck::check(rows, Some(objects), volume, Mode::Running, &mut Unwatched).unwrap()
}

fn codes(report: &Report) -> BTreeSet<Code> {
    report.findings.iter().map(|finding| finding.code).collect()
}

fn all_rows(c: &Cluster) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    Cluster::all_shards().map(|shard| c.rows(shard, b"")).collect()
}

/// Checks and repairs with these gaps. Only the gaps are found, and nothing is mended.
fn is_all_there_is(c: &mut Cluster, gaps: &[Gap]) {
    c.stores.gaps = gaps.to_vec();
    let (before, objects) = (all_rows(c), c.bucket.0.len());
    let checked = [c.check(), check_running(c), c.repair().left];
    for report in checked {
        assert_eq!(codes(&report), BTreeSet::from([Code::UnreadableBlock]), "{report:#?}");
        for (finding, (_, keys)) in report.findings.iter().zip(gaps) {
            assert!(finding.detail.contains("idx-7") && !finding.is_repairable());
            assert!(
                gaps.len() > 1 || finding.what.contains(&keys.start.escape_ascii().to_string())
            );
        }
        assert_eq!((report.findings.len(), report.not_kept), (gaps.len(), 0), "{report:#?}");
    }
    assert_eq!((all_rows(c), c.bucket.0.len()), (before, objects));
    c.stores.gaps.clear();
}

#[test]
fn whatever_row_cannot_be_read_nothing_else_is_said_to_be_wrong() {
    let mut c = Cluster::healthy();
    for rows in [1, 2, 7, 40, usize::MAX] {
        for gap in gaps(&c, rows) {
            is_all_there_is(&mut c, &[gap]);
        }
    }
    // Two gaps at a time, such as names on one shard and what they lead to on another.
    let all = gaps(&c, 3);
    for (n, gap) in all.iter().enumerate() {
        let other = &all[(n * 7 + all.len() / 2) % all.len()];
        if gap.0 != other.0 {
            is_all_there_is(&mut c, &[gap.clone(), other.clone()]);
        }
    }
    assert!(c.check().is_clean());
}

#[test]
fn what_else_is_wrong_is_found_and_left_until_all_can_be_read() {
    let mut c = Cluster::healthy();
    let (shard, key) = c.entry(c.dir("a"), "plain");
    c.change::<Entry>(shard, &key, |entry| entry.crowded = true);
    let (home, far) = c.entry(c.dir("a"), "small-data");
    let to = keys::after(&far);
    c.stores.gaps.push((home, far..to));
    let expected = BTreeSet::from([Code::UnreadableBlock, Code::WrongCrowding]);
    for report in [c.check(), check_running(&mut c), c.repair().left] {
        assert_eq!(codes(&report), expected, "{:#?}", report.findings);
        assert!(report.findings.iter().all(|finding| !finding.is_repairable()));
        let damaged = report.findings.iter().find(|f| f.code == Code::UnreadableBlock).unwrap();
        assert_eq!(damaged.path.as_deref(), Some("/a"));
    }
    c.stores.gaps.clear();
    assert_eq!(c.repair().mended.len(), 1);
    assert!(c.check().is_clean());
}

#[test]
fn what_is_under_way_is_no_damage_if_the_word_of_it_cannot_be_read() {
    let mut c = Cluster::busy();
    let mut looks = 0;
    let [a, b, deep] = ["a", "b", "deep"].map(|dir| c.dir(dir));
    let hash_slot = b.id.hash_slot();
    for op in [
        Cluster::rename_op(deep, "deeper", DirRef::ROOT, "moved"),
        Cluster::rename_op(a, "big-data", b, "moved-data"),
        Op::Mkdir(b, name("new"), 0o755),
        Op::HandOver(ZERO, hash_slot, ONE),
        Op::HandOver(ONE, hash_slot, ZERO),
    ] {
        for shard in Cluster::all_shards() {
            c.send(shard, op.clone());
            while c.deliver() {
                let tables =
                    keys::table(keys::Table::Txn)..keys::after(&keys::table(keys::Table::Shred));
                for gap in gaps(&c, 1) {
                    if tables.contains(&gap.1.start) {
                        is_all_there_is(&mut c, &[gap]);
                        looks += 1;
                    }
                }
            }
        }
        c.settle();
    }
    assert!(looks > 50, "{looks}");
}

/// An inode that no readable row names stays if rows that may name it cannot be read.
#[test]
fn nothing_is_removed_for_want_of_rows_that_cannot_be_read() {
    let mut c = Cluster::healthy();
    let ino = c.ino("linked");
    let (home, hot) = c.link_row(ino, keys::Kind::Entry);
    let (_, known) = c.link_row(ino, keys::Kind::LinkName);
    let link_names = c.rows(home, &known);
    assert!(link_names.len() > 1);
    // The names are in gaps, and the inode has lost its record of them.
    for (key, _) in &link_names {
        c.delete(home, key);
    }
    c.change::<Inode>(home, &hot, |inode| inode.attr.nlink = 0);
    let names: Vec<Gap> = gaps(&c, 1)
        .into_iter()
        .filter(|(shard, keys)| {
            let entry = c.get(*shard, &keys.start).and_then(|bytes| Entry::decode(&bytes).ok());
            keys::kind_of(&keys.start) == Some(keys::Kind::Entry as u8)
                && matches!(entry.and_then(|entry| entry.is), Some((_, EntryValue::Linked(to, _))) if to == ino)
        })
        .collect();
    assert_eq!(names.len(), link_names.len());
    is_all_there_is(&mut c, &names);
}
