//! Merges of small partitions, live. The tests check what is served meanwhile and what a restart at
//! any step leaves. They check `chmod`, `rmdir`, repetitions, open files and stale coordinators.
//! Whole trees collapse and grow again.

use std::collections::BTreeSet;

use crate::growth::splits::{fill, is_upper, names, sum};
use crate::support::Cluster;
use pando_types::op::{FileAt, FileRef, NewNode, Op, RequestId};
use pando_types::reply::{Body, Delta, Refusal};
use pando_types::{
    Credentials, DirRef, Errno, FileKind, Order, PartitionIndex, SetAttr, ShardIndex, Timestamp,
};

const ROOT: DirRef = DirRef::ROOT;
const THRESHOLD: u64 = 40;
const SECOND: u64 = 1_000_000_000;

/// The names of one of two partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Lower,
    Upper,
}

/// A directory that is about to be merged: its upper half is on the second of two shards.
struct Shrinking {
    c: Cluster,
    dir: DirRef,
    home: ShardIndex,
    source: ShardIndex,
    names: BTreeSet<String>,
}

/// A directory of two full halves, on two shards.
fn grown(shards: u16, policy: u16) -> Shrinking {
    let mut c = Cluster::with(shards, |config| {
        (config.split_threshold, config.partitions_per_shard) = (THRESHOLD, policy);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    fill(&mut c, dir, "f", 42);
    c.settle();
    let owns = |c: &mut Cluster, index: u32| {
        let mut shards = (0..shards).map(ShardIndex);
        shards
            .find(|s| c.partitions([*s], dir).iter().any(|it| it.delta.partition.0 == index))
            .unwrap()
    };
    let (home, source) = (owns(&mut c, 0), owns(&mut c, 1));
    assert_ne!(home, source);
    let names = names(&mut c, dir);
    Shrinking { c, dir, home, source, names }
}

impl Shrinking {
    /// Removes names of a half, without delivering anything, until `left` are left or a merge
    /// begins.
    fn drain(&mut self, half: Half, left: usize) {
        let upper = half == Half::Upper;
        let half = self.names.iter().filter(|name| is_upper(&self.c, name) == upper);
        let half: Vec<_> = half.cloned().collect();
        let owner = if upper { self.source } else { self.home };
        for name in half.iter().skip(left) {
            if self.c.copies() > 0 {
                return;
            }
            let op = Op::Unlink(self.dir, self.c.name(name));
            self.c.ask(owner, op).unwrap().unwrap();
            self.names.remove(name);
        }
    }

    fn is_whole(&mut self) -> bool {
        let is_at_home = self.c.partitions([self.home], self.dir).len() == 1;
        is_at_home && partitions(&mut self.c, self.dir) == [(0, 0, self.names.len() as u64)]
    }

    fn assert_whole(&mut self, when: &str) {
        self.c.settle();
        assert_eq!(names(&mut self.c, self.dir), self.names, "{when}");
        self.c.settle();
        assert!(self.is_whole(), "{when}: {:?}", partitions(&mut self.c, self.dir));
        assert_eq!(self.c.in_flight()[..3], [0; 3], "{when}");
    }
}

fn about_to_merge() -> Shrinking {
    let mut s = grown(2, 1);
    s.drain(Half::Lower, 6);
    s.drain(Half::Upper, 0);
    assert_eq!(s.c.copies(), 1);
    assert!(s.names.iter().any(|name| is_upper(&s.c, name)), "something is left to move");
    s
}

fn partitions(c: &mut Cluster, dir: DirRef) -> Vec<(u32, u8, u64)> {
    let deltas = c.partitions(c.all(), dir).into_iter().map(|it| it.delta);
    deltas.map(|it| (it.partition.0, it.radix.0, it.entries)).collect()
}

/// Sums over all partitions: entries, changes, newest change.
fn counts(c: &mut Cluster, dir: DirRef) -> (u64, u64, Timestamp) {
    let deltas: Vec<Delta> = c.partitions(c.all(), dir).iter().map(|it| it.delta).collect();
    let newest = deltas.iter().map(|delta| delta.mtime).max().unwrap();
    (deltas.iter().map(|d| d.entries).sum(), deltas.iter().map(|d| d.change).sum(), newest)
}

fn fresh(c: &Cluster, stem: &str, half: Half) -> String {
    let upper = half == Half::Upper;
    (0..).map(|n| format!("{stem}.{n}")).find(|name| is_upper(c, name) == upper).unwrap()
}

#[test]
fn a_directory_is_used_while_a_partition_is_given_back() {
    let mut s = about_to_merge();
    let before = counts(&mut s.c, s.dir);
    let (mut made, mut waited, mut steps) = (0, Vec::new(), 0);
    while s.c.copies() > 0 {
        let [lower, upper] =
            [Half::Lower, Half::Upper].map(|half| fresh(&s.c, &format!("s{steps}"), half));
        // Names of the parent are served throughout.
        if steps < 4 {
            let op = s.c.create_op(s.dir, &lower);
            assert!(matches!(s.c.ask(s.home, op), Some(Ok(_))));
            s.names.insert(lower);
            made += 1;
        }
        if steps < 3 {
            let op = s.c.create_op(s.dir, &upper);
            match s.c.ask(s.source, op) {
                Some(answer) => drop(answer.unwrap()),
                None => waited.push(upper.clone()),
            }
            s.names.insert(upper);
            made += 1;
        } else if let Some(old) = s.names.iter().find(|n| n.starts_with('f') && is_upper(&s.c, n)) {
            let lookup = Op::Lookup(s.dir, s.c.name(old));
            let answer = s.c.ask(s.source, lookup);
            assert!(matches!(answer, None | Some(Ok(_))), "{answer:?}");
        }
        assert!(s.c.step(), "something is always on its way");
        steps += 1;
    }
    assert!(steps >= 4, "{steps} steps");
    s.c.settle();
    for name in waited {
        s.c.create(s.dir, &name).unwrap();
    }
    assert_eq!(sum(&s.c, |n| n.merges_moved), 1);
    s.assert_whole("in the end");
    let after = counts(&mut s.c, s.dir);
    assert_eq!((after.0, after.1), (s.names.len() as u64, before.1 + made));
    assert!(after.2 > before.2, "the newest change comes along");
}

/// Until the parent's owner has heard the decision, requests to it for the child's names wait, and
/// so do requests for counts.
#[test]
fn while_its_owner_is_in_doubt_a_name_and_the_counts_wait() {
    let mut s = about_to_merge();
    let upper = s.names.iter().find(|n| is_upper(&s.c, n)).cloned().unwrap();
    while !s.c.partitions([s.source], s.dir).is_empty() {
        assert!(s.c.step());
    }
    let lookup = Op::Lookup(s.dir, s.c.name(&upper));
    let refused = s.c.ask(s.source, lookup.clone());
    assert!(matches!(refused, Some(Err(Refusal::AskHome))), "{refused:?}");
    assert!(s.c.ask(s.home, lookup.clone()).is_none());
    assert!(s.c.ask(s.home, Op::DirGetAttr(s.dir)).is_none());
    assert!(s.c.ask(s.home, Op::PartitionStat(s.dir, PartitionIndex(0))).is_none());
    let lower = s.names.iter().find(|n| !is_upper(&s.c, n)).unwrap();
    let other = Op::Lookup(s.dir, s.c.name(lower));
    assert!(matches!(s.c.ask(s.home, other), Some(Ok(_))), "others do not");
    s.c.settle();
    assert!(matches!(s.c.ask(s.home, lookup), Some(Ok(_))));
    let entries = s.names.len() as u64;
    match s.c.ask(s.home, Op::DirGetAttr(s.dir)) {
        Some(Ok(Body::Dir(attr))) => {
            assert_eq!(attr.deltas.iter().map(|d| d.entries).sum::<u64>(), entries);
        }
        other => panic!("{other:?}"),
    }
}

/// A restart of source or target, or of both, after any message loses and doubles nothing. The
/// merge ends or is undone, and in the end the directory is whole.
#[test]
fn a_restart_at_any_step_loses_and_doubles_nothing() {
    let whole = {
        let mut s = about_to_merge();
        (0..).take_while(|_| s.c.step()).count()
    };
    assert!(whole > 5, "{whole}");
    for step in 0..=whole {
        for dies in [0b01, 0b10, 0b11] {
            let mut s = about_to_merge();
            (0..step).for_each(|_| {
                s.c.step();
            });
            for (bit, shard) in [(0b01, s.source), (0b10, s.home)] {
                if dies & bit > 0 {
                    s.c.restart([shard]);
                }
            }
            let when = format!("step {step}, {dies:#b}");
            s.c.settle();
            assert_eq!(names(&mut s.c, s.dir), s.names, "{when}");
            for n in 0..3 {
                let name = format!("more{n}");
                s.c.create(s.dir, &name).unwrap();
                s.names.insert(name);
            }
            s.assert_whole(&when);
        }
    }
}

/// Outcomes go along. A repetition finds its outcome at the new owner, and runs again at neither
/// shard.
#[test]
fn a_repetition_after_the_merge_is_answered_as_before() {
    let mut s = about_to_merge();
    let upper = fresh(&s.c, "new", Half::Upper);
    let id = RequestId { session: s.c.session, slot: 7, sequence: 1_000_000 };
    let op = s.c.create_op(s.dir, &upper);
    let first = s.c.run(s.source, (id, op.clone()));
    assert!(matches!(first, Ok(Body::Created(..))), "{first:?}");
    s.names.insert(upper.clone());
    s.assert_whole("merged");
    assert_eq!(s.c.run(s.home, (id, op.clone())), first);
    assert_eq!(s.c.run(s.source, (id, op.clone())), first);
    s.c.unlink(s.dir, &upper).unwrap();
    s.names.remove(&upper);
    assert_eq!(s.c.run(s.home, (id, op.clone())), first, "it does not come back");
    s.c.restart(s.c.all());
    s.c.settle();
    assert_eq!(s.c.run(s.home, (id, op)), first);
    s.assert_whole("in the end");
}

#[test]
fn open_files_go_along() {
    let mut s = grown(2, 1);
    let upper = fresh(&s.c, "open", Half::Upper);
    let node = NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() };
    let op = Op::Create { dir: s.dir, name: s.c.name(&upper), node, exclusive: true, open: true };
    let Ok(Body::Created(attr, true, _)) = s.c.on_owner(&op) else { panic!("made") };
    s.drain(Half::Lower, 6);
    s.drain(Half::Upper, 0);
    s.names.insert(upper.clone());
    s.assert_whole("merged");
    assert_eq!(s.c.in_flight()[3], 1, "open at one place");
    s.c.unlink(s.dir, &upper).unwrap();
    s.names.remove(&upper);
    s.c.done(&Op::Release(FileRef { ino: attr.ino, at: FileAt::Link })).unwrap();
    s.c.settle();
    assert_eq!(s.c.in_flight(), [0; 4]);
}

#[test]
fn a_merge_yields_to_chmod() {
    let mut s = about_to_merge();
    assert!(s.c.step());
    let chmod = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    s.c.done(&Op::DirSetAttr(s.dir, chmod)).unwrap();
    assert_eq!(sum(&s.c, |n| n.merges_yielded), 1);
    s.assert_whole("afterwards");
    s.c.by = Credentials::new(9, 9, Vec::new());
    for half in [Half::Lower, Half::Upper] {
        let op = s.c.create_op(s.dir, &fresh(&s.c, "denied", half));
        assert_eq!(s.c.done(&op), Err(Errno::EACCES), "in both halves");
    }
}

#[test]
fn rmdir_and_chmod_walk_anew_at_whatever_step_a_merge_is() {
    for step in 0.. {
        let mut s = about_to_merge();
        let rest: Vec<_> = s.names.iter().cloned().collect();
        for name in rest {
            let owner = if is_upper(&s.c, &name) { s.source } else { s.home };
            s.c.ask(owner, Op::Unlink(s.dir, s.c.name(&name))).unwrap().unwrap();
        }
        let mut is_over = false;
        (0..step).for_each(|_| is_over |= !s.c.step());
        match step % 2 {
            0 => s.c.rmdir(ROOT, "big").unwrap(),
            _ => {
                let chmod = SetAttr { mode: Some(0o700), ..SetAttr::default() };
                s.c.done(&Op::DirSetAttr(s.dir, chmod)).unwrap();
                s.c.rmdir(ROOT, "big").unwrap();
            }
        }
        s.c.settle();
        assert!(partitions(&mut s.c, s.dir).is_empty(), "step {step}");
        assert_eq!(s.c.in_flight(), [0; 4], "step {step}");
        s.c.mkdir(ROOT, "big").unwrap();
        if is_over {
            assert!(step > 5);
            break;
        }
    }
}

/// The parent decides: while both together have too many names, the partition stays. The attempts
/// come ever less often.
#[test]
fn a_partition_is_not_given_back_to_a_large_parent() {
    let mut s = grown(2, 1);
    s.drain(Half::Upper, 0);
    assert_eq!(s.c.copies(), 1);
    s.c.settle();
    assert_eq!(partitions(&mut s.c, s.dir).len(), 2);
    s.c.wait(100 * SECOND);
    let tries = sum(&s.c, |n| n.merges_refused);
    assert!((3..=12).contains(&tries), "{tries} tries");
    assert_eq!((sum(&s.c, |n| n.merges_moved), s.c.in_flight()[..3].to_vec()), (0, vec![0; 3]));
    // Once the parent has shrunk, too, the merge begins without another change of the partition.
    s.drain(Half::Lower, 3);
    s.c.wait(100 * SECOND);
    s.assert_whole("in the end");
}

/// After a restart no shard remembers small partitions. The next use of the directory finds them.
#[test]
fn after_a_restart_a_small_partition_is_found_by_its_first_use() {
    let mut s = grown(2, 1);
    s.drain(Half::Upper, 0);
    s.c.settle();
    s.c.restart(s.c.all());
    s.c.settle();
    s.drain(Half::Lower, 3);
    s.c.wait(2 * SECOND);
    assert_eq!(partitions(&mut s.c, s.dir).len(), 2);
    s.c.restart(s.c.all());
    s.c.settle();
    let stat = Op::PartitionStat(s.dir, PartitionIndex(1));
    assert!(matches!(s.c.ask(s.source, stat), Some(Ok(Body::Delta(_)))));
    s.assert_whole("in the end");
}

/// A partition that grows while it is merged stays, and nothing is left at its parent.
#[test]
fn a_partition_that_grows_again_stays() {
    let mut s = about_to_merge();
    for n in 0..12 {
        let name = fresh(&s.c, &format!("again{n}"), Half::Upper);
        let op = s.c.create_op(s.dir, &name);
        assert!(matches!(s.c.ask(s.source, op), Some(Ok(_))));
        s.names.insert(name);
    }
    s.c.settle();
    assert_eq!((sum(&s.c, |n| n.merges_failed), sum(&s.c, |n| n.merges_moved)), (1, 0));
    assert_eq!(names(&mut s.c, s.dir), s.names);
    assert_eq!(s.c.in_flight()[..3], [0; 3]);
}

/// A merge that was given up leaves its rows at the target, if that message is lost. A part of the
/// range then comes there for good, by a split. The old rows are dropped before it, and not with
/// it.
#[test]
fn what_a_merge_left_behind_does_not_take_along_what_is_split_off() {
    // Partition 1 is on the shard after the home. Partition 3, its upper half, is on the home
    // shard.
    let mut s = grown(3, 4);
    s.drain(Half::Lower, 6);
    s.drain(Half::Upper, 0);
    assert_eq!(s.c.copies(), 1);
    assert!(s.c.step(), "the first page is there");
    // The partition grows, and the merge is given up. The target does not hear so.
    for n in 0..45 {
        let name = fresh(&s.c, &format!("again{n}"), Half::Upper);
        let op = s.c.create_op(s.dir, &name);
        let answer = s.c.ask(s.source, op);
        assert!(matches!(answer, Some(Ok(_))), "{answer:?}");
        s.names.insert(name);
    }
    while s.c.copies() > 0 {
        assert!(s.c.step());
        s.c.take(|to, _| to == s.home);
    }
    assert_eq!(sum(&s.c, |n| n.merges_failed), 1);
    // The partition splits.
    for n in 0..40 {
        let name = fresh(&s.c, &format!("later{n}"), Half::Upper);
        s.c.create(s.dir, &name).unwrap();
        s.names.insert(name);
    }
    s.c.settle();
    // The old rows are gone, and the next create begins a split again.
    let last = fresh(&s.c, "last", Half::Upper);
    s.c.create(s.dir, &last).unwrap();
    s.names.insert(last);
    s.c.settle();
    let owned = s.c.partitions([s.home], s.dir).into_iter().map(|it| it.delta.partition.0);
    let owned: Vec<_> = owned.collect();
    assert_eq!(owned, [0, 3]);
    assert_eq!(names(&mut s.c, s.dir), s.names);
    s.c.wait(10 * SECOND);
    assert_eq!(names(&mut s.c, s.dir), s.names);
}

/// Transactions find names after their partition was merged.
#[test]
fn coordinators_with_stale_hints_find_the_new_owner() {
    let mut c = Cluster::with(4, |config| {
        (config.split_threshold, config.partitions_per_shard) = (THRESHOLD, 1);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    let dirs: Vec<_> = (0..8).map(|n| c.mkdir(ROOT, &format!("d{n}")).unwrap()).collect();
    fill(&mut c, dir, "f", 200);
    c.settle();
    assert_eq!(partitions(&mut c, dir).len(), 4);
    for round in 0..2 {
        for (n, from) in dirs.iter().enumerate() {
            for m in 0..6 {
                c.create(*from, &format!("x{m}")).unwrap();
                c.rename(*from, &format!("x{m}"), dir, &format!("r{round}.{n}.{m}")).unwrap();
            }
        }
        if round == 0 {
            for name in names(&mut c, dir) {
                c.unlink(dir, &name).unwrap();
            }
            c.settle();
            assert_eq!(partitions(&mut c, dir), [(0, 0, 0)]);
        }
    }
    c.settle();
    assert_eq!(names(&mut c, dir).len(), 48);
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// A huge directory that is emptied is whole again, on its home, with any number of partitions a
/// shard. Then it grows again.
#[test]
fn trees_collapse_and_grow_again_under_every_policy() {
    for (policy, shards) in [(1, 4), (3, 4), (2, 5), (u16::MAX, 3), (8, 1)] {
        let mut c = Cluster::with(shards, |config| {
            (config.split_threshold, config.partitions_per_shard) = (10, policy);
        });
        let dir = c.mkdir(ROOT, "big").unwrap();
        for ebb in 0..2 {
            fill(&mut c, dir, "f", 200);
            c.settle();
            let grown = partitions(&mut c, dir);
            assert!(grown.len() >= usize::from(shards).min(4), "{policy}: {grown:?}");
            let before = counts(&mut c, dir);
            let mut all: Vec<_> = names(&mut c, dir).into_iter().collect();
            assert_eq!(all.len(), 200);
            // In the order of a listing, or in another order.
            match ebb {
                0 => all.sort_by_key(|name| c.secrets.order(name.as_bytes())),
                _ => all.sort(),
            }
            let kept = all.pop().unwrap();
            for name in &all {
                c.unlink(dir, name).unwrap();
            }
            c.settle();
            let home =
                (0..shards).map(ShardIndex).find(|s| !c.partitions([*s], dir).is_empty()).unwrap();
            assert_eq!(partitions(&mut c, dir), [(0, 0, 1)], "policy {policy}, {shards} shards");
            assert!(matches!(c.ask(home, Op::DirGetAttr(dir)), Some(Ok(_))), "it is at home");
            let after = counts(&mut c, dir);
            assert_eq!((after.0, after.1), (1, before.1 + 199), "{policy}");
            assert_eq!(c.in_flight()[..3], [0; 3]);
            c.unlink(dir, &kept).unwrap();
        }
        match shards {
            1 => assert_eq!(sum(&c, |n| n.merges_moved), 0),
            _ => assert!(sum(&c, |n| n.merges_moved) >= 6),
        }
        c.rmdir(ROOT, "big").unwrap();
        c.settle();
        assert_eq!(c.in_flight(), [0; 4]);
    }
}

/// However many partitions are small at once, each is merged as soon as a merge may begin. None
/// waits out a pause for that.
#[test]
fn a_tree_of_many_partitions_collapses_soon() {
    let mut c = Cluster::with(4, |config| {
        (config.split_threshold, config.partitions_per_shard) = (10, u16::MAX);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    fill(&mut c, dir, "f", 900);
    c.settle();
    assert!(partitions(&mut c, dir).len() > 90);
    for n in 0..900 {
        c.unlink(dir, &format!("f{n}")).unwrap();
    }
    c.wait(20 * SECOND);
    assert_eq!(partitions(&mut c, dir), [(0, 0, 0)]);
}

/// A listing that overlaps merges at every page has each entry once.
#[test]
fn a_listing_over_merges_returns_every_entry_once() {
    let mut c = Cluster::with(4, |config| {
        (config.split_threshold, config.partitions_per_shard) = (16, 4);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    fill(&mut c, dir, "f", 160);
    c.settle();
    let kept: BTreeSet<_> = (0..8).map(|n| format!("f{}", n * 20)).collect();
    let mut going: Vec<_> = names(&mut c, dir).into_iter().filter(|n| !kept.contains(n)).collect();
    let (mut seen, mut from) = (Vec::new(), Some(Order(0)));
    while let Some(order) = from {
        let Ok(Body::Page(page, next)) = c.on_owner(&Op::ReadDir { dir, from: order, limit: 3 })
        else {
            panic!("a page");
        };
        seen.extend(page.into_iter().map(|entry| entry.name.to_string()));
        from = next;
        for name in going.split_off(going.len().saturating_sub(12)) {
            c.unlink(dir, &name).unwrap();
        }
        c.settle();
    }
    assert!(sum(&c, |n| n.merges_moved + n.merges_local) >= 4);
    let of_kept: Vec<_> = seen.iter().filter(|name| kept.contains(*name)).cloned().collect();
    assert_eq!(of_kept.len(), kept.len(), "each once");
    assert_eq!(of_kept.into_iter().collect::<BTreeSet<_>>(), kept);
}
