//! Handovers of hash slots, step by step: what moves and what stays, what is served meanwhile, what
//! a restart at any step leaves.

use std::collections::BTreeSet;

use crate::support::{Cluster, dir_at};
use pando_types::op::{FileAt, FileRef, Op, RequestId, Target, XattrMode};
use pando_types::peer::{Change, Peer, PeerMessage};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, HashSlot, SetAttr, ShardIndex, Trail};

const ROOT: DirRef = DirRef::ROOT;

/// The shard that answers for a directory itself. Asserts that exactly one does.
fn home(c: &mut Cluster, dir: DirRef) -> ShardIndex {
    let all = c.all();
    let answers = |shard: &ShardIndex| c.run(*shard, Op::Parent(dir)).is_ok();
    let homes: Vec<_> = all.filter(answers).collect();
    assert_eq!(homes.len(), 1, "{homes:?}");
    homes[0]
}

fn begin(c: &mut Cluster, hash_slot: HashSlot, from: ShardIndex, to: ShardIndex) {
    let begun = c.ask(from, Op::HandOver(from, hash_slot, to)).expect("an answer at once");
    assert_eq!(begun, Ok(Body::Done));
}

fn hand_over(c: &mut Cluster, hash_slot: HashSlot, from: ShardIndex, to: ShardIndex) {
    begin(c, hash_slot, from, to);
    c.settle();
}

fn names(c: &mut Cluster, dir: DirRef) -> BTreeSet<String> {
    let list = c.list(dir);
    let set: BTreeSet<_> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "a name twice");
    set
}

fn moved(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.handovers).sum()
}

/// A directory with files and a subdirectory, its home, and another shard.
fn filled(c: &mut Cluster, count: u32) -> (DirRef, ShardIndex, ShardIndex) {
    let dir = c.mkdir(ROOT, "dir").unwrap();
    for n in 0..count {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.mkdir(dir, "sub").unwrap();
    c.settle();
    let from = home(c, dir);
    let to = c.all().find(|shard| *shard != from).unwrap();
    (dir, from, to)
}

#[test]
fn a_directory_goes_with_its_hash_slot_and_a_request_to_its_old_owner_is_redirected() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 20);
    let set = Op::SetXattr {
        target: Target::Dir(dir),
        name: b"user.x".to_vec(),
        value: b"1".to_vec(),
        mode: XattrMode::Any,
    };
    c.done(&set).unwrap();
    let before = names(&mut c, dir);
    hand_over(&mut c, dir.id.hash_slot(), from, to);
    assert_eq!((home(&mut c, dir), moved(&c)), (to, 1));
    assert_eq!(names(&mut c, dir), before);
    assert!(c.partitions([from], dir).is_empty());
    for op in [Op::Parent(dir), Op::Lookup(dir, c.name("f1")), c.create_op(dir, "new")] {
        match c.run(from, op) {
            Err(Refusal::HashSlot(news)) => assert_eq!((news.version, news.owner), (1, to)),
            other => panic!("{other:?}"),
        }
    }
    let get = Op::GetXattr(Target::Dir(dir), b"user.x".to_vec());
    assert_eq!(c.on_owner(&get), Ok(Body::Bytes(b"1".to_vec())));
    c.create(dir, "new").unwrap();
    c.unlink(dir, "f3").unwrap();
    let sub = match c.lookup(dir, "sub").unwrap() {
        Found::Dir(access) => access.dir,
        other => panic!("{other:?}"),
    };
    c.create(sub, "deep").unwrap();
    // And back: the second owner names the next one, too.
    hand_over(&mut c, dir.id.hash_slot(), to, from);
    assert_eq!(home(&mut c, dir), from);
    assert_eq!(names(&mut c, dir).len(), before.len());
    assert_eq!(c.unlink(dir, "f3"), Err(Errno::ENOENT));
    assert!(
        matches!(c.run(to, Op::Parent(dir)), Err(Refusal::HashSlot(news)) if news.version == 2)
    );
}

