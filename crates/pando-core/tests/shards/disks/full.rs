//! A full disk. A repeated request gets its recorded answer, and a refused request stays refused.

use pando_types::op::{FileAt, FileRef, Op, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, ShardIndex};

use crate::support::{Cluster, Fault, dir_at};

const ROOT: DirRef = DirRef::ROOT;
const FULL: Result<Body, Refusal> = Err(Refusal::Errno(Errno::ENOSPC));

fn in_slot(c: &Cluster, slot: u16, sequence: u64) -> RequestId {
    RequestId { session: c.session, slot, sequence }
}

/// One shard, and a request to make a file, in a local session or an ordinary one.
fn with_create(local: bool) -> (Cluster, Op, RequestId) {
    let mut c = Cluster::new(1, 1_000);
    if local {
        c.begin_session(Op::OpenLocalSession);
    }
    let op = c.create_op(ROOT, "file");
    let id = in_slot(&c, 9, 1);
    (c, op, id)
}

#[test]
fn a_create_that_ran_is_answered_as_it_was_though_the_disk_is_full_by_now() {
    for local in [false, true] {
        let (mut c, op, id) = with_create(local);
        let made = c.run(ShardIndex(0), (id, op.clone()));
        assert!(matches!(made, Ok(Body::Created(..))), "{made:?}");
        c.is_full = true;
        assert_eq!(c.run(ShardIndex(0), (id, op)), made);
        let other = c.create_op(ROOT, "other");
        assert_eq!(c.run(ShardIndex(0), (in_slot(&c, 9, 2), other)), FULL);
        assert_eq!(c.list(ROOT), ["file"]);
    }
}

#[test]
fn a_refused_request_is_refused_for_good_and_the_next_one_of_its_request_slot_is_not() {
    for local in [false, true] {
        let (mut c, op, id) = with_create(local);
        c.is_full = true;
        let rows = c.rows();
        assert_eq!(c.run(ShardIndex(0), (id, op.clone())), FULL);
        assert_eq!(c.rows(), rows, "nothing is written");
        c.is_full = false;
        assert_eq!(c.run(ShardIndex(0), (id, op.clone())), FULL);
        assert!(c.list(ROOT).is_empty());
        let next = in_slot(&c, 9, 2);
        assert!(c.run(ShardIndex(0), (next, op.clone())).is_ok());
        assert_eq!(c.run(ShardIndex(0), (id, op)), Err(Refusal::Answered));
    }
}

/// The first copy of a request waits behind a transaction. The second copy is refused for lack of
/// room.
#[test]
fn a_copy_that_waits_does_not_run_after_another_was_refused() {
    let mut c = Cluster::new(2, 1_000);
    let (name, _) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
    let owner = c.owner(ROOT, &name);
    c.settle();
    // The other shard does not hear: the name stays locked.
    let remove = c.send(owner, Op::Rmdir(ROOT, c.name(&name)));
    assert_eq!(c.answer(remove), None);
    let held = c.take(|_, _| true);
    assert!(!held.is_empty());
    let (id, op) = (in_slot(&c, 9, 1), c.create_op(ROOT, &name));
    let first = c.send(owner, (id, op.clone()));
    assert_eq!(c.answer(first), None, "it waits");
    c.is_full = true;
    let second = c.send(owner, (id, op.clone()));
    assert_eq!(c.answer(second), Some(FULL));
    c.is_full = false;
    c.put_back(held);
    c.settle();
    assert_eq!(c.answer(remove), Some(Ok(Body::Done)));
    assert_eq!(c.answer(first), Some(FULL));
    assert!(c.lookup(ROOT, &name).is_err());
    assert_eq!(c.run(owner, (id, op)), FULL);
}

/// A full shard redirects requests for names that another shard has. The outcome may be there.
#[test]
fn a_request_to_a_full_shard_for_a_name_of_another_is_sent_there() {
    let mut c = Cluster::new(2, 1_000);
    let names: Vec<_> = (0..40).map(|n| format!("f{n}")).collect();
    let (_, dir) = dir_at(&mut c, ROOT, "dir", |at| at.0 == 1);
    c.settle();
    c.is_full = true;
    for name in &names {
        let (id, op) = (in_slot(&c, 9, 1), c.create_op(dir, name));
        let answer = c.run(ShardIndex(0), (id, op));
        assert!(matches!(answer, Err(Refusal::AskHome | Refusal::HashSlot(_))), "{answer:?}");
    }
    let (id, op) = (in_slot(&c, 9, 1), c.create_op(dir, "file"));
    assert_eq!(c.run(ShardIndex(1), (id, op)), FULL);
}

