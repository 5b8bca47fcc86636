//! Names and modes that shards change in a part for its holder, while it is lent
//! (docs/design/under-a-loan.md).

use pando_types::lend::Standing;
use pando_types::op::{Op, Request};
use pando_types::peer::{Peer, PeerMessage, Prepare};
use pando_types::reply::{Body, Found, Reply};
use pando_types::{DirRef, SetAttr, ShardIndex, TxnId};

use super::others::another;
use super::{Holder, cluster, first};
use crate::support::{Asked, Cluster, dir_at};

/// A directory that a session holds, with a subdirectory of which the content is at another shard.
fn lent_with_sub(c: &mut Cluster) -> (DirRef, (String, DirRef), Holder, TxnId) {
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    let home = c.home(dir);
    let sub = dir_at(c, dir, "sub", |at| at != home);
    c.settle();
    let mut holder = Holder::new(c, home);
    let grant = holder.borrow(c, first(dir)).unwrap();
    (dir, sub, holder, grant)
}

/// A request that changes a name in a lent directory, and says so.
fn under(c: &mut Cluster, holder: &Holder, op: Op) -> Request {
    let mut request = op.request(c, 3);
    request.head.under = holder.core.under(&request.op);
    assert!(request.head.under.is_some(), "the part would be given back");
    request
}

/// A request that changes the mode of a directory, of which the entry is in the part of a grant.
fn chmod(c: &mut Cluster, dir: DirRef, grant: Option<TxnId>) -> Request {
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    let mut request = Op::DirSetAttr(dir, set).request(c, 4);
    request.head.entry = grant;
    request
}

/// Sends a request, and delivers all messages. Returns the reply, if there is one.
fn exchange(c: &mut Cluster, shard: ShardIndex, request: Request) -> Option<Reply> {
    let tag = c.send(shard, request);
    while c.step() {}
    c.reply(tag)
}

#[test]
fn an_element_waits_for_a_name_that_a_transaction_of_its_holder_has_locked() {
    let mut c = cluster(2);
    let (dir, (sub, _), mut holder, grant) = lent_with_sub(&mut c);
    let elsewhere = ShardIndex(1 - holder.shard.0);
    let rmdir = Op::Rmdir(dir, c.name(&sub));
    let removed = under(&mut c, &holder, rmdir);
    assert!(exchange(&mut c, holder.shard, removed).is_some_and(|reply| reply.result.is_ok()));
    // The name is free. A transaction locks it once more, and waits for the other shard.
    let mut holder = Holder { unsent: Vec::new(), ..holder_again(&mut c, &mut holder, grant, dir) };
    let grant = holder.core.parts().next().expect("a part").0;
    let mkdir = Op::Mkdir(dir, c.name(&sub), 0o755);
    let made = under(&mut c, &holder, mkdir);
    c.silence([elsewhere]);
    assert!(exchange(&mut c, holder.shard, made).is_none());
    holder.create(&mut c, dir, "new").unwrap();
    let (from, to, flags) = (dir, dir, Default::default());
    let (name, new_name) = (c.name("new"), c.name(&sub));
    holder.here(&mut c, Op::Rename { from, name, to, new_name, flags }).unwrap();
    let elements = holder.unsent.clone();
    assert_eq!(elements.len(), 2);
    let [(of, state)] = &holder.send(&mut c, elements)[..] else { panic!("of one grant") };
    assert_eq!((*of, state.applied, state.standing), (grant, 1, Standing::Stands));
    // The shard is killed, so the transaction is undone.
    c.silence([]);
    c.restart([holder.shard]);
    c.wait(3_000_000_000);
    holder.stream(&mut c);
    holder.give_back(&mut c, grant);
    assert!(matches!(c.lookup(dir, &sub), Ok(Found::File(_))));
}

/// Gives a part back, and borrows it anew.
fn holder_again(c: &mut Cluster, holder: &mut Holder, grant: TxnId, dir: DirRef) -> Holder {
    holder.give_back(c, grant);
    c.settle();
    let mut again = Holder::new(c, holder.shard);
    again.borrowed = holder.borrowed;
    again.borrow(c, first(dir)).unwrap();
    again
}

