//! Holders that die, shards that die, messages that come late or twice.

use pando_types::lend::{Act, Element, HOLD, Standing};
use pando_types::op::{FileAt, FileRef, Op};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId};

use super::{cluster, first, lent};
use crate::support::{Cluster, Fault};

/// The shard counts a second more than the holder.
const FENCED_AFTER: u64 = HOLD + 1_000_000_000;

#[test]
pub fn a_dead_holder_keeps_others_waiting_for_its_hold_and_no_longer() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "sent").unwrap();
    holder.stream(&mut c);
    holder.create(&mut c, dir, "late").unwrap();
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("sent")));
    c.tick(c.all(), FENCED_AFTER - 50_000_000);
    assert_eq!(c.answer(tag), None, "the holder may still answer");
    c.tick(c.all(), 100_000_000);
    assert!(matches!(c.answer(tag), Some(Ok(Body::Found(_)))));
    // What comes too late is refused, and changes nothing.
    let states = holder.send(&mut c, holder.unsent.clone());
    assert_eq!(states[0].0, grant);
    let fenced = (Standing::Fenced, 1);
    assert_eq!((states[0].1.standing, states[0].1.applied), fenced, "applied after the fence");
    assert_eq!(c.lookup(dir, "late"), Err(Errno::ENOENT));
    let news = holder.attend(&mut c);
    assert_eq!(news.over[0].1.standing, Standing::Fenced);
    assert!(
        !holder.attend_knowing(&mut c, vec![], vec![grant]).over.iter().any(|(id, _)| *id == grant)
    );
}

#[test]
fn a_holder_that_was_heard_of_is_waited_for_from_then_on() {
    let mut c = cluster(1);
    let (dir, holder, _) = lent(&mut c);
    c.tick(c.all(), FENCED_AFTER);
    // It attends: this counts from when it is answered.
    assert!(holder.attend(&mut c).prolongs);
    let heard = c.nanos;
    c.tick(c.all(), HOLD / 2);
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("old0")));
    c.tick(c.all(), heard + FENCED_AFTER - c.nanos - 1_000_000);
    assert_eq!(c.answer(tag), None);
    c.tick(c.all(), 2_000_000);
    assert!(c.answer(tag).is_some());
}

#[test]
fn a_holder_that_attends_and_returns_nothing_is_fenced_all_the_same() {
    let mut c = cluster(1);
    let (dir, holder, grant) = lent(&mut c);
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("old0")));
    let (mut known, mut prolonged) = (vec![], true);
    for _ in 0..12 {
        let news = holder.attend_knowing(&mut c, known.clone(), vec![]);
        known.extend(news.recalled);
        prolonged &= news.prolongs;
        c.tick(c.all(), 1_000_000_000);
    }
    assert_eq!(known[0], grant);
    assert!(!prolonged, "such a holder keeps all its other parts");
    assert!(c.answer(tag).is_some());
}

#[test]
fn a_restart_of_the_shard_keeps_grants_and_what_was_applied() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    for n in 0..5 {
        holder.create(&mut c, dir, &format!("a{n}")).unwrap();
    }
    let first = holder.unsent.clone();
    let _ = holder.send(&mut c, first[..3].to_vec());
    c.restart(c.all());
    let lookup = c.send(holder.shard, Op::Lookup(dir, c.name("a4")));
    assert_eq!(c.answer(lookup), None, "the grant is gone");
    // All are sent again, three of them in vain.
    holder.stream(&mut c);
    assert!(holder.unsent.is_empty());
    holder.give_back(&mut c, grant);
    assert!(matches!(c.answer(lookup), Some(Ok(Body::Found(_)))));
    assert_eq!(c.list(dir).len(), 10);
}

#[test]
pub fn elements_that_come_twice_or_too_early_change_nothing() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    let name = c.name("a");
    holder.create(&mut c, dir, "a").unwrap();
    holder.here(&mut c, Op::Unlink(dir, name)).unwrap();
    holder.create(&mut c, dir, "b").unwrap();
    let all = holder.unsent.clone();
    let applied = |states: Vec<(pando_types::TxnId, pando_types::lend::GrantState)>| {
        assert_eq!(states[0].1.standing, Standing::Stands, "an element was refused");
        states[0].1.applied
    };
    assert_eq!(applied(holder.send(&mut c, vec![all[1].clone()])), 0, "ran too early");
    assert_eq!(applied(holder.send(&mut c, vec![all[2].clone()])), 0, "ran too early");
    assert_eq!(applied(holder.send(&mut c, vec![all[0].clone(), all[0].clone()])), 1);
    assert_eq!(applied(holder.send(&mut c, vec![all[1].clone()])), 2);
    assert_eq!(applied(holder.send(&mut c, all.clone())), 3, "ran twice");
    assert_eq!(applied(holder.send(&mut c, all)), 3);
    holder.unsent.clear();
    holder.give_back(&mut c, grant);
    assert_eq!(c.list(dir).len(), 6);
}

