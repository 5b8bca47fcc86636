//! Operations over several shards with a perfect network: what must hold before anything goes
//! wrong.

use crate::support::Cluster;
use pando_types::op::Op;
use pando_types::reply::{Body, Delta, Found, Refusal};
use pando_types::{DirRef, Errno, FileKind, SetAttr, ShardIndex, TimeSet, Timestamp};

fn deltas(c: &mut Cluster, dir: DirRef) -> Vec<Delta> {
    c.partitions(c.all(), dir).into_iter().map(|it| it.delta).collect()
}

const ROOT: DirRef = DirRef::ROOT;

#[test]
fn a_directory_grows_over_all_shards_and_lists_every_name_once() {
    let mut c = Cluster::new(4, 8);
    let dir = c.mkdir(ROOT, "big").unwrap();
    let mut expected: Vec<_> = (0..200).map(|n| format!("f{n:03}")).collect();
    for name in &expected {
        c.create(dir, name).unwrap();
    }
    c.settle();
    let mut names = c.list(dir);
    names.sort();
    assert_eq!(names, expected);
    let (moved, local) =
        c.counters().iter().fold((0, 0), |sum, n| (sum.0 + n.splits_moved, sum.1 + n.splits_local));
    assert!(moved >= 3 && local + moved == 7, "moved {moved}, local {local}");
    for name in expected.drain(..) {
        assert_eq!(c.create(dir, &name), Err(Errno::EEXIST));
        c.unlink(dir, &name).unwrap();
    }
    assert_eq!(c.list(dir), Vec::<String>::new());
    c.rmdir(ROOT, "big").unwrap();
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}

/// A create touches no record outside its partition. The sums that `stat` makes over the partitions
/// are right.
#[test]
fn each_partition_counts_and_dates_its_own_names_and_no_others() {
    let mut c = Cluster::new(4, 8);
    let dir = c.mkdir(ROOT, "big").unwrap();
    for n in 0..150 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    for n in 0..20 {
        c.mkdir(dir, &format!("d{n}")).unwrap();
    }
    c.settle();
    let counted = |deltas: &[Delta]| {
        let sum = |of: fn(&Delta) -> u64| deltas.iter().map(of).sum::<u64>();
        (deltas.len(), sum(|it| it.entries), sum(|it| it.subdirs))
    };
    assert_eq!(counted(&deltas(&mut c, dir)), (8, 170, 20));
    let mut touched = std::collections::BTreeSet::new();
    for n in 0..40 {
        let name = format!("d{}", n / 2);
        let before = deltas(&mut c, dir);
        match n % 2 {
            0 => c.rmdir(dir, &name).unwrap(),
            _ => _ = c.create(dir, &name).unwrap(),
        }
        c.settle();
        let after = deltas(&mut c, dir);
        let changed = before.iter().zip(&after).filter(|(was, is)| was != is);
        let [(was, is)] = changed.collect::<Vec<_>>()[..] else { panic!("one partition changes") };
        let new = u64::from(n % 2 == 1);
        assert_eq!(
            (is.entries, is.subdirs),
            (was.entries + new - (1 - new), was.subdirs - (1 - new))
        );
        assert!(is.mtime > was.mtime && is.change > was.change);
        let others = after.iter().filter(|it| it.partition != is.partition);
        assert!(others.map(|it| it.mtime).all(|mtime| mtime < is.mtime), "the newest change");
        touched.insert(is.partition);
    }
    assert!(touched.len() >= 6, "they are spread");
    assert_eq!(counted(&deltas(&mut c, dir)), (8, 170, 0));
}

/// Times that are set count against all earlier changes, in every partition, and against none that
/// come later.
#[test]
fn times_that_are_set_begin_a_new_generation_in_every_partition() {
    let mut c = Cluster::new(4, 8);
    let dir = c.mkdir(ROOT, "big").unwrap();
    for n in 0..150 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    let generation = |c: &mut Cluster| match c.on_owner(&Op::DirGetAttr(dir)) {
        Ok(Body::Dir(home)) => home.generation,
        other => panic!("{other:?}"),
    };
    for round in 1..4 {
        let before = generation(&mut c);
        let set = SetAttr {
            mtime: Some(TimeSet::To(Timestamp::from_nanos(round))),
            ..SetAttr::default()
        };
        assert!(c.on_owner(&Op::DirSetAttr(dir, set)).is_ok());
        c.settle();
        let now = generation(&mut c);
        assert!(now > before);
        let all = deltas(&mut c, dir);
        assert!(all.iter().all(|it| (it.generation, it.mtime) == (now, Timestamp::default())));
        c.create(dir, &format!("after{round}")).unwrap();
        let count = |dated: bool| {
            move |it: &&Delta| it.generation == now && (it.mtime > Timestamp::default()) == dated
        };
        let all = deltas(&mut c, dir);
        assert_eq!(all.iter().filter(count(true)).count(), 1, "the one that has changed since");
        assert_eq!(all.iter().filter(count(false)).count(), all.len() - 1);
    }
}

