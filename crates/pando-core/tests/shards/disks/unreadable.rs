//! Unreadable blocks, and inputs that fail. A request that needs such a block is refused, and all
//! else goes on.

use pando_core::keys::{self, Kind};
use pando_types::op::{FileAt, FileRef, Op, RenameFlags, RequestId};
use pando_types::peer::PeerMessage;
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, PartitionIndex, Radix, SessionId, ShardIndex};

use crate::disks::many_slices::sliced;
use crate::support::{Cluster, Fault, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const EIO: Result<Body, Refusal> = Err(Refusal::Errno(Errno::EIO));

fn begun_anew(c: &Cluster) -> u64 {
    c.counters().iter().map(|counters| counters.begun_anew).sum()
}

/// Makes a name unreadable on its shard.
fn spoil_name(c: &mut Cluster, dir: DirRef, name: &str) -> ShardIndex {
    let shard = c.owner(dir, name);
    let order = c.secrets.order(name.as_bytes()).0;
    let key = |order| keys::dir(dir.id, Kind::Entry, order);
    c.spoil(shard, [key(order)..key(order + 16)]);
    shard
}

#[test]
fn a_request_for_an_unreadable_name_hears_eio_and_all_else_goes_on() {
    let mut c = Cluster::new(2, 1_000);
    for name in ["bad", "good", "third"] {
        c.create(ROOT, name).unwrap();
    }
    c.settle();
    let shard = spoil_name(&mut c, ROOT, "bad");
    for _ in 0..3 {
        assert_eq!(c.lookup(ROOT, "bad"), Err(Errno::EIO));
        assert_eq!(c.create(ROOT, "bad"), Err(Errno::EIO));
        assert_eq!(c.mkdir(ROOT, "bad").map(drop), Err(Errno::EIO));
        assert_eq!(c.unlink(ROOT, "bad"), Err(Errno::EIO));
        assert_eq!(c.rename(ROOT, "bad", ROOT, "new"), Err(Errno::EIO));
        assert_eq!(c.rename(ROOT, "good", ROOT, "bad"), Err(Errno::EIO));
        c.unlink(ROOT, "third").unwrap();
        c.create(ROOT, "third").unwrap();
        assert!(c.lookup(ROOT, "good").is_ok());
    }
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.create(dir, "file").unwrap();
    assert_eq!(begun_anew(&c), 0, "nothing had changed");
    c.spoil(shard, []);
    c.settle();
    assert_eq!(c.in_flight(), [0; 4]);
    assert!(c.lookup(ROOT, "bad").is_ok());
    c.unlink(ROOT, "bad").unwrap();
}

/// A decision cannot be refused: it waits until it can be made.
#[test]
fn a_decision_waits_for_what_it_changes_and_nothing_else_does() {
    let mut c = Cluster::new(2, 1_000);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
    c.settle();
    c.create(ROOT, "file").unwrap();
    let (near, far) = (ShardIndex(0), ShardIndex(1));
    let (name, new_name) = (c.name("file"), c.name("there"));
    let flags = RenameFlags::default();
    let tag = c.send(near, Op::Rename { from: ROOT, name, to: dir, new_name, flags });
    while c.answer(tag).is_none() {
        assert!(c.step());
    }
    // It is decided, and the other shard has not heard so.
    spoil_name(&mut c, dir, "there");
    c.wait(3_000_000_000);
    assert_eq!(begun_anew(&c), 1, "it is not looked at again each time it is said");
    let waiting = c.send(far, c.create_op(dir, "there"));
    c.create(dir, "other").unwrap();
    c.mkdir(dir, "sub").unwrap();
    assert_eq!(c.answer(waiting), None, "the name is locked");
    c.wait(30_000_000_000);
    assert!(begun_anew(&c) <= 5);
    assert_eq!(c.answer(waiting), None);
    c.spoil(far, []);
    c.settle();
    assert_eq!(c.answer(waiting), Some(Err(Refusal::Errno(Errno::EEXIST))));
    assert!(matches!(c.lookup(dir, "there"), Ok(Found::File(_))));
    assert_eq!(c.lookup(ROOT, "file"), Err(Errno::ENOENT));
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// Opens and requests of a client in this process are in no record.
#[test]
fn clients_of_this_process_lose_nothing() {
    let mut c = Cluster::new(2, 1_000);
    c.begin_session(Op::OpenLocalSession);
    let attr = c.create(ROOT, "file").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("file")) };
    let open = Op::Open { file: file.clone(), access: 4, truncate: false, kill: None };
    let id = RequestId { session: c.session, slot: 5, sequence: 1 };
    let opened = c.run(ShardIndex(0), (id, open.clone()));
    assert!(opened.is_ok(), "{opened:?}");
    let before = c.in_flight();
    assert_eq!(before[3], 1);
    for shard in [0, 1].map(ShardIndex) {
        c.fail(Fault::Input, 0);
        c.tick([shard], 0);
    }
    assert_eq!(begun_anew(&c), 2);
    assert_eq!(c.in_flight(), before);
    assert_eq!(c.run(ShardIndex(0), (id, open)), opened);
    assert_eq!(c.in_flight(), before, "it was not opened twice");
    // If a request's effects are dropped, so is its outcome.
    let create = c.create_op(ROOT, "dropped");
    let id = RequestId { sequence: 2, ..id };
    c.fail(Fault::Input, 0);
    assert_eq!(c.run(ShardIndex(0), (id, create.clone())), EIO);
    assert_eq!(c.run(ShardIndex(0), (id, create.clone())), EIO, "and it does not run later");
    assert_eq!(c.lookup(ROOT, "dropped"), Err(Errno::ENOENT));
    let id = RequestId { sequence: 3, ..id };
    assert!(c.run(ShardIndex(0), (id, create)).is_ok());
    c.done(&Op::Release(file)).unwrap();
    assert_eq!(c.in_flight()[3], 0);
}