#[test]
fn a_link_inode_goes_with_its_names_and_opens() {
    let mut c = Cluster::new(3, 1_000);
    let file = c.create(ROOT, "one").unwrap();
    c.link((ROOT, "one", file.clone()), ROOT, "two").unwrap();
    c.settle();
    let hash_slot = file.ino.hash_slot();
    let at = FileRef { ino: file.ino, at: FileAt::Link };
    let stat = Op::GetAttr(at.clone());
    let answers = |c: &mut Cluster, shard| matches!(c.run(shard, stat.clone()), Ok(Body::Attr(_)));
    let from = c.all().find(|shard| answers(&mut c, *shard)).unwrap();
    let to = c.all().find(|shard| *shard != from).unwrap();
    let open = Op::Open { file: at.clone(), access: 4, truncate: false, kill: None };
    c.run(from, open).unwrap();
    hand_over(&mut c, hash_slot, from, to);
    assert!(answers(&mut c, to) && !answers(&mut c, from));
    c.unlink(ROOT, "one").unwrap();
    c.unlink(ROOT, "two").unwrap();
    c.settle();
    assert!(answers(&mut c, to), "it is open");
    c.run(to, Op::Release(at)).unwrap();
    assert!(!answers(&mut c, to), "it was the last");
}

/// GIGA+ §4.2: partitions stay where the first split has put them, wherever their directory's home
/// goes. The old owner names the new one as soon as the handover is decided. A shard that hears of
/// itself as the owner waits for the decision. Before that it has nothing of the directory to
/// answer with.
#[test]
fn a_shard_told_that_it_owns_a_hash_slot_waits_for_the_decision() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 3);
    let Found::File(file) = c.lookup(dir, "f1").unwrap() else { panic!("a file") };
    let mut others = 0..50;
    let there = others.find_map(|n| {
        let made = c.mkdir(ROOT, &format!("d{n}")).unwrap();
        c.settle();
        (home(&mut c, made) == to).then_some(made)
    });
    let there = there.expect("one in three lives there");
    begin(&mut c, dir.id.hash_slot(), from, to);
    let is_decision = |shard, peer: &Peer| {
        let PeerMessage::Finish(Some(changes)) = &peer.message else { return false };
        shard == to && matches!(changes[..], [Change::OwnHashSlot(_)])
    };
    let decision = loop {
        let decision = c.take(is_decision);
        if !decision.is_empty() {
            break decision;
        }
        assert!(c.step(), "it comes to a decision");
    };
    let at = FileAt::Name(dir, c.name("f1"));
    let link = Op::Link(FileRef { ino: file.ino, at }, there, c.name("linked"));
    let tag = c.send(to, link);
    while c.step() {}
    assert_eq!(c.answer(tag), None);
    c.put_back(decision);
    c.settle();
    assert!(matches!(c.answer(tag), Some(Ok(Body::Attr(attr))) if attr.nlink == 2));
    assert_eq!(home(&mut c, dir), to);
}

/// A target that gave a handover up is left alone for a while. The while ends though nothing else
/// wakes the source.
#[test]
fn a_target_that_was_not_ready_is_tried_again_by_a_shard_that_has_nothing_else_to_do() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, _) = filled(&mut c, 3);
    let to = c.found();
    let hand_over = Op::HandOver(from, dir.id.hash_slot(), to);
    assert_eq!(c.ask(from, hand_over.clone()), Some(Ok(Body::Done)));
    while c.step() {}
    assert_eq!(c.counters()[usize::from(from.0)].handovers_failed, 1, "it has not joined");
    let busy = Some(Err(Refusal::Errno(Errno::EBUSY)));
    assert_eq!(c.ask(from, hand_over.clone()), busy);
    c.nanos += 60_000_000_000;
    assert_eq!(c.ask(from, hand_over), Some(Ok(Body::Done)));
}

#[test]
fn other_partitions_stay_where_they_are() {
    for to_owner in [false, true] {
        let mut c = Cluster::new(3, 20);
        let (dir, from, _) = filled(&mut c, 150);
        let is_beside = |c: &mut Cluster, shard: ShardIndex| !c.partitions([shard], dir).is_empty();
        let others: Vec<_> = c.all().filter(|shard| *shard != from).collect();
        let to = *others
            .iter()
            .find(|shard| is_beside(&mut c, **shard) == to_owner)
            .unwrap_or(&others[0]);
        let before = names(&mut c, dir);
        let rest = |c: &mut Cluster| -> BTreeSet<(ShardIndex, u32, u8, u64)> {
            let all = c.all();
            let of = |shard| {
                let deltas = c.partitions([shard], dir).into_iter().map(|it| it.delta);
                deltas.map(move |it| (shard, it.partition.0, it.radix.0, it.entries))
            };
            all.flat_map(of).filter(|(_, partition, ..)| *partition != 0).collect()
        };
        let kept = rest(&mut c);
        assert!(kept.len() > 2, "{kept:?}");
        hand_over(&mut c, dir.id.hash_slot(), from, to);
        assert_eq!((home(&mut c, dir), moved(&c)), (to, 1));
        assert_eq!(rest(&mut c), kept);
        assert_eq!(names(&mut c, dir), before);
        for n in 0..150 {
            c.lookup(dir, &format!("f{n}")).unwrap();
        }
        c.restart(c.all());
        c.settle();
        assert_eq!(names(&mut c, dir), before);
    }
}

