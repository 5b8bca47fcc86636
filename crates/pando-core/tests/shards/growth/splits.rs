//! Live splits, step by step. The tests check what is served while a half is copied, what waits and
//! how long, and what a restart at any step leaves. Others check claims of GIGA+ with real shards:
//! growth, policies, added servers, nested directories.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Cluster;
use pando_core::Need;
use pando_types::op::Op;
use pando_types::peer::{Peer, PeerMessage, Prepare};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Order, SetAttr, ShardIndex};

const ROOT: DirRef = DirRef::ROOT;
const THRESHOLD: u64 = 40;

/// A directory one entry below its first split, which goes to the other of two shards. Also returns
/// its home.
fn about_to_split() -> (Cluster, DirRef, ShardIndex) {
    about_to_split_at(THRESHOLD, 4096)
}

/// As [`about_to_split`], with another threshold. `dirty_rows`: number of changed rows that closes
/// a half.
fn about_to_split_at(threshold: u64, dirty_rows: usize) -> (Cluster, DirRef, ShardIndex) {
    let mut c = Cluster::with(2, |config| {
        (config.split_threshold, config.partitions_per_shard) = (threshold, 1);
        config.split_dirty_rows = dirty_rows;
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    c.settle();
    for n in 0.. {
        let home =
            (0..2).map(ShardIndex).find(|shard| !c.partitions([*shard], dir).is_empty()).unwrap();
        c.ask(home, c.create_op(dir, &format!("f{n}"))).unwrap().unwrap();
        if c.copies() > 0 {
            return (c, dir, home);
        }
    }
    unreachable!()
}

pub fn fill(c: &mut Cluster, dir: DirRef, stem: &str, count: u32) {
    for n in 0..count {
        c.create(dir, &format!("{stem}{n}")).unwrap();
    }
}

pub fn is_upper(c: &Cluster, name: &str) -> bool {
    c.secrets.order(name.as_bytes()) >= Order(Order::END / 2)
}

pub fn names(c: &mut Cluster, dir: DirRef) -> BTreeSet<String> {
    let list = c.list(dir);
    let set: BTreeSet<_> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "a name twice");
    set
}

pub fn sum(c: &Cluster, of: impl Fn(&pando_core::Counters) -> u64) -> u64 {
    c.counters().iter().map(of).sum()
}

/// A redirect that rests on an unsynced change asks for a sync. It does not wait for the next
/// periodic sync. (That was once the slowest create of a growing directory: 200 ms.)
#[test]
fn a_request_sent_to_the_target_does_not_wait_for_a_sync_that_no_call_has_asked_for() {
    let (mut c, dir, home) = about_to_split();
    c.settle();
    let name = (0..).map(|n| format!("new{n}")).find(|name| is_upper(&c, name)).unwrap();
    let op = c.create_op(dir, &name);
    assert!(matches!(c.run(home, op), Err(Refusal::Redirect(_))));
    assert_eq!(c.last_need, Some(Need::Synced));
}

/// Requests are served while the half is copied. What changes behind the cursor is sent again.
/// Names of the moving half wait for the exchange only, and other names never wait.
#[test]
fn a_directory_is_used_while_its_half_is_copied() {
    let (mut c, dir, home) = about_to_split();
    let mut expected = names_at(&mut c, home, dir);
    let (mut waited, mut steps) = (Vec::new(), 0);
    while c.copies() > 0 {
        let [lower, upper] = [false, true].map(|upper| {
            let fresh = (0..).map(|n| format!("s{steps}.{n}"));
            fresh.into_iter().find(|name| is_upper(&c, name) == upper).unwrap()
        });
        let op = c.create_op(dir, &lower);
        assert!(matches!(c.ask(home, op), Some(Ok(_))), "the half that stays never waits");
        expected.insert(lower);
        // Changes of the half come more slowly than they are sent.
        if steps % 4 > 0 {
            assert!(c.step(), "something is always on its way");
            steps += 1;
            continue;
        }
        let op = c.create_op(dir, &upper);
        // Each request has a request slot of its own, as some of them wait.
        match c.ask(home, op) {
            Some(answer) => drop(answer.unwrap()),
            None => waited.push(steps),
        }
        expected.insert(upper);
        // Remove a name that the half had when the copy began, behind the cursor or before it.
        let old = expected.iter().find(|n| n.starts_with('f') && is_upper(&c, n)).cloned();
        if let Some(old) = old
            && waited.is_empty()
        {
            c.ask(home, Op::Unlink(dir, c.name(&old))).unwrap().unwrap();
            expected.remove(&old);
        }
        assert!(c.step(), "something is always on its way");
        steps += 1;
    }
    assert!(steps > 10 && waited.len() <= 1, "{steps} steps, names waited in {waited:?}");
    assert!(sum(&c, |n| n.split_rows_again + n.split_rows_frozen) >= 2);
    // Requests that waited are redirected, and are sent again.
    c.settle();
    for step in waited {
        let name = (0..).map(|n| format!("s{step}.{n}")).find(|name| is_upper(&c, name)).unwrap();
        c.create(dir, &name).unwrap();
    }
    assert_eq!(names(&mut c, dir), expected);
    let entries: u64 =
        [0, 1].map(|s| c.partitions([ShardIndex(s)], dir)[0].delta.entries).iter().sum();
    assert_eq!(entries, expected.len() as u64, "headers count what is there");
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// A half that changes faster than it is sent is soon closed. What is left is sent with the half
/// frozen. It is no more than what came in while as much was sent.
#[test]
fn a_half_that_changes_faster_than_it_is_sent_is_closed() {
    let (mut c, dir, home) = about_to_split();
    let mut expected = names_at(&mut c, home, dir);
    let (mut waited, mut steps) = (0, 0);
    while c.copies() > 0 {
        for n in 0..3 {
            let fresh = (0..).map(|m| format!("s{steps}.{n}.{m}"));
            let name = fresh.into_iter().find(|name| is_upper(&c, name)).unwrap();
            let op = c.create_op(dir, &name);
            match c.ask(home, op) {
                Some(answer) => {
                    answer.unwrap();
                    expected.insert(name);
                }
                None => waited += 1,
            }
        }
        assert!(c.step(), "something is always on its way");
        steps += 1;
    }
    c.settle();
    assert!(steps < 400 && waited > 10, "{steps} steps, {waited} waited");
    assert!(sum(&c, |n| n.split_rounds_frozen) >= 1);
    assert_eq!(names(&mut c, dir), expected);
}

/// The moving half is frozen for the exchange only. Both logs are synced before, while the half is
/// open. So they have little to sync in the exchange.
#[test]
fn both_logs_are_synced_before_a_half_is_closed() {
    let (mut c, dir, home) = about_to_split_at(4 * THRESHOLD, 4096);
    let mut sent = Vec::new();
    while c.copies() > 0 {
        c.take_sent();
        assert!(c.step(), "something is always on its way");
        sent.extend(c.take_sent());
        if sent.last().is_some_and(|(.., peer)| asks_for_sync(peer)) {
            let name = (0..).map(|n| format!("new{n}")).find(|name| is_upper(&c, name)).unwrap();
            let op = c.create_op(dir, &name);
            c.ask(home, op).expect("the half is open meanwhile").unwrap();
        }
    }
    let at = |what: &dyn Fn(&Peer) -> bool| sent.iter().position(|(.., peer)| what(peer)).unwrap();
    let asked = at(&asks_for_sync);
    let (need, to, page) = &sent[asked];
    assert_eq!((need, *to == home), (&Need::Synced, false), "the source's is synced first");
    let done = &sent[asked + 1];
    assert!(matches!(done.2.message, PeerMessage::PageDone(_)), "{done:?} answers {page:?}");
    assert_eq!((done.0, done.1), (Need::Synced, home), "then the target's");
    assert!(
        asked + 1 < at(&|peer| matches!(peer.message, PeerMessage::Prepare(_, Prepare::Arrive(_))))
    );
    assert_eq!(sent.iter().filter(|(.., peer)| asks_for_sync(peer)).count(), 1, "once");
    c.settle();
}

/// A half may be closed while a page is on its way. It is given up as soon as a frozen one,
/// whatever becomes of the page.
#[test]
fn a_half_that_is_closed_beside_a_page_is_given_up_as_soon_as_a_frozen_one() {
    let (mut c, dir, home) = about_to_split_at(4 * THRESHOLD, 12);
    loop {
        c.take_sent();
        assert!(c.step(), "something is always on its way");
        if c.take_sent().last().is_some_and(|(.., peer)| asks_for_sync(peer)) {
            break;
        }
    }
    let mut expected = names_at(&mut c, home, dir);
    let fresh = |c: &Cluster, n| {
        let mut all = (0..).map(|m| format!("new{n}.{m}"));
        all.find(|name| is_upper(c, name)).unwrap()
    };
    let waits = (0..100).map(|n| fresh(&c, n)).collect::<Vec<_>>().into_iter().find(|name| {
        let op = c.create_op(dir, name);
        expected.insert(name.clone());
        c.ask(home, op).map(Result::unwrap).is_none()
    });
    assert!(waits.is_some() && c.copies() == 1, "it is closed once too much has changed");
    for _ in 0..9 {
        c.take(|to, _| to == ShardIndex(1 - home.0));
        c.tick(c.all(), 100_000_000);
    }
    assert_eq!(c.copies(), 0);
    // The requests that waited have run.
    assert_eq!(names_at(&mut c, home, dir), expected);
    c.settle();
    assert_eq!(names(&mut c, dir), expected);
}

fn asks_for_sync(peer: &Peer) -> bool {
    matches!(peer.message, PeerMessage::Page { synced: true, .. })
}

/// All names, as told by the shard that owns everything. Nothing is delivered.
fn names_at(c: &mut Cluster, shard: ShardIndex, dir: DirRef) -> BTreeSet<String> {
    match c.ask(shard, Op::ReadDir { dir, from: Order(0), limit: 4096 }) {
        Some(Ok(Body::Page(page, None))) => page.iter().map(|e| e.name.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

/// A restart of source or target, or of both, after any message of a split loses and doubles
/// nothing. The split ends or is undone, and nothing is left of it.
#[test]
fn a_restart_at_any_step_loses_and_doubles_nothing() {
    let whole = {
        let (mut c, ..) = about_to_split();
        (0..).take_while(|_| c.step()).count()
    };
    assert!(whole > 15, "{whole}");
    let (mut ended, mut undone) = (0, 0);
    for step in 0..=whole {
        for dies in [0b01, 0b10, 0b11] {
            let (mut c, dir, home) = about_to_split();
            let mut expected = names_at(&mut c, home, dir);
            (0..step).for_each(|_| {
                c.step();
            });
            let target = ShardIndex(1 - home.0);
            for (bit, shard) in [(0b01, home), (0b10, target)] {
                if dies & bit > 0 {
                    c.restart([shard]);
                }
            }
            c.settle();
            assert_eq!(names(&mut c, dir), expected, "step {step}, {dies:#b}");
            assert_eq!(c.in_flight()[..3], [0; 3], "step {step}, {dies:#b}");
            match c.partitions([target], dir).is_empty() {
                true => undone += 1,
                false => ended += 1,
            }
            // The directory grows on, and splits.
            for n in 0..3 {
                let name = format!("more{n}");
                c.create(dir, &name).unwrap();
                expected.insert(name);
                c.settle();
            }
            assert_eq!(names(&mut c, dir), expected, "step {step}, {dies:#b}");
            assert_eq!(c.partitions([target], dir).len(), 1, "step {step}, {dies:#b}");
            let entries: u64 =
                [0, 1].map(|s| c.partitions([ShardIndex(s)], dir)[0].delta.entries).iter().sum();
            assert_eq!(entries, expected.len() as u64, "step {step}, {dies:#b}");
        }
    }
    assert!(ended > 10 && undone > 10, "{ended} ended, {undone} were undone");
}

/// `chmod` does not wait for a split, and is not answered `Busy` until it ends.
#[test]
fn a_copy_yields_to_a_request_that_wants_the_partition() {
    let (mut c, dir, home) = about_to_split();
    assert!(c.step());
    let expected = names_at(&mut c, home, dir);
    let chmod = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    c.done(&Op::DirSetAttr(dir, chmod)).unwrap_or_else(|errno| panic!("{errno:?}"));
    c.settle();
    assert_eq!(sum(&c, |n| n.splits_yielded), 1);
    assert_eq!(names(&mut c, dir), expected);
    assert_eq!(c.in_flight()[..3], [0; 3]);
    c.create(dir, "more").unwrap();
    c.settle();
    assert_eq!(sum(&c, |n| n.splits_moved), 1);
}

/// A silent target costs the directory nothing: the split is given up, and begins again later.
#[test]
fn a_silent_target_is_given_up() {
    let (mut c, dir, home) = about_to_split();
    let target = ShardIndex(1 - home.0);
    for _ in 0..200 {
        c.take(|to, _| to == target);
        c.tick(c.all(), 100_000_000);
    }
    assert!(sum(&c, |n| n.splits_failed) >= 1);
    assert_eq!(c.copies(), 0);
    let op = c.create_op(dir, "more");
    assert!(matches!(c.ask(home, op), Some(Ok(_))));
    c.settle();
    assert_eq!(sum(&c, |n| n.splits_moved), 1);
}

/// GIGA+ §3.4, Figure 2, with real shards. 5 shards with 3 partitions each have P0 to P14 round
/// robin, beginning at the home. Two shards are added, and P15 to P20 go to them in sequence. No
/// existing partition moves.
#[test]
fn figure_2_five_servers_and_two_more() {
    let mut c = Cluster::with(5, |config| {
        (config.split_threshold, config.partitions_per_shard) = (8, 3);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    let mut expected = BTreeSet::new();
    let grow = |c: &mut Cluster, expected: &mut BTreeSet<String>, to: usize| {
        for n in expected.len()..to {
            let name = format!("f{n}");
            c.create(dir, &name).unwrap();
            expected.insert(name);
        }
        c.settle();
        let mut owners = BTreeMap::new();
        for shard in c.all() {
            for it in c.partitions([shard], dir) {
                assert_eq!(owners.insert(it.delta.partition.0, shard.0), None);
            }
        }
        owners
    };
    let before = grow(&mut c, &mut expected, 400);
    assert!(before.keys().copied().eq(0..15));
    let base = before[&0];
    assert!(before.iter().all(|(i, shard)| u32::from(*shard) == (u32::from(base) + i) % 5));

    for _ in 0..2 {
        c.configs.iter_mut().for_each(|config| assert!(config.map.add_shard().is_some()));
        c.found();
    }
    c.restart(c.all());
    c.settle();
    c.begin_session(Op::OpenSession);
    let after = grow(&mut c, &mut expected, 700);
    assert!(after.keys().copied().eq(0..21));
    for (index, shard) in &after {
        match before.get(index) {
            Some(old) => assert_eq!(shard, old, "P{index}"),
            None => assert_eq!(u32::from(*shard), index / 3, "P{index}"),
        }
    }
    assert_eq!(names(&mut c, dir), expected);
}

/// GIGA+ §5.2: one partition a shard, several, or as many as the threshold asks for.
#[test]
fn policies_one_several_continuous() {
    for (policy, least, most) in [(1, 4, 4), (3, 12, 12), (u16::MAX, 40, 120)] {
        let mut c = Cluster::with(4, |config| {
            (config.split_threshold, config.partitions_per_shard) = (10, policy);
        });
        let dir = c.mkdir(ROOT, "big").unwrap();
        fill(&mut c, dir, "f", 400);
        c.settle();
        let owned = c.partitions(c.all(), dir);
        assert!((least..=most).contains(&owned.len()), "{policy}: {} partitions", owned.len());
        assert_eq!(owned.iter().map(|it| it.delta.entries).sum::<u64>(), 400);
        if policy == u16::MAX {
            assert!(owned.iter().all(|it| it.delta.entries <= 10));
        }
    }
}

/// The poster: with a power of two of shards, once each has a partition, splits stay on their shard
/// and copy nothing.
#[test]
fn with_a_power_of_two_shards_only_the_first_splits_move() {
    let mut c = Cluster::with(4, |config| {
        (config.split_threshold, config.partitions_per_shard) = (10, 8);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    fill(&mut c, dir, "f", 800);
    c.settle();
    assert_eq!(sum(&c, |n| n.splits_moved), 3);
    assert_eq!(sum(&c, |n| n.splits_local), 28);
}

/// Huge directories within huge directories, all split over the same shards, each by itself.
#[test]
fn huge_directories_nest() {
    let mut c = Cluster::new(4, 10);
    let mut dir = ROOT;
    let mut dirs = Vec::new();
    for depth in 0..4 {
        dir = c.mkdir(dir, "sub").unwrap();
        dirs.push(dir);
        fill(&mut c, dir, &format!("d{depth}f"), 60);
        for n in 0..40 {
            c.mkdir(dir, &format!("d{n}")).unwrap();
        }
    }
    c.settle();
    for (depth, dir) in dirs.iter().enumerate() {
        let count = 100 + usize::from(depth < 3);
        assert_eq!(names(&mut c, *dir).len(), count);
        let owned = c.partitions(c.all(), *dir);
        assert_eq!(owned.len(), 8);
        assert_eq!(owned.iter().map(|it| it.delta.entries as usize).sum::<usize>(), count);
    }
    for n in 0..40 {
        c.rmdir(dirs[3], &format!("d{n}")).unwrap();
    }
    (0..60).for_each(|n| c.unlink(dirs[3], &format!("d3f{n}")).unwrap());
    c.rmdir(dirs[2], "sub").unwrap();
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    let gone = c.on_owner(&Op::ReadDir { dir: dirs[3], from: Order(0), limit: 1 });
    assert!(matches!(gone, Err(Refusal::AskHome | Refusal::Errno(_))), "{gone:?}");
}
