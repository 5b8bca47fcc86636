//! Locks of programs. Two that exclude each other are never held at once, whatever restarts, ends
//! or is handed over.

use crate::support::Cluster;
use pando_core::keys::{self, Table};
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal};
use pando_types::{
    DirRef, Errno, Ino, Lock, LockHolder, LockKind, LockOwner, LockRange, LockSet, LockSpace,
    SessionId, ShardIndex,
};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 3;

fn of(owner: u64, first: u64, last: u64, kind: LockKind) -> Lock {
    let range = LockRange { first, last };
    Lock { space: LockSpace::Record, owner: LockOwner(owner), range, kind, pid: 7 }
}

fn exclusive(owner: u64) -> Lock {
    of(owner, 0, LockRange::END, LockKind::Exclusive)
}

fn flock(owner: u64, kind: LockKind) -> Lock {
    Lock { space: LockSpace::Flock, ..of(owner, 0, LockRange::END, kind) }
}

/// The shard that answers for the file. Asserts that exactly one does.
fn owner(c: &mut Cluster, ino: Ino) -> ShardIndex {
    let all = c.all();
    let test = Op::TestLock(ino, exclusive(u64::MAX));
    let answers: Vec<_> =
        all.filter(|shard| matches!(c.run(*shard, test.clone()), Ok(Body::Lock(_)))).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0]
}

fn lock(c: &mut Cluster, session: SessionId, ino: Ino, lock: Lock) -> Option<LockHolder> {
    c.session = session;
    let at = owner(c, ino);
    match c.run(at, Op::Lock(ino, lock)) {
        Ok(Body::Locked(_)) => None,
        Ok(Body::Lock(holder)) => holder,
        other => panic!("{other:?}"),
    }
}

fn unlock(c: &mut Cluster, session: SessionId, ino: Ino, lock: Lock) {
    c.session = session;
    let at = owner(c, ino);
    let op = Op::Unlock(ino, lock.space, lock.owner, lock.range);
    assert_eq!(c.run(at, op), Ok(Body::Done));
}

fn rows(c: &Cluster) -> usize {
    let table = keys::table(Table::Lock);
    (0..SHARDS).map(|shard| c.count([ShardIndex(shard)], &table)).sum()
}

/// A file, and two sessions.
fn two_sessions() -> (Cluster, Ino, SessionId, SessionId) {
    let mut c = Cluster::new(SHARDS, 1_000);
    let ino = c.create(ROOT, "file").unwrap().ino;
    let one = c.session;
    c.begin_session(Op::OpenSession);
    let two = c.session;
    (c, ino, one, two)
}

#[test]
fn sessions_exclude_each_other_and_are_told_the_holder() {
    let (mut c, ino, one, two) = two_sessions();
    assert_eq!(lock(&mut c, one, ino, of(1, 0, 9, LockKind::Exclusive)), None);
    // In another session, this number means another owner.
    let wanted = of(1, 5, 20, LockKind::Shared);
    let holder = lock(&mut c, two, ino, wanted).expect("held");
    assert_eq!((holder.session, holder.lock.range.last, holder.lock.pid), (one, 9, 7));
    assert_eq!(lock(&mut c, two, ino, of(1, 10, 20, LockKind::Shared)), None);
    assert!(lock(&mut c, one, ino, of(2, 0, 0, LockKind::Shared)).is_some(), "of its own session");
    assert_eq!(lock(&mut c, one, ino, of(1, 0, 9, LockKind::Shared)), None, "a downgrade");
    assert_eq!(lock(&mut c, two, ino, wanted), None);
    assert!(lock(&mut c, one, ino, of(1, 0, 9, LockKind::Exclusive)).is_some(), "an upgrade");
    assert!(lock(&mut c, two, ino, exclusive(1)).is_some(), "what it had is there");
    // `flock` does not conflict with it.
    assert_eq!(lock(&mut c, two, ino, flock(3, LockKind::Exclusive)), None);
    assert_eq!(rows(&c), 2);
    unlock(&mut c, one, ino, exclusive(1));
    unlock(&mut c, two, ino, exclusive(1));
    unlock(&mut c, two, ino, flock(3, LockKind::Shared));
    assert_eq!(rows(&c), 0);
}