#[test]
fn a_hash_slot_is_used_while_it_is_copied() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 40);
    begin(&mut c, dir.id.hash_slot(), from, to);
    let mut n = 0;
    let mut waited = 0;
    while c.step() {
        let (new, gone) = (format!("n{n}"), format!("f{n}"));
        for op in [c.create_op(dir, &new), Op::Unlink(dir, c.name(&gone))] {
            match c.ask(from, op) {
                Some(Ok(_)) => {}
                Some(Err(Refusal::HashSlot(_))) | None => waited += 1,
                other => panic!("{other:?}"),
            }
        }
        n += 1;
        if n == 40 {
            break;
        }
    }
    c.settle();
    assert_eq!((home(&mut c, dir), moved(&c)), (to, 1));
    assert!(n > 5 && waited < 12, "{n} rounds, {waited} waited");
    let left = names(&mut c, dir);
    for m in 0..n {
        // Only what was redirected at the end has not been done.
        let (new, gone) = (left.contains(&format!("n{m}")), left.contains(&format!("f{m}")));
        assert!(new != gone || m + 12 > n, "{m}");
    }
}

#[test]
fn a_hash_slot_is_copied_at_its_rate_and_not_faster() {
    const RATE: u64 = 1_000_000;
    const TICK: u64 = 50_000;
    let mut c = Cluster::with(3, |config| config.handover_rate = RATE);
    let (dir, from, to) = filled(&mut c, 100);
    let of_dir = [&[b'd'][..], &dir.id.0].concat();
    let rows = c.rows();
    let rows = rows.iter().filter(|((at, key), _)| *at == from.0 && key.starts_with(&of_dir));
    let bytes: usize = rows.map(|((_, key), value)| key.len() + value.len()).sum();
    begin(&mut c, dir.id.hash_slot(), from, to);
    let (begun, mut n) = (c.nanos, 0);
    while moved(&c) == 0 {
        while c.step() {}
        c.tick(c.all(), TICK);
        assert!(c.nanos - begun < 1_000_000_000, "it never ends");
        // Clients of the hash slot do not wait meanwhile.
        let op = c.create_op(dir, &format!("n{n}"));
        if n < 10 {
            c.ask(from, op).expect("answered at once").expect("made");
            n += 1;
        }
    }
    let waited = c.nanos - begun;
    let least = bytes as u64 * 1_000_000_000 / RATE;
    // Each page has some four hundred bytes. Some ticks of the clock take longer than that.
    assert!((least / 10 * 9..least / 2 * 3).contains(&waited), "{waited} for {least}");
    c.settle();
    assert_eq!((home(&mut c, dir), names(&mut c, dir).len()), (to, 111));
}

#[test]
fn changes_are_sent_while_a_hash_slot_is_copied_so_that_they_never_are_too_many() {
    let mut c = Cluster::with(3, |config| config.split_dirty_rows = 8);
    let (dir, from, to) = filled(&mut c, 120);
    begin(&mut c, dir.id.hash_slot(), from, to);
    let (mut n, mut steps) = (0, 0);
    while c.step() {
        steps += 1;
        if steps % 3 == 0 && n < 20 {
            let op = Op::Unlink(dir, c.name(&format!("f{n}")));
            assert!(c.ask(from, op).is_some_and(|answer| answer.is_ok()), "{n}");
            n += 1;
        }
    }
    c.settle();
    assert_eq!((home(&mut c, dir), moved(&c), n), (to, 1, 20));
    let overtaken: u64 = c.counters().iter().map(|counters| counters.splits_overtaken).sum();
    assert_eq!(overtaken, 0);
    assert_eq!(names(&mut c, dir).len(), 101);
}

