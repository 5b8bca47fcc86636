//! Clients that lie about what they were lent.

use pando_types::lend::{Act, Change, Element, Inos, LentRows, PartOpen, Standing};
use pando_types::op::{Op, RenameFlags};
use pando_types::reply::{Body, Refusal};
use pando_types::requests::asked::Asked;
use pando_types::{Credentials, DirRef, Errno, Ino, KeyId, Order, ShardIndex, TxnId};

use super::{Holder, cluster, first, lent};
use crate::support::Cluster;

fn element(grant: TxnId, by: Credentials, op: Op, ino: Ino) -> Element {
    let asked = Asked { credentials: by, op }.encode();
    Element {
        grant,
        number: 1,
        act: Act::Change(Change { asked, stamp: 0, ino, digest: 0, after: 0 }),
    }
}

/// Sends an element of a liar. It must be refused, and change nothing.
fn is_refused(make: impl Fn(&Cluster, DirRef, Inos) -> (Op, Ino)) {
    let mut c = cluster(2);
    let dir = c.mkdir(DirRef::ROOT, "dir").unwrap();
    c.create(dir, "old").unwrap();
    c.create(DirRef::ROOT, "beside").unwrap();
    c.settle();
    let mut holder = Holder::new(&c, c.home(dir));
    let grant = holder.borrow(&mut c, first(dir)).unwrap();
    // The first number that the holder may give.
    let number = c.create_op(dir, "probe");
    let Ok(Body::Created(attr, ..)) = holder.here(&mut c, number) else { panic!() };
    let inos = Inos { first: attr.ino, end: Ino(attr.ino.0 + 1_024) };
    let before: Vec<_> = c.rows().into_iter().filter(|((_, key), _)| key[0] == b'd').collect();
    let (op, ino) = make(&c, dir, inos);
    let lie = element(grant, Credentials::ROOT, op.clone(), ino);
    let states = holder.send(&mut c, vec![lie]);
    assert_eq!((states[0].1.standing, states[0].1.applied), (Standing::Refused, 0), "{op:?}");
    let after: Vec<_> = c.rows().into_iter().filter(|((_, key), _)| key[0] == b'd').collect();
    assert_eq!(before, after, "{op:?}");
}

#[test]
fn elements_that_reach_beyond_the_part_are_refused() {
    is_refused(|c, _, inos| (c.create_op(DirRef::ROOT, "mine"), inos.first));
    is_refused(|c, _, _| (Op::Unlink(DirRef::ROOT, c.name("beside")), Ino(0)));
    is_refused(|c, dir, _| {
        let flags = RenameFlags::default();
        let (name, new_name) = (c.name("old"), c.name("out"));
        (Op::Rename { from: dir, name, to: DirRef::ROOT, new_name, flags }, Ino(0))
    });
    is_refused(|c, dir, _| {
        let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
        let (name, new_name) = (c.name("old"), c.name("old"));
        (Op::Rename { from: dir, name, to: dir, new_name, flags }, Ino(0))
    });
    is_refused(|c, dir, _| (Op::Mkdir(dir, c.name("sub"), 0o755), Ino(0)));
    is_refused(|_, _, _| (Op::EndSession(pando_types::SessionId(1)), Ino(0)));
    is_refused(|c, dir, _| (Op::Lookup(dir, c.name("old")), Ino(0)));
}

#[test]
fn numbers_that_were_not_lent_are_refused() {
    is_refused(|c, dir, inos| (c.create_op(dir, "mine"), inos.end));
    is_refused(|c, dir, inos| (c.create_op(dir, "mine"), Ino(inos.first.0 - 1)));
    is_refused(|c, dir, _| (c.create_op(dir, "mine"), Ino(0)));
    is_refused(|c, dir, _| (c.create_op(dir, "mine"), Ino::ROOT));
    // A number for what makes nothing would be used up in vain.
    is_refused(|c, dir, inos| (Op::Unlink(dir, c.name("old")), inos.first));
    // Another outcome than the holder's: the digest is wrong.
    is_refused(|c, dir, inos| (c.create_op(dir, "mine"), inos.first));
    is_refused(|c, dir, _| (Op::Unlink(dir, c.name("old")), Ino(0)));
}