#[test]
fn a_mode_is_changed_in_an_entry_of_a_part_that_stays_lent() {
    let mut c = cluster(2);
    let (dir, (name, sub), mut holder, grant) = lent_with_sub(&mut c);
    let request = chmod(&mut c, sub, Some(grant));
    let home = c.home(sub);
    let reply = exchange(&mut c, home, request.clone()).expect("nobody waits");
    assert!(matches!(&reply.result, Ok(Body::Dir(attr)) if attr.base.mode == 0o700));
    let told = reply.amendment.expect("it has run now");
    assert_eq!((told.grant, told.rows.len()), (grant, 0));
    // A repetition does not tell that.
    let again = exchange(&mut c, home, request).expect("it was answered");
    assert!(again.result.is_ok() && again.amendment.is_none());
    // Nothing is counted: what the holder does next is applied.
    holder.create(&mut c, dir, "new").unwrap();
    holder.stream(&mut c);
    assert!(c.counters().iter().all(|counters| counters.parts_recalled == 0));
    holder.give_back(&mut c, grant);
    match c.lookup(dir, &name) {
        Ok(Found::Dir(access)) => assert_eq!(access.mode, 0o700),
        other => panic!("{other:?}"),
    }
}

/// Changes the mode of a lent directory, under its own loan.
fn chmod_own(c: &mut Cluster, holder: &Holder, dir: DirRef) -> Request {
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    under(c, holder, Op::DirSetAttr(dir, set))
}

#[test]
fn the_mode_of_a_directory_is_changed_while_it_stays_lent() {
    let mut c = cluster(3);
    let (dir, _, mut holder, grant) = lent_with_sub(&mut c);
    holder.create(&mut c, dir, "before").unwrap();
    holder.stream(&mut c);
    let request = chmod_own(&mut c, &holder, dir);
    let reply = exchange(&mut c, holder.shard, request.clone()).expect("nobody waits");
    assert!(matches!(&reply.result, Ok(Body::Dir(attr)) if attr.base.mode == 0o700));
    let told = *reply.amendment.expect("the part stands");
    assert_eq!((told.grant, told.rows.len()), (grant, 2), "content and header");
    let again = exchange(&mut c, holder.shard, request).expect("it was answered");
    assert!(again.result.is_ok() && again.amendment.is_none());
    holder.core.amend(told).unwrap();
    match holder.here(&mut c, Op::DirGetAttr(dir)) {
        Ok(Body::Dir(attr)) => assert_eq!(attr.base.mode, 0o700),
        other => panic!("{other:?}"),
    }
    // What comes next rests on it, and is judged by it.
    holder.create(&mut c, dir, "after").unwrap();
    holder.stream(&mut c);
    assert!(c.counters().iter().all(|counters| counters.parts_recalled == 0));
    another(&mut c);
    let tag = c.send(holder.shard, Op::Lookup(dir, c.name("after")));
    assert_eq!(c.answer(tag), None, "the part is free");
    holder.give_back(&mut c, grant);
    assert!(matches!(c.answer(tag), Some(Ok(Body::Found(Found::File(_))))));
}

/// A change of mode under a loan that waits for news of versions from shard 0, which is silent.
fn chmod_that_waits(c: &mut Cluster) -> (DirRef, Holder, TxnId, u64) {
    let dir = loop {
        let n = c.rows().len();
        let dir = c.mkdir(DirRef::ROOT, &format!("dir{n}")).unwrap();
        if c.home(dir) != ShardIndex(0) {
            break dir;
        }
    };
    c.mkdir(dir, "sub").unwrap();
    c.settle();
    let mut holder = Holder::new(c, c.home(dir));
    let grant = holder.borrow(c, first(dir)).unwrap();
    let request = chmod_own(c, &holder, dir);
    let tag = c.send(holder.shard, request);
    let is_version = |_: ShardIndex, peer: &Peer| {
        matches!(peer.message, PeerMessage::Prepare(_, Prepare::Invalidate { .. }))
            || !matches!(peer.message, PeerMessage::Prepare(..) | PeerMessage::Voted(_))
    };
    while c.step_of(|to, peer| !is_version(to, peer)) {}
    let held = c.messages().any(|(to, peer)| is_version(to, peer));
    assert!(held && c.answer(tag).is_none(), "it waits for no version");
    (dir, holder, grant, tag)
}

#[test]
fn a_directory_whose_mode_is_changing_under_its_loan_stays_lent_for_others() {
    let mut c = cluster(3);
    let (dir, mut holder, grant, tag) = chmod_that_waits(&mut c);
    let held = c.take(|_, _| true);
    another(&mut c);
    let create = c.create_op(dir, "foreign");
    let foreign = c.send(holder.shard, create);
    assert_eq!(c.answer(foreign), None, "it has not waited for the holder");
    c.put_back(held);
    while c.step() {}
    assert!(c.answer(tag).is_some_and(|answer| answer.is_ok()));
    assert_eq!(c.answer(foreign), None, "the loan has ended with the change");
    let stranger = std::mem::replace(&mut c.session, holder.session);
    assert_eq!(holder.attend(&mut c).recalled, [grant]);
    holder.give_back(&mut c, grant);
    c.session = stranger;
    assert!(c.answer(foreign).is_some_and(|answer| answer.is_ok()));
}