#[test]
fn an_id_is_taken_until_the_renamed_directory_dies() {
    // InfiniFS §3.3.1, Figure 4: the name has version 1 while the sibling that was born there lives
    // elsewhere. After that it has version 0 again.
    let mut c = Cluster::new(4, 100);
    let first = c.mkdir(ROOT, "b").unwrap();
    let elsewhere = c.mkdir(ROOT, "e").unwrap();
    c.rename(ROOT, "b", elsewhere, "moved").unwrap();
    let second = c.mkdir(ROOT, "b").unwrap();
    assert_ne!(first.id, second.id);
    c.rmdir(ROOT, "b").unwrap();
    c.rmdir(elsewhere, "moved").unwrap();
    c.settle();
    let third = c.mkdir(ROOT, "b").unwrap();
    assert_eq!(first.id, third.id);
    assert_ne!(first.ino, third.ino);
}

#[test]
fn a_directory_does_not_move_beneath_itself() {
    let mut c = Cluster::new(4, 100);
    let a = c.mkdir(ROOT, "a").unwrap();
    let b = c.mkdir(a, "b").unwrap();
    let deep = c.mkdir(b, "deep").unwrap();
    assert_eq!(c.rename(ROOT, "a", deep, "x"), Err(Errno::EINVAL));
    assert_eq!(c.rename(ROOT, "a", a, "x"), Err(Errno::EINVAL));
    c.rename(b, "deep", ROOT, "deep").unwrap();
    c.rename(ROOT, "a", deep, "a").unwrap();
    assert_eq!(c.list(deep), ["a"]);
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}

#[test]
fn files_move_and_link_between_shards() {
    let mut c = Cluster::new(4, 100);
    let dirs: Vec<_> = (0..8).map(|n| c.mkdir(ROOT, &format!("d{n}")).unwrap()).collect();
    for (n, dir) in dirs.iter().enumerate() {
        let attr = c.create(*dir, "f").unwrap();
        let to = dirs[(n + 1) % 8];
        c.link((*dir, "f", attr.clone()), to, "hard").unwrap();
        c.rename(*dir, "f", to, "moved").unwrap();
        c.unlink(to, "hard").unwrap();
        match c.lookup(to, "moved").unwrap() {
            Found::Linked(ino, FileKind::Regular) => assert_eq!(ino, attr.ino),
            other => panic!("{other:?}"),
        }
        let plain = c.create(*dir, "plain").unwrap();
        c.rename(*dir, "plain", to, "moved").unwrap();
        match c.lookup(to, "moved").unwrap() {
            Found::File(found) => assert_eq!(found.ino, plain.ino),
            other => panic!("{other:?}"),
        }
    }
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    assert!(c.counters().iter().any(|n| n.txns_remote.iter().sum::<u64>() > 0));
}

#[test]
fn replaced_directories_must_be_empty() {
    let mut c = Cluster::new(4, 4);
    let a = c.mkdir(ROOT, "a").unwrap();
    let b = c.mkdir(ROOT, "b").unwrap();
    c.create(b, "f").unwrap();
    assert_eq!(c.rename(ROOT, "a", ROOT, "b"), Err(Errno::ENOTEMPTY));
    assert_eq!(c.rmdir(ROOT, "b"), Err(Errno::ENOTEMPTY));
    c.unlink(b, "f").unwrap();
    c.rename(ROOT, "a", ROOT, "b").unwrap();
    assert_eq!(c.lookup(ROOT, "a"), Err(Errno::ENOENT));
    assert!(matches!(c.lookup(ROOT, "b"), Ok(Found::Dir(access)) if access.dir == a));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}

#[test]
fn a_repeated_request_gets_the_first_answer() {
    let mut c = Cluster::new(1, 100);
    c.mkdir(ROOT, "before").unwrap();
    let op = Op::Mkdir(ROOT, c.name("d"), 0o755);
    let first = c.run(ShardIndex(0), op.clone());
    let id = c.last_id;
    assert_eq!(c.run(ShardIndex(0), (id, op.clone())), first);
    c.restart(c.all());
    c.settle();
    assert_eq!(c.run(ShardIndex(0), (id, op.clone())), first);
    let late = pando_types::op::RequestId { sequence: id.sequence - 1, ..id };
    assert_eq!(c.run(ShardIndex(0), (late, op)), Err(Refusal::Answered));
}