#[test]
pub fn what_the_holder_has_open_is_open_at_the_shard_after_the_return() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    let op = c.create_open_op(dir, "open");
    let Ok(Body::Created(attr, true, _)) = holder.here(&mut c, op) else { panic!() };
    let rename = Op::Rename {
        from: dir,
        name: c.name("open"),
        to: dir,
        new_name: c.name("moved"),
        flags: pando_types::op::RenameFlags::default(),
    };
    holder.here(&mut c, rename).unwrap();
    holder.give_back(&mut c, grant);
    let mine = c.session;
    c.begin_session(Op::OpenSession);
    while c.step() {}
    c.unlink(dir, "moved").unwrap();
    // The file outlives its name, since the former holder has it open.
    let file = FileRef { ino: attr.ino, at: FileAt::Link };
    assert!(c.on_owner(&Op::GetAttr(file.clone())).is_ok(), "the open file is gone");
    c.session = mine;
    c.done(&Op::Release(file.clone())).unwrap();
    assert!(matches!(c.on_owner(&Op::GetAttr(file)), Err(Refusal::NotUnderName)));
}

#[test]
pub fn a_session_that_is_over_may_still_send_what_it_answered_unless_somebody_came() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "late").unwrap();
    c.run(holder.shard, Op::EndSession(holder.session)).unwrap();
    c.settle();
    c.begin_session(Op::OpenSession);
    holder.give_back(&mut c, grant);
    assert!(c.lookup(dir, "late").is_ok());
    assert!(!holder.attend(&mut c).prolongs, "a session that is over goes on");
}

#[test]
pub fn an_unreadable_block_refuses_the_element_and_all_that_follow() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    for name in ["a", "b", "c"] {
        holder.create(&mut c, dir, name).unwrap();
    }
    let all = holder.unsent.clone();
    let order = c.secrets.order(b"b");
    let key = pando_core::keys::entry(dir.id, order).to_vec();
    let end = pando_core::keys::after(&key);
    c.spoil(holder.shard, [key..end]);
    let states = holder.send(&mut c, all.clone());
    let refused = (Standing::Refused, 1);
    assert_eq!((states[0].1.standing, states[0].1.applied), refused, "one goes on behind it");
    c.spoil(holder.shard, []);
    let states = holder.send(&mut c, all);
    assert_eq!((states[0].1.standing, states[0].1.applied), refused, "it is applied later");
    // The holder is told, and gives back what it has.
    assert_eq!(holder.attend(&mut c).recalled, [grant]);
    let mut last = holder.core.end(grant).unwrap();
    assert!(matches!(last.act, Act::Return(_)));
    last.number = 2;
    let states = holder.send(&mut c, vec![last]);
    assert_eq!(states[0].1.standing, Standing::Returned);
    assert!(c.lookup(dir, "a").is_ok());
    assert_eq!(c.lookup(dir, "c"), Err(Errno::ENOENT), "a later change survived a refused one");
}

/// Whichever read or input of a batch fails, elements are a prefix, and each is applied once.
#[test]
fn a_batch_in_which_a_read_or_an_input_fails_is_applied_up_to_there() {
    for what in [Fault::Read, Fault::Input] {
        for after in 0..60 {
            let mut c = cluster(1);
            let (dir, mut holder, grant) = lent(&mut c);
            for n in 0..4 {
                holder.create(&mut c, dir, &format!("a{n}")).unwrap();
            }
            c.fail(what, after);
            let stream =
                Op::Stream { shard: holder.shard, elements: holder.unsent.clone(), synced: false };
            let answered = c.run(holder.shard, stream);
            let has_failed = c.has_failed();
            let Ok(Body::Streamed(states)) = answered else {
                assert!(has_failed, "{answered:?}");
                continue;
            };
            let applied = states[0].1.applied;
            let named = (0..4).map(|n| format!("a{n}"));
            let is_there = |c: &Cluster, name: &str| {
                let key = pando_core::keys::entry(dir.id, c.secrets.order(name.as_bytes()));
                c.count(c.all(), &key) > 0
            };
            for (n, name) in named.enumerate() {
                assert_eq!(is_there(&c, &name), (n as u64) < applied, "{what:?} {after}: {name}");
            }
            if states[0].1.standing == Standing::Stands {
                holder.stream(&mut c);
                holder.give_back(&mut c, grant);
                assert_eq!(c.list(dir).len(), 9, "{what:?} {after}");
            }
            if !has_failed {
                break;
            }
        }
    }
}

