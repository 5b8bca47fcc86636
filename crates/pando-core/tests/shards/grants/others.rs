//! What others meet at a part that is lent.

use pando_core::Need;
use pando_core::keys::{self, Table};
use pando_types::op::{ATTEND_FOR, FileAt, FileRef, Op};
use pando_types::reply::{Body, Found, Refusal};
use pando_types::{DirRef, Errno, HashSlot, Order, SetAttr, ShardIndex};

use super::{Holder, NOT_NOW, cluster, first, lent};
use crate::support::{Cluster, dir_at};

/// A second session, which is the present one from now on.
pub fn another(c: &mut Cluster) {
    c.begin_session(Op::OpenSession);
    // Time does not pass: holds go on.
    while c.step() {}
}

#[test]
pub fn another_session_waits_until_the_part_is_back_and_sees_all_that_was_answered() {
    let mut c = cluster(2);
    let (dir, mut holder, grant) = lent(&mut c);
    another(&mut c);
    let visitor = c.session;
    holder.create(&mut c, dir, "new").unwrap();
    let lookup = Op::Lookup(dir, c.name("new"));
    let tag = c.send(holder.shard, lookup);
    assert_eq!(c.answer(tag), None, "it does not wait");
    assert_eq!(holder.attend(&mut c).recalled, [grant]);
    // What it knows it is not told again.
    let attending = c.send(holder.shard, holder.attend_op(vec![grant], vec![]));
    assert_eq!(c.answer(attending), None);
    holder.give_back(&mut c, grant);
    assert!(matches!(c.answer(tag), Some(Ok(Body::Found(Found::File(_))))));
    let news = c.answer(attending).expect("a return is news");
    assert!(matches!(news, Ok(Body::Attended(news)) if news.over.len() == 1));
    assert_eq!(c.last_need, Some(Need::Committed), "recalls wait for what is known");
    // Once the holder knows, the record goes.
    assert_eq!(c.count(c.all(), &keys::table(Table::Grant)), 1);
    holder.attend_knowing(&mut c, vec![], vec![grant]);
    assert_eq!(c.count(c.all(), &keys::table(Table::Grant)), 0);
    c.session = visitor;
    c.unlink(dir, "new").unwrap();
}

#[test]
fn a_question_for_news_is_answered_after_a_while() {
    let mut c = cluster(1);
    let (_, holder, _) = lent(&mut c);
    let tag = c.send(holder.shard, holder.attend_op(vec![], vec![]));
    c.tick(c.all(), ATTEND_FOR / 2);
    assert_eq!(c.answer(tag), None);
    c.tick(c.all(), ATTEND_FOR / 2 + 1);
    match c.answer(tag) {
        Some(Ok(Body::Attended(news))) => assert!(news.prolongs && news.recalled.is_empty()),
        other => panic!("{other:?}"),
    }
}

/// Sends an operation of another session, which waits or begins again. Then the holder returns the
/// part, and the operation must be answered.
fn meets(make: impl Fn(&Cluster, DirRef) -> Op) -> (Result<Body, Refusal>, Cluster, DirRef) {
    let mut c = cluster(2);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "new").unwrap();
    another(&mut c);
    let op = make(&c, dir);
    let (shard, op) = match &op {
        Op::Rename { from, .. } if *from == DirRef::ROOT => (c.home(DirRef::ROOT), op),
        Op::Rmdir(parent, _) => (c.home(*parent), op),
        _ => (holder.shard, op),
    };
    let tag = c.send(shard, op.clone());
    c.wait(300_000_000);
    assert_eq!(c.reply(tag).map(|it| it.result), None, "{op:?} does not wait");
    assert_eq!(holder.attend(&mut c).recalled, [grant], "{op:?} does not recall");
    holder.give_back(&mut c, grant);
    c.wait(3_000_000_000);
    let answer = c.answer(tag).unwrap_or_else(|| panic!("{op:?} is not answered"));
    c.settle();
    assert_eq!(c.in_flight()[..3], [0, 0, 0]);
    (answer, c, dir)
}