#[test]
fn a_directory_comes_back_while_its_mode_is_changing_under_its_loan() {
    let mut c = cluster(3);
    let (dir, mut holder, grant, tag) = chmod_that_waits(&mut c);
    let held = c.take(|_, _| true);
    holder.give_back(&mut c, grant);
    another(&mut c);
    c.create(dir, "foreign").unwrap();
    c.put_back(held);
    while c.step() {}
    let reply = c.reply(tag).expect("nobody waits");
    assert!(reply.result.is_ok() && reply.amendment.is_none(), "the part is the shard's");
    c.create(dir, "foreign too").unwrap();
    let mut again = Holder::new(&c, holder.shard);
    again.borrow(&mut c, first(dir)).unwrap();
}

/// The shard is killed between. What it had locked is undone, and the part is lent as before.
#[test]
fn a_directory_stays_lent_when_a_change_of_its_mode_is_undone() {
    let mut c = cluster(3);
    let (dir, mut holder, grant, tag) = chmod_that_waits(&mut c);
    c.take(|_, _| true);
    c.restart([holder.shard]);
    c.wait(3_000_000_000);
    assert!(c.answer(tag).is_none());
    another(&mut c);
    let foreign = c.send(holder.shard, Op::DirGetAttr(dir));
    assert_eq!(c.answer(foreign), None, "the part is free");
    let stranger = std::mem::replace(&mut c.session, holder.session);
    holder.create(&mut c, dir, "new").unwrap();
    holder.give_back(&mut c, grant);
    c.session = stranger;
    assert!(matches!(c.answer(foreign), Some(Ok(Body::Dir(attr))) if attr.base.mode != 0o700));
}

/// A client that lies sends two changes of one directory under one loan. The root has no entry of
/// which the lock would keep them apart.
#[test]
fn two_changes_of_a_mode_under_one_loan_follow_each_other() {
    let mut c = cluster(2);
    c.mkdir(DirRef::ROOT, "sub").unwrap();
    c.settle();
    let home = c.home(DirRef::ROOT);
    let mut holder = Holder::new(&c, home);
    let grant = holder.borrow(&mut c, first(DirRef::ROOT)).unwrap();
    let tags = [(3, 0o700), (4, 0o711)].map(|(slot, mode)| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let mut request = Op::DirSetAttr(DirRef::ROOT, set).request(&mut c, slot);
        request.head.under = holder.core.under(&request.op);
        c.send(home, request)
    });
    assert!(tags.iter().all(|tag| c.answer(*tag).is_none()), "no version is told");
    while c.step() {}
    assert!(c.answer(tags[0]).is_some_and(|answer| answer.is_ok()));
    assert!(c.answer(tags[1]).is_none(), "it knows nothing of the first one, and passes");
    holder.give_back(&mut c, grant);
    c.settle();
    assert!(c.answer(tags[1]).is_some_and(|answer| answer.is_ok()));
}

/// Whoever names no grant, or another session's, waits for the part as ever.
#[test]
fn a_part_lets_only_its_own_holder_pass() {
    for names_it in [false, true] {
        let mut c = cluster(2);
        let (_, (_, sub), mut holder, grant) = lent_with_sub(&mut c);
        if names_it {
            another(&mut c);
        }
        let home = c.home(sub);
        let request = chmod(&mut c, sub, names_it.then_some(grant));
        let tag = c.send(home, request);
        while c.step() {}
        assert!(c.reply(tag).is_none(), "it passes");
        c.session = holder.session;
        assert_eq!(holder.attend(&mut c).recalled, [grant]);
        holder.give_back(&mut c, grant);
        c.settle();
        assert!(c.answer(tag).is_some_and(|answer| answer.is_ok()));
    }
}

/// The coordinator of a change of mode forgets it, as after a loss of power. The holder may have
/// heard of a decision, so it gives the entry back.
#[test]
fn a_change_of_mode_that_is_undone_is_recalled() {
    let mut c = cluster(2);
    let (_, (_, sub), mut holder, grant) = lent_with_sub(&mut c);
    let (home, at) = (c.home(sub), holder.shard);
    let request = chmod(&mut c, sub, Some(grant));
    let tag = c.send(home, request);
    while c.step_of(|to, _| to == at) {}
    assert!(c.answer(tag).is_none());
    let votes = c.take(|to, _| to == home);
    assert!(!votes.is_empty(), "the entry's shard has not voted");
    c.restart([home]);
    c.wait(3_000_000_000);
    assert_eq!(holder.attend(&mut c).recalled, [grant]);
    holder.give_back(&mut c, grant);
}