#[test]
fn a_flock_of_the_other_kind_is_given_back_first() {
    let (mut c, ino, one, two) = two_sessions();
    assert_eq!(lock(&mut c, one, ino, flock(1, LockKind::Shared)), None);
    assert_eq!(lock(&mut c, two, ino, flock(1, LockKind::Shared)), None);
    assert!(lock(&mut c, one, ino, flock(1, LockKind::Exclusive)).is_some());
    assert_eq!(lock(&mut c, two, ino, flock(1, LockKind::Exclusive)), None, "alone by now");
    assert!(lock(&mut c, one, ino, flock(1, LockKind::Shared)).is_some());
    // For record locks this is not so.
    assert_eq!(lock(&mut c, one, ino, of(1, 0, 0, LockKind::Shared)), None);
    assert_eq!(lock(&mut c, two, ino, of(1, 0, 0, LockKind::Shared)), None);
    assert!(lock(&mut c, one, ino, of(1, 0, 0, LockKind::Exclusive)).is_some());
    assert!(lock(&mut c, two, ino, of(1, 0, 0, LockKind::Exclusive)).is_some());
}

#[test]
fn locks_outlive_restarts_and_end_with_their_session() {
    let (mut c, ino, one, two) = two_sessions();
    assert_eq!(lock(&mut c, one, ino, exclusive(1)), None);
    c.restart(c.all());
    c.settle();
    assert!(lock(&mut c, two, ino, exclusive(1)).is_some());
    c.session = two;
    assert_eq!(c.run(ShardIndex(0), Op::EndSession(one)), Ok(Body::Done));
    c.settle();
    assert_eq!(rows(&c), 0);
    assert_eq!(lock(&mut c, two, ino, exclusive(1)), None);
    let at = owner(&mut c, ino);
    c.session = one;
    let late = c.run(at, Op::Lock(ino, exclusive(1)));
    assert_eq!(late, Err(Refusal::NoSession));
    c.restart(c.all());
    c.settle();
    assert_eq!(rows(&c), 1);
}

#[test]
fn a_lease_that_ends_frees_what_was_locked() {
    const LEASE: u64 = 80_000_000_000;
    let mut c = Cluster::with(SHARDS, |config| config.lease = LEASE);
    let ino = c.create(ROOT, "file").unwrap().ino;
    let one = c.session;
    assert_eq!(lock(&mut c, one, ino, exclusive(1)), None);
    c.begin_session(Op::OpenSession);
    let two = c.session;
    for _ in 0..24 {
        assert!(c.run(ShardIndex(0), Op::Renew(two)).is_ok());
        c.tick(c.all(), LEASE / 8);
        c.settle();
    }
    assert_eq!(lock(&mut c, two, ino, exclusive(1)), None);
    assert_eq!(rows(&c), 1);
}

/// Otherwise the session could write after another one has its lock.
#[test]
fn the_locks_of_a_session_that_is_over_stay_until_every_shard_has_heard_it() {
    let (mut c, ino, one, two) = two_sessions();
    assert_eq!(lock(&mut c, one, ino, exclusive(1)), None);
    let at = owner(&mut c, ino);
    let deaf = (1..SHARDS).map(ShardIndex).find(|shard| *shard != at).unwrap();
    c.session = two;
    c.silence([deaf]);
    assert_eq!(c.run(ShardIndex(0), Op::EndSession(one)), Ok(Body::Done));
    for shard in (0..SHARDS).map(ShardIndex).filter(|shard| *shard != deaf) {
        c.session = one;
        let answer = c.ask(shard, Op::GarbageDone(shard, Vec::new()));
        assert_eq!(answer, Some(Err(Refusal::NoSession)), "{shard}");
    }
    for _ in 0..2 {
        assert!(lock(&mut c, two, ino, exclusive(1)).is_some(), "it may write by {deaf}");
        c.restart([at]);
        c.tick(c.all(), 1_000_000_000);
    }
    c.session = one;
    assert_eq!(c.ask(at, Op::Lock(ino, exclusive(1))), Some(Err(Refusal::NoSession)));
    c.silence([]);
    c.tick(c.all(), 1_000_000_000);
    c.settle();
    assert_eq!(lock(&mut c, two, ino, exclusive(1)), None);
    assert_eq!(rows(&c), 1);
}

#[test]
fn a_repeated_request_runs_once() {
    let (mut c, ino, one, two) = two_sessions();
    c.session = one;
    let at = owner(&mut c, ino);
    let tag = c.send(at, Op::Lock(ino, exclusive(1)));
    let id = c.last_id;
    let locked = c.answer(tag).expect("at once");
    assert!(matches!(locked, Ok(Body::Locked(_))), "{locked:?}");
    unlock(&mut c, one, ino, exclusive(1));
    assert_eq!(lock(&mut c, two, ino, exclusive(1)), None);
    // A late copy does not take the lock again, and is answered as the first was.
    assert_eq!(c.run(at, (id, Op::Lock(ino, exclusive(1)))), locked);
    assert_eq!(rows(&c), 1);
    assert!(lock(&mut c, one, ino, exclusive(1)).is_some());
}

