//! Directories that are lent to the session that makes them.

use pando_core::contract::Need;
use pando_types::lend::{Act, Born, Element, Inos, Standing};
use pando_types::op::{Op, Request};
use pando_types::peer::{Change, Peer, PeerMessage, Vote};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Ino, ShardIndex, TxnId};

use super::others::another;
use super::{Holder, cluster};
use crate::support::{Asked, Cluster};

const PARENT: ShardIndex = ShardIndex(0);
const HOME: ShardIndex = ShardIndex(1);

/// A name of which the directory has its home where it is wanted.
fn name_at(c: &Cluster, home: ShardIndex) -> String {
    let names = (0..).map(|n| format!("born{n}"));
    let mut its = names.filter(|name| {
        c.configs[0].map.home(c.secrets.dir_id(DirRef::ROOT.id, &c.name(name), 0)) == home
    });
    its.next().unwrap()
}

/// A request that makes a directory in the root, which the session would borrow.
fn would_borrow(c: &mut Cluster, name: &str, slot: u16) -> Request {
    let op = Op::Mkdir(DirRef::ROOT, c.name(name), 0o755);
    let mut request = op.request(c, slot);
    request.head.borrows = true;
    request
}

/// Takes a directory in that was lent with the answer.
fn enter(c: &Cluster, answer: Result<Body, Refusal>) -> (DirRef, Holder, Born) {
    let Ok(Body::Born(dir, _, born)) = answer else { panic!("{answer:?}") };
    let mut holder = Holder::new(c, born.home);
    holder.core.begin(born.loan.clone(), dir);
    holder.core.take_page(born.loan.grant, born.page.clone()).unwrap();
    (dir, holder, *born)
}

/// A directory of `HOME`, made and lent; the decision is on its way there.
fn undecided(c: &mut Cluster) -> (DirRef, Holder, Born) {
    let name = name_at(c, HOME);
    let request = would_borrow(c, &name, 900);
    let tag = c.send(PARENT, request);
    while c.step_of(|_, peer| !is_decision(peer)) {}
    let answer = c.answer(tag).unwrap();
    enter(c, answer)
}

/// The element that changes nothing.
fn probe(grant: TxnId) -> Element {
    Element { grant, number: 0, act: Act::Return(None) }
}

fn is_decision(peer: &Peer) -> bool {
    matches!(peer.message, PeerMessage::Finish(Some(_)))
}

#[test]
fn a_directory_is_lent_to_the_session_that_makes_it() {
    for home in [PARENT, HOME] {
        let mut c = cluster(2);
        let name = name_at(&c, home);
        let request = would_borrow(&mut c, &name, 900);
        let answer = c.run(PARENT, request);
        c.settle();
        let (dir, mut holder, born) = enter(&c, answer);
        assert_eq!(born.home, home);
        // It is what a loan of the directory as it is would bring.
        for n in 0..600 {
            holder.create(&mut c, dir, &format!("f{n}")).unwrap();
            holder.stream(&mut c);
        }
        assert!(holder.here(&mut c, Op::DirGetAttr(dir)).is_ok());
        holder.give_back(&mut c, born.loan.grant);
        assert_eq!(c.list(dir).len(), 600);
        c.settle();
    }
}

#[test]
fn nobody_gets_a_directory_who_does_not_ask_or_may_not_borrow() {
    let mut c = cluster(2);
    let name = name_at(&c, HOME);
    c.mkdir(DirRef::ROOT, &name).unwrap();
    assert_eq!(c.counters().iter().map(|it| it.parts_lent).sum::<u64>(), 0);
    let mut c = Cluster::new(2, 1_000);
    let request = would_borrow(&mut c, &name, 900);
    assert!(matches!(c.run(PARENT, request), Ok(Body::Made(..))));
}