#[test]
fn an_element_runs_as_its_caller_and_not_as_the_superuser() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    let by = Credentials { uid: 7, gid: 7, ..Credentials::ROOT };
    c.by = by.clone();
    let op = c.create_op(dir, "mine");
    assert_eq!(holder.here(&mut c, op.clone()), Err(Refusal::Errno(Errno::EACCES)));
    assert!(holder.unsent.is_empty());
    let states = holder.send(&mut c, vec![element(grant, by, op, Ino(0))]);
    assert_eq!(states[0].1.standing, Standing::Refused);
}

#[test]
fn what_was_lent_to_one_key_is_not_there_for_another() {
    let mut c = cluster(1);
    let (dir, mut holder, grant) = lent(&mut c);
    holder.create(&mut c, dir, "a").unwrap();
    c.key = KeyId(9);
    let states = holder.send(&mut c, holder.unsent.clone());
    assert_eq!(states[0].1.standing, Standing::Unknown);
    let back = Element { grant, number: 1, act: Act::Return(Some(vec![])) };
    assert_eq!(holder.send(&mut c, vec![back])[0].1.standing, Standing::Unknown);
    for which in [LentRows::Part(vec![]), LentRows::File(Order(0), vec![])] {
        let rows = Op::LentRows(holder.shard, grant, which);
        assert_eq!(c.run(holder.shard, rows), Err(Refusal::Errno(Errno::ESTALE)));
    }
    assert_eq!(c.run(holder.shard, holder.attend_op(vec![], vec![grant])), Err(Refusal::NoSession));
    c.key = KeyId::OWNER;
    assert!(!holder.attend(&mut c).over.iter().any(|(id, _)| *id == grant));
    holder.give_back(&mut c, grant);
}

#[test]
fn opens_that_are_not_of_the_part_are_not_taken_over() {
    let mut c = cluster(1);
    let beside = c.create(DirRef::ROOT, "beside").unwrap();
    let (_, holder, grant) = lent(&mut c);
    let order = c.secrets.order(b"beside");
    let lies = [
        PartOpen { ino: beside.ino, order, count: 3 },
        PartOpen { ino: Ino(99), order: Order(5), count: u32::MAX },
    ];
    let back = Element { grant, number: 1, act: Act::Return(Some(lies.to_vec())) };
    assert_eq!(holder.send(&mut c, vec![back])[0].1.standing, Standing::Returned);
    assert_eq!(c.in_flight()[3], 0, "an open of nothing");
}

#[test]
fn rows_of_other_directories_are_not_told() {
    let mut c = cluster(1);
    c.create(DirRef::ROOT, "beside").unwrap();
    let (dir, holder, grant) = lent(&mut c);
    let key = pando_core::keys::entry(DirRef::ROOT.id, c.secrets.order(b"beside")).to_vec();
    for from in [vec![], key, vec![0], vec![255]] {
        let rows = Op::LentRows(holder.shard, grant, LentRows::Part(from.clone()));
        match c.run(holder.shard, rows) {
            Ok(Body::LentRows(page)) => {
                let is_its = |key: &[u8]| pando_core::keys::dir_of(key) == Some(dir.id);
                assert!(page.rows.iter().all(|row| is_its(&row.0)), "{from:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn more_than_a_batch_may_have_is_refused() {
    let mut c = cluster(1);
    let (_, holder, grant) = lent(&mut c);
    let one = Element { grant, number: 9, act: Act::Return(Some(vec![])) };
    let elements = vec![one; pando_types::op::ELEMENTS_MAX + 1];
    let stream = Op::Stream { shard: ShardIndex(0), elements, synced: false };
    assert!(matches!(c.run(holder.shard, stream), Err(Refusal::Improper(_))));
}