/// Another partition of the directory on that shard stays. Its changes, however many, do not
/// concern the copy.
#[test]
fn changes_of_other_partitions_are_not_kept_in_mind() {
    let mut c = Cluster::with(3, |config| {
        (config.split_threshold, config.split_dirty_rows) = (60, 8);
    });
    let (dir, from, to) = filled(&mut c, 250);
    let mut deltas = c.partitions([from], dir).into_iter().map(|it| it.delta);
    let beside = deltas.find(|it| it.partition.0 != 0).expect("two partitions a shard");
    let orders = pando_placement::range(beside.partition, beside.radix);
    let before = names(&mut c, dir);
    begin(&mut c, dir.id.hash_slot(), from, to);
    let (mut steps, mut changes) = (0, 0);
    while moved(&c) == 0 {
        assert!(c.step() && steps < 300, "it never ends");
        steps += 1;
        let fresh: Vec<_> = (0..16).map(|n| format!("new{steps}.{n}")).collect();
        for name in fresh {
            if !orders.contains(&c.secrets.order(name.as_bytes()).0) {
                continue;
            }
            for op in [c.create_op(dir, &name), Op::Unlink(dir, c.name(&name))] {
                assert!(c.ask(from, op).is_some_and(|answer| answer.is_ok()), "{name}");
                changes += 1;
            }
        }
    }
    c.settle();
    assert!(steps > 10 && changes > 40, "{steps} steps, {changes} changes");
    let overtaken: u64 = c.counters().iter().map(|counters| counters.splits_overtaken).sum();
    assert_eq!((overtaken, home(&mut c, dir)), (0, to));
    assert_eq!(names(&mut c, dir), before);
}

#[test]
fn a_few_names_that_change_all_the_time_do_not_hold_up_the_copy() {
    let mut c = Cluster::with(3, |config| config.split_dirty_rows = 16);
    let (dir, from, to) = filled(&mut c, 120);
    begin(&mut c, dir.id.hash_slot(), from, to);
    let (mut steps, mut refused) = (0_u16, 0);
    while moved(&c) == 0 {
        assert!(c.step() && steps < 2_000, "it never ends");
        steps += 1;
        // Each of eight names exists in every other round.
        for n in 0..4 {
            let name = format!("hot{}", (steps * 4 + n) % 8);
            let is_there = steps / 2 % 2 == 1;
            let op =
                if is_there { Op::Unlink(dir, c.name(&name)) } else { c.create_op(dir, &name) };
            refused += u32::from(c.ask(from, op).is_none_or(|answer| answer.is_err()));
        }
    }
    c.settle();
    assert_eq!(home(&mut c, dir), to);
    assert!(names(&mut c, dir).len() >= 121 && refused < 60, "{refused} of {steps} steps");
}

#[test]
fn whatever_step_a_restart_comes_at_one_shard_has_it_all() {
    for who in 0..3 {
        for steps in 0..40 {
            let mut c = Cluster::new(2, 1_000);
            let (dir, from, to) = filled(&mut c, 25);
            let before = names(&mut c, dir);
            begin(&mut c, dir.id.hash_slot(), from, to);
            let ended = (0..steps).any(|_| !c.step());
            match who {
                0 => c.restart([from]),
                1 => c.restart([to]),
                _ => c.restart(c.all()),
            }
            c.settle();
            let at = home(&mut c, dir);
            assert_eq!(names(&mut c, dir), before, "{who} at {steps}");
            let other = if at == from { to } else { from };
            assert!(c.partitions([other], dir).is_empty());
            // It can be handed over again, whatever came before.
            hand_over(&mut c, dir.id.hash_slot(), at, other);
            assert_eq!(home(&mut c, dir), other, "{who} at {steps}");
            assert_eq!(names(&mut c, dir), before, "{who} at {steps}");
            assert_eq!(c.in_flight(), [0; 4]);
            if ended {
                break;
            }
        }
    }
}

#[test]
fn a_repetition_finds_its_outcome_where_the_hash_slot_has_gone() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 3);
    let op = c.create_op(dir, "once");
    c.run(from, op.clone()).unwrap();
    let id = c.last_id;
    let set = Op::DirSetAttr(dir, SetAttr { mode: Some(0o700), ..Default::default() });
    let id_set = RequestId { slot: 7, sequence: 1, ..id };
    c.run(from, (id_set, set.clone())).unwrap();
    hand_over(&mut c, dir.id.hash_slot(), from, to);
    assert!(matches!(c.run(to, (id, op.clone())), Ok(Body::Created(_, true, _))));
    assert!(matches!(c.run(from, (id, op)), Ok(Body::Created(_, true, _))));
    assert!(c.run(to, (id_set, set)).is_ok());
}