#[test]
fn a_repetition_is_told_of_the_same_loan() {
    let mut c = cluster(2);
    let name = name_at(&c, HOME);
    let request = would_borrow(&mut c, &name, 900);
    let one = c.run(PARENT, request.clone());
    assert_eq!(c.run(PARENT, request), one);
    c.settle();
    assert_eq!(c.counters()[1].parts_lent, 1);
}

#[test]
fn elements_wait_for_the_decision_and_are_applied_once() {
    let mut c = cluster(2);
    let (dir, mut holder, born) = undecided(&mut c);
    holder.create(&mut c, dir, "early").unwrap();
    let early = holder.unsent.clone();
    let decision = c.take(|_, peer| is_decision(peer));
    assert!(!decision.is_empty());
    let states = holder.send(&mut c, early.clone());
    assert_eq!(states, [(born.loan.grant, awaited())]);
    c.put_back(decision);
    c.settle();
    holder.stream(&mut c);
    let again = holder.send(&mut c, early);
    assert_eq!((again[0].1.standing, again[0].1.applied), (Standing::Stands, 1));
    holder.give_back(&mut c, born.loan.grant);
    assert_eq!(c.list(dir), ["early"]);
}

fn awaited() -> pando_types::lend::GrantState {
    pando_types::lend::GrantState { applied: 0, standing: Standing::Awaited, inos: Vec::new() }
}

#[test]
fn whoever_waits_for_the_decision_recalls_then() {
    let mut c = cluster(2);
    let (dir, mut holder, born) = undecided(&mut c);
    holder.create(&mut c, dir, "mine").unwrap();
    let decision = c.take(|_, peer| is_decision(peer));
    another(&mut c);
    let tag = c.send(HOME, c.create_op(dir, "theirs"));
    assert_eq!(c.answer(tag), None);
    c.put_back(decision);
    while c.step() {}
    assert_eq!(c.answer(tag), None, "it is lent");
    assert_eq!(holder.attend(&mut c).recalled, [born.loan.grant]);
    holder.give_back(&mut c, born.loan.grant);
    c.wait(1_000_000_000);
    assert!(c.answer(tag).unwrap().is_ok());
    assert_eq!(c.list(dir), ["mine", "theirs"]);
}

#[test]
fn a_home_that_loses_power_hears_of_the_directory_again_and_of_its_elements() {
    let mut c = cluster(2);
    c.keep_logs();
    let (dir, mut holder, born) = undecided(&mut c);
    let number = born.loan.grant;
    while c.step() {}
    holder.create(&mut c, dir, "one").unwrap();
    let one = holder.unsent.clone();
    holder.stream(&mut c);
    c.lose_power(HOME);
    // Neither the directory nor the grant is there.
    let states = holder.send(&mut c, one.clone());
    assert_eq!(states[0].1.standing, Standing::Unknown);
    // The coordinator knows that it has to tell.
    let home = std::mem::replace(&mut holder.shard, PARENT);
    assert_eq!(holder.send(&mut c, vec![probe(number)])[0].1.standing, Standing::Awaited);
    holder.shard = home;
    c.wait(3_000_000_000);
    let states = holder.send(&mut c, one);
    assert_eq!((states[0].1.standing, states[0].1.applied), (Standing::Stands, 1));
    holder.give_back(&mut c, number);
    assert_eq!(c.list(dir), ["one"]);
}

#[test]
fn a_restart_of_the_home_keeps_what_it_is_prepared_for() {
    let mut c = cluster(2);
    let (dir, mut holder, born) = undecided(&mut c);
    c.take(|_, peer| is_decision(peer));
    holder.create(&mut c, dir, "kept").unwrap();
    c.restart([HOME]);
    let states = holder.send(&mut c, holder.unsent.clone());
    assert_eq!(states[0].1.standing, Standing::Awaited);
    c.wait(3_000_000_000);
    holder.stream(&mut c);
    holder.give_back(&mut c, born.loan.grant);
    assert_eq!(c.list(dir), ["kept"]);
}