#[test]
fn a_transaction_that_finds_no_room_for_its_decision_is_undone() {
    let mut c = Cluster::new(2, 1_000);
    c.settle();
    let (near, far) = (ShardIndex(0), ShardIndex(1));
    // Shard 0 has the root's names. A directory with its home at the other shard asks that one.
    let mut begun = None;
    for name in (0..100).map(|n| format!("d{n}")) {
        let tag = c.send(near, Op::Mkdir(ROOT, c.name(&name), 0o755));
        let id = c.last_id;
        if c.messages().any(|(_, peer)| peer.from == near) {
            begun = Some((name, tag, id));
            break;
        }
        c.settle();
        assert!(matches!(c.answer(tag), Some(Ok(Body::Made(..)))));
    }
    let (name, tag, id) = begun.expect("one in two");
    c.is_full = true;
    while c.step_of(|to, _| to == far) {}
    let votes = c.take(|to, _| to == near);
    assert!(!votes.is_empty());
    c.deliver(votes);
    c.settle();
    assert_eq!(c.answer(tag), Some(FULL));
    assert_eq!(c.in_flight(), [0; 4]);
    c.is_full = false;
    assert!(c.lookup(ROOT, &name).is_err());
    assert_eq!(c.run(near, (id, Op::Mkdir(ROOT, c.name(&name), 0o755))), FULL);
    c.mkdir(ROOT, &name).unwrap();
}

/// Opens of a client in this process are in no record. A removal or rename that is dropped must not
/// change what the shard knows of them.
#[test]
fn a_file_whose_removal_or_rename_found_no_room_is_open_still() {
    type Attempt = fn(&mut Cluster) -> Result<(), Errno>;
    let attempts: [(&str, Attempt); 2] = [
        ("unlink", |c| c.unlink(ROOT, "file")),
        ("rename", |c| c.rename(ROOT, "file", ROOT, "renamed")),
    ];
    for (what, attempt) in attempts {
        let mut dropped = 0;
        for after in 0..8 {
            let mut c = Cluster::new(1, 1_000);
            c.begin_session(Op::OpenLocalSession);
            let attr = c.create(ROOT, "file").unwrap();
            let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("file")) };
            c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
            c.fail(Fault::Input, after);
            let _ = attempt(&mut c);
            c.settle();
            dropped += u64::from(c.has_failed());
            let name = if c.lookup(ROOT, "file").is_ok() { "file" } else { "renamed" };
            if what == "rename" || c.lookup(ROOT, name).is_ok() {
                c.unlink(ROOT, name).unwrap();
                c.settle();
            }
            let orphan = FileRef { ino: attr.ino, at: FileAt::Link };
            let left = c.done(&Op::GetAttr(orphan.clone()));
            assert_eq!(left, Ok(()), "{what}, input {after}: it was destroyed while it is open");
            c.done(&Op::Release(orphan)).unwrap();
            c.settle();
            assert_eq!(c.in_flight(), [0; 4], "{what}, input {after}");
        }
        assert!(dropped > 1, "{what}");
    }
}

/// Nothing fits any more. A request must be refused without running it. Otherwise the shard would
/// begin anew for each.
#[test]
fn when_the_reserve_is_used_up_nothing_is_run_in_vain() {
    for local in [false, true] {
        let mut c = Cluster::new(1, 1_000);
        if local {
            c.begin_session(Op::OpenLocalSession);
        }
        let home = ShardIndex(0);
        let attr = c.create(ROOT, "open").unwrap();
        let file = FileRef { ino: attr.ino, at: FileAt::Name(ROOT, c.name("open")) };
        let names: Vec<_> = (0..100).map(|n| format!("f{n}")).collect();
        for name in &names {
            c.create(ROOT, name).unwrap();
        }
        let (id, done) = (in_slot(&c, 9, 1), Op::Unlink(ROOT, c.name("f99")));
        assert_eq!(c.run(home, (id, done.clone())), Ok(Body::Done));
        c.settle();
        (c.is_full, c.is_spent) = (true, true);
        let rows = c.rows();
        for name in &names[..99] {
            assert_eq!(c.ask(home, Op::Unlink(ROOT, c.name(name))), Some(FULL));
            assert!(c.ask(home, Op::Lookup(ROOT, c.name(name))).is_some_and(|found| found.is_ok()));
        }
        let copy = c.send(home, (id, done));
        assert_eq!(c.answer(copy), Some(Ok(Body::Done)), "it has run");
        // To read, a client of this process needs no record.
        let open = Op::Open { file: file.clone(), access: 4, truncate: false, kill: None };
        let opened = c.ask(home, open).expect("it waits for nothing");
        assert_eq!(opened.is_ok(), local, "{opened:?}");
        assert_eq!(c.ask(home, Op::Release(file)).is_some_and(|it| it.is_ok()), local);
        assert_eq!(c.rows(), rows);
        assert_eq!(c.counters()[0].begun_anew, 0);
        (c.is_full, c.is_spent) = (false, false);
        for name in &names[..99] {
            c.unlink(ROOT, name).unwrap();
        }
    }
}