#[test]
fn locks_go_with_the_hash_slot_of_their_file() {
    let (mut c, ino, one, two) = two_sessions();
    assert_eq!(lock(&mut c, one, ino, of(1, 0, 9, LockKind::Exclusive)), None);
    assert_eq!(lock(&mut c, two, ino, of(1, 10, 19, LockKind::Exclusive)), None);
    let from = owner(&mut c, ino);
    let to = (0..SHARDS).map(ShardIndex).find(|shard| *shard != from).expect("another");
    let hand_over = Op::HandOver(from, ino.hash_slot(), to);
    assert_eq!(c.ask(from, hand_over), Some(Ok(Body::Done)));
    // Changes while the hash slot is copied go along.
    while c.step() {
        let set = c.ask(from, Op::TestLock(ino, exclusive(9)));
        assert!(!matches!(set, Some(Ok(Body::Lock(None)))), "nobody may take it meanwhile");
    }
    c.settle();
    assert_eq!(owner(&mut c, ino), to);
    assert_eq!(c.count([from], &keys::table(Table::Lock)), 0);
    assert!(lock(&mut c, two, ino, of(2, 0, 0, LockKind::Shared)).is_some());
    assert!(lock(&mut c, one, ino, of(2, 19, 19, LockKind::Shared)).is_some());
    c.restart(c.all());
    c.settle();
    assert!(lock(&mut c, two, ino, of(2, 0, 0, LockKind::Shared)).is_some());
    assert_eq!(c.run(ShardIndex(0), Op::EndSession(one)), Ok(Body::Done));
    c.settle();
    assert_eq!((lock(&mut c, two, ino, of(1, 0, 9, LockKind::Shared)), rows(&c)), (None, 1));
}

#[test]
fn a_handover_that_stands_still_at_any_step_loses_no_lock() {
    for steps in 0.. {
        let (mut c, ino, one, two) = two_sessions();
        assert_eq!(lock(&mut c, one, ino, exclusive(1)), None);
        let from = owner(&mut c, ino);
        let to = (0..SHARDS).map(ShardIndex).find(|shard| *shard != from).expect("another");
        assert_eq!(c.ask(from, Op::HandOver(from, ino.hash_slot(), to)), Some(Ok(Body::Done)));
        let is_over = (0..steps).any(|_| !c.step());
        c.restart(c.all());
        c.settle();
        assert!(lock(&mut c, two, ino, exclusive(1)).is_some(), "after {steps} steps");
        assert_eq!(c.run(ShardIndex(0), Op::EndSession(one)), Ok(Body::Done));
        c.settle();
        assert_eq!(lock(&mut c, two, ino, exclusive(1)), None, "after {steps} steps");
        assert_eq!(rows(&c), 1, "after {steps} steps");
        if is_over {
            assert!(steps > 3);
            return;
        }
    }
}

#[test]
fn too_many_and_what_cannot_be_is_refused() {
    let (mut c, ino, one, two) = two_sessions();
    for nth in 0..LockSet::MAX as u64 {
        let lock_of = of(1, 2 * nth, 2 * nth, LockKind::Exclusive);
        assert_eq!(lock(&mut c, one, ino, lock_of), None);
    }
    let at = owner(&mut c, ino);
    let more = Op::Lock(ino, of(1, 1 << 40, 1 << 40, LockKind::Shared));
    assert_eq!(c.run(at, more.clone()), Err(Refusal::Errno(Errno::ENOLCK)));
    assert_eq!(lock(&mut c, one, ino, exclusive(1)), None, "one instead of all");
    c.session = two;
    assert!(matches!(c.run(at, more), Ok(Body::Lock(Some(_)))));
    let bad = [
        LockRange { first: 6, last: 5 },
        LockRange { first: 0, last: LockRange::END + 1 },
        LockRange { first: u64::MAX, last: u64::MAX },
    ];
    for range in bad {
        let wanted = Lock { range, ..exclusive(1) };
        let unlock = Op::Unlock(ino, wanted.space, wanted.owner, range);
        for op in [Op::Lock(ino, wanted), Op::TestLock(ino, wanted), unlock] {
            assert_eq!(c.run(at, op), Err(Refusal::Errno(Errno::EINVAL)));
        }
    }
}