#[test]
fn a_loan_that_its_session_has_not_heard_of_is_returned_unused() {
    let mut c = cluster(2);
    let name = name_at(&c, HOME);
    let request = would_borrow(&mut c, &name, 900);
    let Ok(Body::Born(dir, _, born)) = c.run(PARENT, request) else { panic!("not lent") };
    while c.step() {}
    let holder = Holder::new(&c, HOME);
    another(&mut c);
    let tag = c.send(HOME, c.create_op(dir, "theirs"));
    assert_eq!(holder.attend(&mut c).recalled, [born.loan.grant]);
    let back = Element { grant: born.loan.grant, number: 1, act: Act::Return(None) };
    assert_eq!(holder.send(&mut c, vec![back])[0].1.standing, Standing::Returned);
    while c.step() {}
    assert!(c.answer(tag).unwrap().is_ok());
}

#[test]
fn a_dead_holder_of_a_new_directory_is_fenced() {
    let mut c = cluster(2);
    let (dir, _, _) = undecided(&mut c);
    while c.step() {}
    another(&mut c);
    let tag = c.send(HOME, c.create_op(dir, "theirs"));
    c.wait(8_000_000_000);
    assert_eq!(c.answer(tag), None, "its holder may still answer");
    c.wait(3_000_000_000);
    assert!(c.answer(tag).unwrap().is_ok());
}

#[test]
fn numbers_for_a_new_directory_come_from_its_home_and_its_vote_needs_no_sync() {
    let mut c = cluster(2);
    let name = name_at(&c, HOME);
    c.take_sent();
    let request = would_borrow(&mut c, &name, 900);
    let Ok(Body::Born(_, _, born)) = c.run(PARENT, request) else { panic!("not lent") };
    let [Inos { first, end: Ino(end) }] = born.loan.inos[..] else { panic!("{born:?}") };
    assert_eq!((first.allocator(), end - first.0), (HOME, 512));
    let sent = c.take_sent();
    let mut votes = sent.iter().filter(|(_, _, peer)| {
        peer.from == HOME && matches!(peer.message, PeerMessage::Voted(Vote::Yes(_)))
    });
    assert!(votes.all(|(need, ..)| *need != Need::Synced));
}

#[test]
fn a_birth_is_of_its_own_transaction() {
    let mut c = cluster(2);
    c.expects_bad = true;
    let (_, holder, born) = undecided(&mut c);
    let mut decision = c.take(|_, peer| is_decision(peer));
    for (_, peer) in &mut decision {
        let PeerMessage::Finish(Some(changes)) = &mut peer.message else { continue };
        for change in changes {
            if let Change::NewLentHome { birth, .. } = change {
                birth.grant.number += 1_000;
            }
        }
    }
    c.put_back(decision);
    while c.step() {}
    let asked = vec![probe(born.loan.grant)];
    assert_eq!(holder.send(&mut c, asked)[0].1.standing, Standing::Awaited);
    assert_eq!(c.counters()[1].bad_messages, 1);
}

#[test]
fn a_directory_is_lent_with_numbers_that_are_durably_reserved_only() {
    let block = 2_048;
    let mut c = Cluster::with(2, |config| {
        (config.lends, config.split_threshold, config.number_block) = (true, 1_000, block);
    });
    c.keep_logs();
    let mut lent = 0;
    for n in 0..64 {
        let name = format!("d{n}");
        let id = c.secrets.dir_id(DirRef::ROOT.id, &c.name(&name), 0);
        if c.configs[0].map.home(id) != HOME {
            continue;
        }
        let request = would_borrow(&mut c, &name, 100 + n);
        let tag = c.send(PARENT, request);
        // Votes need no sync, and nothing else is synced there.
        while c.step_of(|_, peer| !is_decision(peer)) {}
        lent += u64::from(matches!(c.answer(tag), Some(Ok(Body::Born(..)))));
        c.take(|_, peer| is_decision(peer));
    }
    assert!((1..=block / 512).contains(&lent), "{lent} directories were lent");
}