/// The next request in that request slot concerned something that stays. So the floor goes along:
/// it tells only that the request has run.
#[test]
pub fn a_late_copy_does_not_run_again_where_a_hash_slot_has_gone() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 3);
    let (_, stays) = dir_at(&mut c, ROOT, "stays", |home| home == from);
    assert_ne!(stays.id.hash_slot(), dir.id.hash_slot());
    let op = c.create_op(dir, "once");
    let first = RequestId { session: c.session, slot: 7, sequence: 1 };
    c.run(from, (first, op.clone())).unwrap();
    let next = RequestId { sequence: 2, ..first };
    let set = Op::DirSetAttr(stays, SetAttr { mode: Some(0o700), ..SetAttr::default() });
    c.run(from, (next, set)).unwrap();
    c.unlink(dir, "once").unwrap();
    hand_over(&mut c, dir.id.hash_slot(), from, to);
    let late = c.run(to, (first, op));
    assert_eq!(late, Err(Refusal::Answered), "a late copy ran again");
    assert!(!names(&mut c, dir).contains("once"));
}

/// A late copy of a request comes to the earlier owner, with a trail that has changed. That shard's
/// refusal is no outcome of the request, and does not go along with other hash slots as one.
#[test]
fn a_request_by_a_changed_trail_to_the_old_owner_of_a_hash_slot_has_not_run() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 3);
    hand_over(&mut c, dir.id.hash_slot(), from, to);
    let op = c.create_op(dir, "once");
    let stale = Trail { version: 1, dirs: vec![ROOT.ino; Trail::DIRS_MAX + 1] };
    let tag = c.send(from, (op.clone(), stale));
    let id = c.last_id;
    c.settle();
    assert!(matches!(c.answer(tag), Some(Err(Refusal::HashSlot(_)))));
    let map = c.shard(from).map().clone();
    let other =
        (1..).map(HashSlot).find(|hash_slot| map.hash_slot_owner(*hash_slot) == from).unwrap();
    hand_over(&mut c, other, from, to);
    assert!(matches!(c.run(to, (id, op)), Ok(Body::Created(..))));
}

#[test]
fn what_cannot_be_handed_over_stays() {
    let mut c = Cluster::new(3, 1_000);
    let (dir, from, to) = filled(&mut c, 3);
    let hash_slot = dir.id.hash_slot();
    let mut ask = |at, hash_slot, to| c.ask(at, Op::HandOver(at, hash_slot, to)).unwrap();
    let einval = Err(Refusal::Errno(Errno::EINVAL));
    assert_eq!(ask(ShardIndex(0), ROOT.id.hash_slot(), ShardIndex(1)), einval);
    assert_eq!(ask(from, hash_slot, from), einval);
    assert_eq!(ask(from, hash_slot, ShardIndex(256)), einval, "there can be no such shard");
    assert_eq!(ask(to, hash_slot, from), Err(Refusal::AskHome));
    assert_eq!(ask(from, hash_slot, to), Ok(Body::Done));
    assert_eq!(ask(from, hash_slot, to), Err(Refusal::Errno(Errno::EBUSY)));
    c.settle();
    assert_eq!(home(&mut c, dir), to);
}

/// With two shards, partition 0 splits off 1 to the other shard, and then 2 on its own. While that
/// half is counted, the hash slot stays.
#[test]
fn a_hash_slot_stays_while_half_of_its_partition_is_counted() {
    let mut c = Cluster::with(2, |config| {
        (config.split_threshold, config.partitions_per_shard) = (40, 64);
    });
    let (dir, from, to) = filled(&mut c, 60);
    let hash_slot = dir.id.hash_slot();
    assert!(
        c.partitions([from], dir).iter().all(|it| it.delta.partition.0 == 0),
        "it has split off 1 only"
    );
    c.hurries = false;
    let is_counted = |c: &mut Cluster| {
        c.partitions([from], dir).iter().any(|it| it.delta.partition.0 == 0 && it.state != "owned")
    };
    let mut n = 0;
    while !is_counted(&mut c) {
        let op = c.create_op(dir, &format!("more{n}"));
        drop(c.ask(from, op));
        n += 1;
        assert!(n < 1_000);
    }
    let busy = Err(Refusal::Errno(Errno::EBUSY));
    assert_eq!(c.ask(from, Op::HandOver(from, hash_slot, to)).unwrap(), busy);
    c.hurries = true;
    c.settle();
    let split = c.partitions([from], dir);
    assert!(split.iter().any(|it| it.delta.partition.0 == 2), "{split:?}");
    let before = names(&mut c, dir);
    hand_over(&mut c, hash_slot, from, to);
    assert_eq!((home(&mut c, dir), moved(&c)), (to, 1));
    assert_eq!(names(&mut c, dir), before);
}

