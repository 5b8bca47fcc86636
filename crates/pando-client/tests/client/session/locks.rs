//! Locks of programs: the client knows the owners' locks, and loses them with the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pando_client::{Client, Options, Then, block_on};
use pando_types::op::Op;
use pando_types::reply::Refusal;
use pando_types::{Errno, Ino, Lock, LockKind, LockOwner, LockRange, LockSpace};

use crate::fake::{Cluster, Fate, name};
use crate::session::doubts::maintain;
use crate::walks::routing::make;

const SPACE: LockSpace = LockSpace::Record;

fn of(owner: u64, first: u64, last: u64) -> Lock {
    let (range, kind) = (LockRange { first, last }, LockKind::Exclusive);
    Lock { space: SPACE, owner: LockOwner(owner), range, kind, pid: 1 }
}

fn made(client: &Client) -> Ino {
    let name = name("file");
    make(client, &name, Then::Open).expect("made").0.ino
}

#[test]
fn an_owner_without_locks_sends_nothing() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = made(&client);
    cluster.take_log();
    assert_eq!(block_on(client.unlock(ino, SPACE, LockOwner(1), LockRange::ALL)), Ok(()));
    block_on(client.forget_locks(ino, SPACE, LockOwner(1)));
    assert_eq!(cluster.ops(), [""; 0]);
    assert_eq!(block_on(client.try_lock(ino, of(1, 0, 9))), Ok(None));
    assert_eq!(block_on(client.unlock(ino, SPACE, LockOwner(1), of(1, 20, 29).range)), Ok(()));
    assert_eq!(block_on(client.unlock(ino, SPACE, LockOwner(1), LockRange::ALL)), Ok(()));
    block_on(client.forget_locks(ino, SPACE, LockOwner(1)));
    block_on(client.release(ino)).expect("released");
    assert_eq!(cluster.ops(), ["Lock", "Unlock", "Release"]);
}

#[test]
fn two_clients_exclude_each_other_and_a_waiting_client_asks_without_changing_anything() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.client(), cluster.client());
    let ino = made(&one);
    assert_eq!(block_on(one.try_lock(ino, of(1, 0, 9))), Ok(None));
    let holder = block_on(two.try_lock(ino, of(1, 5, 5))).expect("answered").expect("held");
    assert!(one.is_own(holder.session) && !two.is_own(holder.session));
    cluster.take_log();
    let left = AtomicUsize::new(20);
    let is_wanted = || left.fetch_sub(1, Ordering::Relaxed) > 1;
    assert_eq!(block_on(two.lock(ino, of(1, 5, 5), &is_wanted)), Err(Errno::EINTR));
    let ops = cluster.ops();
    assert_eq!(ops[0], "Lock");
    assert!(ops.len() > 5 && ops[1..].iter().all(|op| op == "TestLock"), "{ops:?}");
    let millis: Vec<_> = cluster.state().slept.iter().map(|nanos| nanos / 1_000_000).collect();
    assert!(millis.iter().all(|pause| (1..=30).contains(pause)), "{millis:?}");
    let mut pauses = 0;
    cluster.on_request(move |_, _, request| {
        pauses += usize::from(matches!(request.op, Op::TestLock(..)));
        // The holder gives the lock back after some questions.
        (pauses == 5).then_some(Fate::Answer(Ok(pando_types::reply::Body::Lock(None))))
    });
    block_on(one.forget_locks(ino, SPACE, LockOwner(1)));
    assert_eq!(block_on(two.lock(ino, of(1, 5, 5), &|| true)), Ok(()));
    assert!(block_on(one.try_lock(ino, of(2, 0, 9))).expect("answered").is_some());
}

#[test]
fn what_was_lost_with_a_session_is_told_until_it_is_forgotten() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let told = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&told);
    client.watch_locks(Box::new(move |lost| heard.store(lost, Ordering::Relaxed)));
    let ino = made(&client);
    assert_eq!(block_on(client.try_lock(ino, of(1, 0, 9))), Ok(None));
    cluster.expire(client.session());
    // An owner without locks is not concerned, and goes on in the next session.
    assert_eq!(block_on(client.try_lock(ino, of(2, 0, 0))), Ok(None));
    assert_eq!((client.locks_lost(), told.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(block_on(client.try_lock(ino, of(1, 20, 29))), Err(Errno::EIO));
    let unlock = client.unlock(ino, SPACE, LockOwner(1), LockRange::ALL);
    assert_eq!(block_on(unlock), Err(Errno::EIO));
    let write = client.write_data(ino, None, Vec::new(), None, None);
    assert_eq!(block_on(write), Err(pando_client::WriteError::Errno(Errno::ESTALE)));
    block_on(client.forget_locks(ino, SPACE, LockOwner(1)));
    assert_eq!(client.locks_lost(), 0);
    // Its locks ended with the session: the next owner may have them.
    assert_eq!(block_on(client.try_lock(ino, of(3, 5, 5))), Ok(None));
}

#[test]
fn a_lock_whose_answer_was_lost_is_given_back_when_its_owner_ends() {
    const SECOND: u64 = 1_000_000_000;
    let cluster = Cluster::new();
    let options = Options { patience: Some(SECOND), ..Options::default() };
    let client = cluster.client_with(options);
    let ino = made(&client);
    cluster.on_request(move |_, _, request| {
        matches!(request.op, Op::Lock(..)).then_some(Fate::LoseReply)
    });
    assert_eq!(block_on(client.try_lock(ino, of(1, 0, 9))), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    // The lock request is still in doubt. The next one waits for that, then gives back all that the
    // owner has.
    assert_eq!(client.doubts(), 1);
    maintain(&cluster, &client, || client.doubts() == 0);
    block_on(client.forget_locks(ino, SPACE, LockOwner(1)));
    assert!(cluster.state().locks[&ino].values().all(|set| set.0.is_empty()));
}

#[test]
fn a_lock_that_was_refused_leaves_what_there_was() {
    // Too many locks, and a disk without room for one more.
    for errno in [Errno::ENOLCK, Errno::ENOSPC] {
        let cluster = Cluster::new();
        let client = cluster.client();
        let ino = made(&client);
        cluster.on_request(move |_, _, request| {
            let is_lock = matches!(request.op, Op::Lock(..));
            is_lock.then_some(Fate::Answer(Err(Refusal::Errno(errno))))
        });
        assert_eq!(block_on(client.try_lock(ino, of(1, 0, 9))), Err(errno));
        cluster.take_log();
        block_on(client.forget_locks(ino, SPACE, LockOwner(1)));
        assert_eq!(cluster.ops(), [""; 0]);
    }
}