#[test]
fn a_full_disk_takes_no_elements_and_loses_none() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "a").unwrap();
    c.is_spent = true;
    let stream = Op::Stream { shard: holder.shard, elements: holder.unsent.clone(), synced: false };
    assert_eq!(c.run(holder.shard, stream), Err(Refusal::Errno(Errno::ENOSPC)));
    c.is_spent = false;
    // A disk that is full for others takes what was answered.
    c.is_full = true;
    holder.stream(&mut c);
    assert!(c.lookup(DirRef::ROOT, "dir").is_ok());
    holder.give_back(&mut c, grant);
    assert!(c.lookup(dir, "a").is_ok());
    let refused = holder.borrow(&mut c, first(dir));
    assert_eq!(refused, Err(super::NOT_NOW), "nothing is lent while the disk is full");
}

/// A holder with two open files, of which the shard knows one, that is fenced. Returns what it has
/// open, as it tells that late.
fn fenced_with_opens(c: &mut Cluster) -> (DirRef, super::Holder, pando_types::Ino, Element) {
    let (dir, mut holder, grant) = lent(c);
    let op = c.create_open_op(dir, "open");
    let Ok(Body::Created(attr, true, _)) = holder.here(c, op) else { panic!() };
    holder.stream(c);
    let op = c.create_open_op(dir, "lost");
    assert!(matches!(holder.here(c, op), Ok(Body::Created(_, true, _))));
    c.begin_session(Op::OpenSession);
    let wants = c.send(holder.shard, Op::Lookup(dir, c.name("open")));
    c.tick(c.all(), FENCED_AFTER + 1_000_000_000);
    assert!(c.answer(wants).is_some(), "it is not fenced");
    let late = Element { number: 2, ..holder.core.end(grant).unwrap() };
    (dir, holder, attr.ino, late)
}

#[test]
fn a_holder_that_was_fenced_tells_what_it_has_open() {
    let mut c = cluster(1);
    let (dir, holder, ino, late) = fenced_with_opens(&mut c);
    for _ in 0..2 {
        let states = holder.send(&mut c, vec![late.clone()]);
        assert_eq!((states[0].1.standing, states[0].1.applied), (Standing::Returned, 1));
    }
    // Another session removes the name. The file outlives it.
    c.unlink(dir, "open").unwrap();
    let file = FileRef { ino, at: FileAt::Link };
    assert!(c.on_owner(&Op::GetAttr(file)).is_ok(), "an open file was removed");
}

/// The next holder would else remove what it takes for a file that nobody has open.
#[test]
fn a_late_return_waits_until_the_next_holder_has_given_the_part_back() {
    let mut c = cluster(1);
    let (dir, holder, ino, late) = fenced_with_opens(&mut c);
    c.tick(c.all(), 1_000_000_000);
    // The key that was fenced gets nothing for a while.
    c.key = KeyId(9);
    c.begin_session(Op::OpenSession);
    while c.step() {}
    let mut next = super::Holder::new(&c, holder.shard);
    let grant = next.borrow(&mut c, first(dir)).unwrap();
    c.key = KeyId::OWNER;
    assert_eq!(holder.send(&mut c, vec![late.clone()])[0].1.standing, Standing::Fenced);
    c.key = KeyId(9);
    assert_eq!(next.attend(&mut c).recalled, [grant]);
    next.give_back(&mut c, grant);
    c.key = KeyId::OWNER;
    assert_eq!(holder.send(&mut c, vec![late])[0].1.standing, Standing::Returned);
    c.key = KeyId(9);
    c.unlink(dir, "open").unwrap();
    assert!(c.on_owner(&Op::GetAttr(FileRef { ino, at: FileAt::Link })).is_ok());
}