#[test]
fn every_change_and_look_of_others_recalls_and_then_goes_on() {
    assert!(meets(|c, dir| c.create_op(dir, "theirs")).0.is_ok());
    assert!(meets(|c, dir| Op::Unlink(dir, c.name("new"))).0.is_ok());
    assert!(meets(|c, dir| Op::Mkdir(dir, c.name("sub"), 0o755)).0.is_ok());
    assert!(meets(|_, dir| Op::DirGetAttr(dir)).0.is_ok());
    assert!(meets(|_, dir| Op::PartitionStat(dir, pando_types::PartitionIndex(0))).0.is_ok());
    let all = |_: &Cluster, dir| Op::ReadDir { dir, from: pando_types::Order(0), limit: 99 };
    match meets(all).0 {
        Ok(Body::Page(page, None)) => assert_eq!(page.len(), 6),
        other => panic!("{other:?}"),
    }
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    assert!(meets(move |_, dir| Op::DirSetAttr(dir, mode.clone())).0.is_ok());
    let moved = |c: &Cluster, dir| Op::Rename {
        from: dir,
        name: c.name("new"),
        to: DirRef::ROOT,
        new_name: c.name("moved"),
        flags: pando_types::op::RenameFlags::default(),
    };
    let (answer, mut c, _) = meets(moved);
    assert!(answer.is_ok() && c.lookup(DirRef::ROOT, "moved").is_ok());
}

#[test]
fn a_removal_of_the_directory_finds_what_its_holder_has_made() {
    let remove = |c: &Cluster, _| Op::Rmdir(DirRef::ROOT, c.name("dir"));
    let (answer, mut c, dir) = meets(remove);
    assert_eq!(answer, Err(Refusal::Errno(Errno::ENOTEMPTY)));
    assert!(c.lookup(dir, "new").is_ok());
}

#[test]
fn where_a_directory_is_and_who_may_search_it_others_read_without_a_recall() {
    let mut c = cluster(1);
    let (dir, holder, _) = lent(&mut c);
    another(&mut c);
    assert!(c.run(holder.shard, Op::Parent(dir)).is_ok());
    assert!(c.run(holder.shard, Op::DirAccess(dir, 5)).is_ok());
    assert_eq!(c.counters()[0].parts_recalled, 0);
}

#[test]
pub fn a_grant_is_durable_before_its_holder_begins() {
    let mut c = cluster(1);
    let mut holder = Holder::new(&c, ShardIndex(0));
    holder.borrowed += 1;
    let number = super::number(&c, holder.borrowed);
    let borrow = Op::Borrow(holder.session, number, DirRef::ROOT, Order(0));
    assert!(c.run(holder.shard, borrow).is_ok());
    assert_eq!(c.last_need, Some(Need::Synced), "a loss of power may take the grant back");
}

#[test]
fn what_others_have_open_or_locked_is_not_lent() {
    let mut c = cluster(2);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    let attr = c.create(dir, "file").unwrap();
    let mine = c.session;
    let mut holder = Holder::new(&c, c.home(dir));
    another(&mut c);
    let file = FileRef { ino: attr.ino, at: FileAt::Name(dir, c.name("file")) };
    c.done(&Op::Open { file: file.clone(), access: 4, truncate: false, kill: None }).unwrap();
    let theirs = c.session;
    assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW));
    c.session = theirs;
    c.done(&Op::Release(file.clone())).unwrap();
    // The holder's own opens do not count.
    c.session = mine;
    c.done(&Op::Open { file, access: 4, truncate: false, kill: None }).unwrap();
    let grant = holder.borrow(&mut c, first(dir)).unwrap();
    // Nobody else gets it. A repetition gets the same grant.
    let number = super::number(&c, holder.borrowed);
    let again = c.run(holder.shard, Op::Borrow(holder.session, number, dir, Order(0)));
    assert!(matches!(again, Ok(Body::Lent(ref loan, _)) if loan.grant == grant), "{again:?}");
    another(&mut c);
    let mut second = Holder::new(&c, c.home(dir));
    assert_eq!(second.borrow(&mut c, first(dir)), Err(NOT_NOW));
    let unlink = Op::Unlink(dir, c.name("file"));
    let said = holder.say(&mut c, unlink);
    assert!(matches!(said, pando_core::Said::Travel(_)), "an open file is removed by its shard");
    holder.give_back(&mut c, grant);
}