/// A directory is removed and made again, with its hash slot on another shard in between.
#[test]
fn a_directory_dies_and_is_born_where_its_hash_slot_is() {
    let mut c = Cluster::new(3, 10);
    let (dir, from, to) = filled(&mut c, 60);
    hand_over(&mut c, dir.id.hash_slot(), from, to);
    for n in 0..60 {
        c.unlink(dir, &format!("f{n}")).unwrap();
    }
    c.rmdir(dir, "sub").unwrap();
    c.rmdir(ROOT, "dir").unwrap();
    c.settle();
    let again = c.mkdir(ROOT, "dir").unwrap();
    assert_eq!(again.id, dir.id);
    c.settle();
    assert_eq!(home(&mut c, again), to);
    c.create(again, "x").unwrap();
    assert_eq!(names(&mut c, again).len(), 1);
}

/// Every shard has owned the hash slot, so all can name its owner. Old news must not send a request
/// to and fro.
#[test]
fn a_request_for_a_name_of_an_earlier_life_of_the_directory_gets_an_answer() {
    let mut c = Cluster::new(3, 10);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.rmdir(ROOT, "dir").unwrap();
    c.settle();
    let again = c.mkdir(ROOT, "dir").unwrap();
    assert!(again.id == dir.id && again.ino != dir.ino);
    let hash_slot = dir.id.hash_slot();
    let mut from = home(&mut c, again);
    // Last comes the shard of the new name: it knows the partitions of the later life from its own.
    let others: Vec<_> = c.all().filter(|shard| *shard != from).collect();
    let last = ShardIndex(0);
    for to in others.into_iter().filter(|shard| *shard != last).chain([ShardIndex(1), last]) {
        if to != from {
            hand_over(&mut c, hash_slot, from, to);
            from = to;
        }
    }
    assert_eq!(home(&mut c, again), last);
    for n in 0..60 {
        c.create(again, &format!("f{n}")).unwrap();
    }
    c.settle();
    let is_elsewhere = |shard: &ShardIndex| !c.partitions([*shard], again).is_empty();
    assert_eq!((1..3).map(ShardIndex).filter(is_elsewhere).count(), 2);
    for n in 0..60 {
        let at = FileAt::Name(dir, c.name(&format!("f{n}")));
        let link = Op::Link(FileRef { ino: dir.ino, at }, ROOT, c.name("link"));
        assert_eq!(c.run(last, link), Err(Refusal::Errno(Errno::ESTALE)), "f{n}");
    }
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// The id has a later life, with partitions on other shards, since the hash slot has gone
/// elsewhere. What a shard remembers of the earlier life must not send it to and fro.
#[test]
fn what_is_remembered_of_an_earlier_life_is_forgotten_when_the_later_one_lies_elsewhere() {
    for (first, second) in [(1, 2), (2, 1)].map(|(a, b)| (ShardIndex(a), ShardIndex(b))) {
        let mut c = Cluster::new(3, 10);
        let mut lives = Vec::new();
        for at in [first, second] {
            let dir = c.mkdir(ROOT, "dir").unwrap();
            c.settle();
            let from = home(&mut c, dir);
            if from != at {
                hand_over(&mut c, dir.id.hash_slot(), from, at);
            }
            let made: Vec<_> = (0..60).map(|n| c.create(dir, &format!("f{n}")).unwrap()).collect();
            c.settle();
            // Shard 0 learns where the partitions are.
            for (n, file) in made.into_iter().enumerate() {
                let at = FileAt::Name(dir, c.name(&format!("f{n}")));
                let file = FileRef { ino: file.ino, at };
                c.run(ShardIndex(0), Op::Link(file, ROOT, c.name("link"))).unwrap();
                c.unlink(ROOT, "link").unwrap();
            }
            for n in 0..60 {
                c.unlink(dir, &format!("f{n}")).unwrap();
            }
            c.settle();
            c.rmdir(ROOT, "dir").unwrap();
            c.settle();
            lives.push(dir);
        }
        assert_eq!(lives[0].id, lives[1].id);
        assert_eq!(c.in_flight()[..3], [0; 3]);
    }
}