#[test]
fn numbers_are_not_used_twice() {
    let mut c = Cluster::new(1, 1_000);
    let mut inos = Vec::new();
    for n in 0..20 {
        if n % 3 == 1 {
            c.fail(Fault::Input, 0);
            assert_eq!(c.create(ROOT, &format!("d{n}")), Err(Errno::EIO));
        }
        inos.push(c.create(ROOT, &format!("f{n}")).unwrap().ino);
    }
    let all = inos.len();
    inos.sort_unstable();
    inos.dedup();
    assert_eq!(inos.len(), all);
}

/// A session's end meets an unreadable inode that it must remove.
#[test]
fn the_end_of_a_session_holds_up_no_request_and_what_it_leaves_goes_later() {
    let mut c = Cluster::new(2, 1_000);
    let first = c.session;
    c.begin_session(Op::OpenSession);
    let second = c.session;
    c.session = first;
    let attr = c.create(ROOT, "file").unwrap();
    let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("file")) };
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    c.unlink(ROOT, "file").unwrap();
    c.settle();
    let home = (0..2).map(ShardIndex).find(|shard| {
        let key = keys::link(attr.ino, Kind::Entry);
        c.count([*shard], &key) > 0
    });
    let home = home.expect("it is open, so it is somewhere");
    let key = keys::link(attr.ino, Kind::Entry);
    c.spoil(home, [key.clone()..keys::after(&key)]);
    c.session = second;
    assert_eq!(c.run(ShardIndex(0), Op::EndSession(first)), Ok(Body::Done));
    c.wait(60_000_000_000);
    assert!(c.count([home], &key) > 0, "it cannot be read, so it stays");
    c.create(ROOT, "other").unwrap();
    c.spoil(home, []);
    c.wait(60_000_000_000);
    assert!(!c.shard(home).session_keys().any(|(session, _)| session == first));
    assert_eq!(c.count([home], &key), 0);
    assert_eq!(c.in_flight()[..3], [0; 3]);
    assert_ne!(second, SessionId(0));
}