#[test]
fn a_request_is_refused_while_its_successor_in_the_same_slot_is_under_way() {
    let mut c = Cluster::new(2, 100);
    let owner = c.home(ROOT);
    // A request that needs the other shard, and waits for it.
    let under_way = (2..22).find_map(|sequence| {
        let id = pando_types::op::RequestId { session: c.session, slot: 5, sequence };
        let op = Op::Mkdir(ROOT, c.name(&format!("newer-{sequence}")), 0o755);
        c.ask(owner, (id, op.clone())).is_none().then_some((id, op))
    });
    let (id, newer) = under_way.expect("half of them do");
    let late = pando_types::op::RequestId { sequence: id.sequence - 1, ..id };
    let op = Op::Mkdir(ROOT, c.name("older"), 0o755);
    assert_eq!(c.run(owner, (late, op.clone())), Err(Refusal::Answered));
    let made = c.run(owner, (id, newer));
    assert!(matches!(made, Ok(Body::Made(..))), "{made:?}");
    assert_eq!(c.run(owner, (late, op)), Err(Refusal::Answered));
    assert_eq!(c.lookup(ROOT, "older"), Err(Errno::ENOENT));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_session_that_is_not_renewed_ends_and_its_orphans_go() {
    use pando_types::op::{FileAt, FileRef};
    let mut c = Cluster::with(4, |config| {
        (config.split_threshold, config.lease) = (100, 8 * SECOND);
    });
    let attr = c.create(ROOT, "f").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("f")) };
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    c.unlink(ROOT, "f").unwrap();
    let dead = c.session;
    c.begin_session(Op::OpenSession);
    let renew = Op::Renew(c.session);
    for _ in 0..3 {
        c.wait(6 * SECOND);
        assert_eq!(c.run(ShardIndex(0), renew.clone()), Ok(Body::Lease(8 * SECOND)));
    }
    assert_eq!(c.run(ShardIndex(0), Op::Renew(dead)), Err(Refusal::NoSession));
    assert_eq!(c.counters()[0].sessions_expired, 1);
    let orphan = FileRef { ino: attr.ino, at: FileAt::Link };
    assert_eq!(c.on_owner(&Op::GetAttr(orphan)), Err(Refusal::NotUnderName));
    assert_eq!(c.in_flight(), [0; 4]);
    let id = pando_types::op::RequestId { session: dead, slot: 0, sequence: 1 << 40 };
    let late = Op::Mkdir(ROOT, c.name("late"), 0o755);
    // Only the shard that would run it refuses it so. Others tell where that shard is.
    let answers = [0, 1, 2, 3].map(|shard| c.run(ShardIndex(shard), (id, late.clone())));
    let refused = |answer: &&Result<Body, Refusal>| **answer == Err(Refusal::NoSession);
    assert_eq!(answers.iter().filter(refused).count(), 1, "{answers:?}");
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
}

#[test]
fn after_a_restart_of_the_coordinator_every_session_has_a_whole_lease() {
    let mut c = Cluster::with(2, |config| {
        (config.split_threshold, config.lease) = (100, 8 * SECOND);
    });
    let renew = Op::Renew(c.session);
    c.wait(7 * SECOND);
    c.restart(c.all());
    c.wait(7 * SECOND);
    assert_eq!(c.run(ShardIndex(0), renew.clone()), Ok(Body::Lease(8 * SECOND)));
    assert_eq!(c.run(ShardIndex(1), renew), Err(Refusal::Errno(Errno::EINVAL)));
}

#[test]
fn what_was_there_is_there_after_a_restart() {
    let mut c = Cluster::new(4, 8);
    let dir = c.mkdir(ROOT, "d").unwrap();
    for n in 0..60 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    let before = c.list(dir);
    c.restart(c.all());
    c.settle();
    assert_eq!(c.list(dir), before);
    assert_eq!(c.in_flight(), [0; 4]);
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_released() {
    use pando_types::op::{FileAt, FileRef};
    let mut c = Cluster::new(4, 100);
    let attr = c.create(ROOT, "f").unwrap();
    let at = FileAt::Name(ROOT, c.name("f"));
    let file = FileRef { ino: attr.ino, at };
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    c.unlink(ROOT, "f").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Link };
    match c.on_owner(&Op::GetAttr(file.clone())) {
        Ok(Body::Attr(found)) => assert_eq!((found.ino, found.nlink), (attr.ino, 0)),
        other => panic!("{other:?}"),
    }
    c.restart(c.all());
    c.settle();
    c.done(&Op::Release(file.clone())).unwrap();
    // The link shard says that the inode is not here. The client must know whether it is gone or
    // has moved.
    assert_eq!(c.on_owner(&Op::GetAttr(file)), Err(Refusal::NotUnderName));
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
}