#[test]
fn a_transaction_that_locks_a_name_keeps_the_part_from_being_lent() {
    let mut c = cluster(3);
    let (_, dir) = dir_at(&mut c, DirRef::ROOT, "d", |shard| shard == ShardIndex(1));
    let mut holder = Holder::new(&c, ShardIndex(1));
    // A directory that has its home elsewhere is made in it.
    let mut n = 0;
    let mkdir = loop {
        let name = c.name(&format!("sub{n}"));
        let id = c.secrets.dir_id(dir.id, &name, 0);
        if c.configs[0].map.home(id) != ShardIndex(1) {
            break Op::Mkdir(dir, name, 0o755);
        }
        n += 1;
    };
    let tag = c.send(ShardIndex(1), mkdir);
    let kept = c.take(|_, _| true);
    assert!(!kept.is_empty());
    assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW));
    c.put_back(kept);
    c.settle();
    assert!(c.answer(tag).is_some());
    assert!(holder.borrow(&mut c, first(dir)).is_ok());
}

#[test]
fn a_part_that_others_wanted_is_not_lent_again_at_once() {
    let mut c = cluster(1);
    let (dir, mut holder, mut grant) = lent(&mut c);
    for pause in [100_000_000, 200_000_000, 400_000_000] {
        let tag = c.send(holder.shard, Op::Lookup(dir, c.name("old1")));
        holder.give_back(&mut c, grant);
        assert!(c.answer(tag).is_some());
        assert_eq!(holder.borrow(&mut c, first(dir)), Err(NOT_NOW));
        c.tick(c.all(), pause);
        grant = holder.borrow(&mut c, first(dir)).unwrap();
    }
    // What was returned without being wanted may be lent again.
    holder.give_back(&mut c, grant);
    holder.borrow(&mut c, first(dir)).unwrap();
}

#[test]
fn a_request_for_a_part_that_comes_late_gets_nothing() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.give_back(&mut c, grant);
    let number = super::number(&c, holder.borrowed);
    let late = c.run(holder.shard, Op::Borrow(holder.session, number, dir, Order(0)));
    assert_eq!(late, Err(NOT_NOW), "a grant of which nobody knows");
    let grant = holder.borrow(&mut c, first(dir)).unwrap();
    let number = super::number(&c, holder.borrowed);
    holder.give_back(&mut c, grant);
    // Another start of the shard does not know which it has had.
    c.epoch += 1;
    c.restart(c.all());
    let late = c.run(holder.shard, Op::Borrow(holder.session, number, dir, Order(0)));
    assert_eq!(late, Err(NOT_NOW), "a grant of which nobody knows");
    assert!(holder.borrow(&mut c, first(dir)).is_ok());
}

#[test]
fn a_handover_recalls_what_is_lent_of_its_hash_slot() {
    let mut c = cluster(2);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "new").unwrap();
    let HashSlot(slot) = dir.id.hash_slot();
    let to = ShardIndex(1 - holder.shard.0);
    assert_eq!(c.run(holder.shard, Op::HandOver(holder.shard, HashSlot(slot), to)), Ok(Body::Done));
    assert_eq!(holder.attend(&mut c).recalled, [grant]);
    holder.give_back(&mut c, grant);
    c.settle();
    assert!(c.shard(to).owns(HashSlot(slot)), "it was not handed over");
    assert!(c.lookup(dir, "new").is_ok());
    // The former owner lends nothing of it.
    assert!(matches!(holder.borrow(&mut c, first(dir)), Err(Refusal::HashSlot(_))));
}

#[test]
fn shards_that_do_not_lend_say_so() {
    let mut c = Cluster::new(1, 100);
    let mut holder = Holder::new(&c, ShardIndex(0));
    let refusal = Refusal::Errno(Errno::EOPNOTSUPP);
    assert_eq!(holder.borrow(&mut c, first(DirRef::ROOT)), Err(refusal.clone()));
    let mut c = cluster(1);
    c.begin_session(Op::OpenLocalSession);
    let mut local = Holder::new(&c, ShardIndex(0));
    assert_eq!(local.borrow(&mut c, first(DirRef::ROOT)), Err(refusal));
}