#[test]
fn a_split_that_comes_to_an_unreadable_name_is_given_up_for_a_while() {
    let mut c = Cluster::new(2, 20);
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
    let upper = pando_placement::range(PartitionIndex(1), Radix(1));
    let is_upper = |name: &String| upper.contains(&c.secrets.order(name.as_bytes()).0);
    let bad = (0..100).map(|n| format!("bad{n}")).find(is_upper).expect("one in two");
    c.create(dir, &bad).unwrap();
    let shard = spoil_name(&mut c, dir, &bad);
    for n in 0..60 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.wait(5_000_000_000);
    assert_eq!(c.partitions(c.all(), dir).len(), 1, "it cannot split");
    assert!(begun_anew(&c) <= 2);
    c.spoil(shard, []);
    c.wait(700_000_000_000);
    for n in 60..70 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    assert_eq!(c.list(dir).len(), 71);
    assert!(c.partitions(c.all(), dir).len() > 1, "it has split");
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

#[test]
fn however_often_a_shard_begins_anew_a_silent_session_is_taken_for_dead() {
    let (lease, home) = (60_000_000_000, ShardIndex(0));
    let mut c = Cluster::with(1, |config| {
        (config.split_threshold, config.lease) = (1_000, lease);
    });
    let silent = c.session;
    c.begin_session(Op::OpenSession);
    for _ in 0..30 {
        c.fail(Fault::Input, 0);
        c.wait(lease / 6);
        assert_eq!(c.run(home, Op::Renew(c.session)), Ok(Body::Lease(lease)));
    }
    assert_eq!(begun_anew(&c), 30);
    let living: Vec<_> = c.shard(home).session_keys().map(|(session, _)| session).collect();
    assert_eq!(living, [c.session], "{silent:?} has not been heard of for five leases");
}

/// The coordinator's own step of a decision fails, after the last vote has come. The participants
/// release their locks at once.
#[test]
fn nothing_stays_locked_after_a_decision_that_came_to_nothing() {
    let (mut lost, near) = (0, ShardIndex(0));
    // A read fails, or all is done and cannot be written.
    let faults = (0..12).map(Some).chain([None]);
    for fault in faults {
        let mut c = Cluster::new(2, 1_000);
        let (_, dir) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
        c.settle();
        sliced(&mut c, ROOT, "file", 3);
        let (name, new_name) = (c.name("file"), c.name("there"));
        let flags = RenameFlags::default();
        let tag = c.send(near, Op::Rename { from: ROOT, name, to: dir, new_name, flags });
        while !c.messages().any(|(_, peer)| matches!(peer.message, PeerMessage::Voted(_))) {
            assert!(c.step());
        }
        match fault {
            Some(read) => c.fail(Fault::Read, read),
            None => c.fail(Fault::Input, 0),
        }
        assert!(c.step());
        if begun_anew(&c) == 0 {
            c.has_failed();
            continue;
        }
        lost += 1;
        assert_eq!(c.answer(tag), Some(EIO), "{fault:?}");
        c.wait(2_000_000_000);
        assert_eq!(c.in_flight(), [0; 4], "{fault:?}");
        assert_eq!(c.create(dir, "there").map(drop), Ok(()));
        assert_eq!(c.lookup(ROOT, "file").map(drop), Ok(()));
    }
    assert!(lost > 1, "{lost}");
}

/// The tick fails in which a question is asked again. The question is asked a third time, and no
/// request is refused.
#[test]
fn a_question_asked_again_is_independent_of_the_rest_of_a_tick() {
    let mut c = Cluster::new(2, 1_000);
    let (near, far) = (ShardIndex(0), ShardIndex(1));
    c.silence([far]);
    let mut tags = Vec::new();
    for n in 0..20 {
        let op = Op::Mkdir(ROOT, c.name(&format!("d{n}")), 0o755);
        let tag = c.send(near, op);
        if c.answer(tag).is_none() {
            tags.push(tag);
        }
    }
    assert!(tags.len() > 2, "one in two");
    c.nanos += 1_000_000_000;
    c.fail(Fault::Input, 0);
    c.tick([near], 0);
    assert_eq!(begun_anew(&c), 1);
    for tag in &tags {
        assert_eq!(c.answer(*tag), None);
    }
    c.silence([]);
    c.settle();
    for tag in tags {
        assert!(matches!(c.answer(tag), Some(Ok(Body::Made(..)))));
    }
}
