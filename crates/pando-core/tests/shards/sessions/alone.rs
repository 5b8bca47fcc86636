//! A session that is alone, and what happens when another one wants to begin
//! (docs/design/alone.md).

use pando_types::op::{ALONE_HOLD, Alone, Op, RequestId};
use pando_types::peer::{Peer, PeerMessage, Vote};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, KeyId, SessionId, ShardIndex, TxnId};

use crate::support::{Cluster, dir_at};

const SECOND: u64 = 1_000_000_000;
const SHARD_0: ShardIndex = ShardIndex(0);
const BUSY: Result<Body, Refusal> = Err(Refusal::Errno(Errno::EBUSY));

/// Longer than any test waits.
const LONG: u64 = 3600 * SECOND;

/// A cluster with one session, which is local.
fn cluster(lease: u64) -> (Cluster, SessionId) {
    let mut c = Cluster::with(3, |config| {
        (config.split_threshold, config.lease) = (100, lease);
    });
    let first = c.session;
    c.begin_session(Op::OpenLocalSession);
    let session = c.session;
    say(&mut c, Op::EndSession(first)).unwrap();
    (c, session)
}

/// Sends a request without session and sequence, as requests about sessions are.
fn say(c: &mut Cluster, op: Op) -> Result<Body, Refusal> {
    c.run(SHARD_0, (RequestId::default(), op))
}

fn ask(c: &mut Cluster, session: SessionId) -> Result<Body, Refusal> {
    say(c, Op::Alone(session, Alone::Ask))
}

#[test]
fn only_the_only_session_is_alone() {
    let (mut c, session) = cluster(LONG);
    c.begin_session(Op::OpenSession);
    let other = c.session;
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)), "there is another one");
    assert_eq!(ask(&mut c, other), Ok(Body::Alone(false)));
    say(&mut c, Op::EndSession(other)).unwrap();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "asked again");
    let elsewhere = c.run(ShardIndex(1), (RequestId::default(), Op::Alone(session, Alone::Ask)));
    assert_eq!(elsewhere, Err(Refusal::Errno(Errno::EINVAL)));
}

#[test]
fn another_session_begins_only_when_the_one_alone_says_that_it_is_not() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    let awaits = c.send(SHARD_0, Op::Alone(session, Alone::Await));
    assert_eq!(c.answer(awaits), None, "nobody wants to begin");
    assert_eq!(say(&mut c, Op::OpenSession), BUSY);
    assert_eq!(c.answer(awaits), Some(Ok(Body::Done)), "now somebody does");
    // The session that is alone takes its time.
    assert_eq!(say(&mut c, Op::OpenSession), BUSY);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "it is, until it says so");
    let again = c.send(SHARD_0, Op::Alone(session, Alone::Await));
    assert_eq!(c.answer(again), Some(Ok(Body::Done)), "it is recalled still");
    for _ in 0..2 {
        assert_eq!(say(&mut c, Op::Alone(session, Alone::End)), Ok(Body::Done));
    }
    let begun = say(&mut c, Op::OpenSession);
    assert!(matches!(begun, Ok(Body::Session(_))), "{begun:?}");
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
}

#[test]
fn while_a_session_begins_or_ends_on_other_shards_none_is_alone() {
    let (mut c, session) = cluster(LONG);
    let mut op = Op::OpenSession;
    for _ in 0..2 {
        let under_way = c.send(SHARD_0, op.clone());
        let answer = c.answer(under_way).expect("shard 0 decides");
        let mut asked = 0;
        while c.messages().any(|(_, peer)| {
            matches!(peer.message, PeerMessage::SessionsHeard { .. } | PeerMessage::Sessions { .. })
        }) {
            let glance = c.ask(SHARD_0, Op::Alone(session, Alone::Ask));
            if glance == Some(Ok(Body::Alone(true))) {
                break;
            }
            asked += 1;
            c.step();
        }
        assert!(asked > 3, "{op:?} takes messages");
        c.settle();
        match answer {
            Ok(Body::Session(begun)) => {
                assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
                op = Op::EndSession(begun);
            }
            answer => assert_eq!(answer, Ok(Body::Done)),
        }
    }
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
}

#[test]
fn a_session_that_is_over_is_not_alone() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    say(&mut c, Op::EndSession(session)).unwrap();
    let begun = say(&mut c, Op::OpenSession);
    assert!(matches!(begun, Ok(Body::Session(_))), "{begun:?}");
}

/// The time for which shard 0 counts a session of another process as alone: a quarter more than
/// that session does.
const HELD: u64 = ALONE_HOLD / 4 * 5;

/// A key that is none of the session's.
const OTHER: KeyId = KeyId(9);

fn begins(c: &mut Cluster) -> bool {
    match say(c, Op::OpenSession) {
        Ok(Body::Session(_)) => true,
        answer => {
            assert_eq!(answer, BUSY);
            false
        }
    }
}

/// A cluster with one session, which is of another process.
fn from_elsewhere() -> (Cluster, SessionId) {
    let c = Cluster::with(3, |config| config.lease = LONG);
    let session = c.session;
    (c, session)
}

/// Nobody can know whether a process that is stopped, or on a machine that cannot be reached,
/// remembers something. But what it remembers ends by itself.
#[test]
fn a_session_of_another_process_is_alone_for_a_time_after_it_asked() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    for _ in 0..5 {
        c.wait(HELD / 2);
        assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "asked again in time");
    }
    c.wait(HELD / 2);
    assert!(!begins(&mut c));
    // It is recalled. A further question prolongs nothing, since its sender would count from it.
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
    c.wait(HELD / 2 - SECOND / 10);
    assert!(!begins(&mut c));
    c.wait(SECOND / 5);
    assert!(begins(&mut c));
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)), "there is another one");
}

#[test]
fn another_session_begins_at_once_when_one_of_another_process_says_that_it_is_not_alone() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    assert_eq!(say(&mut c, Op::Alone(session, Alone::Await)), Ok(Body::Alone(true)));
    assert!(!begins(&mut c));
    assert_eq!(say(&mut c, Op::Alone(session, Alone::Await)), Ok(Body::Done));
    say(&mut c, Op::Alone(session, Alone::End)).unwrap();
    assert!(begins(&mut c));
}

/// The owner ends a session, or its lease is over. Its kernel has not heard of that.
#[test]
fn a_session_of_another_process_that_is_over_keeps_others_waiting_for_its_time() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    say(&mut c, Op::EndSession(session)).unwrap();
    assert!(!begins(&mut c));
    c.wait(HELD);
    assert!(begins(&mut c));
}

#[test]
fn after_a_restart_the_only_session_of_another_process_may_have_been_alone() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.restart(c.all());
    assert!(!begins(&mut c));
    c.wait(HELD);
    assert!(begins(&mut c), "its time is over");

    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.restart(c.all());
    assert!(!begins(&mut c));
    say(&mut c, Op::Alone(session, Alone::End)).unwrap();
    assert!(begins(&mut c), "it says that it is not");

    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.restart(c.all());
    c.settle();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "it goes on being alone");
    assert!(!begins(&mut c));
    c.wait(HELD);
    assert!(begins(&mut c));
}

/// A client that asks to be alone without end keeps nobody out for longer than its time.
#[test]
fn one_that_asks_again_and_again_keeps_nobody_out() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    let mut waited = 0;
    while !begins(&mut c) {
        assert!(waited <= HELD, "it takes too long");
        for _ in 0..5 {
            c.wait(SECOND / 20);
            assert_ne!(ask(&mut c, session), Ok(Body::Alone(true)));
        }
        waited += SECOND / 4;
    }
    // Somebody wanted to begin, and has given up.
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    assert!(!begins(&mut c));
    say(&mut c, Op::Alone(session, Alone::End)).unwrap();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
    c.wait(SECOND);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
}

#[test]
fn only_the_key_of_a_session_says_that_its_kernel_remembers_nothing() {
    let (mut c, session) = from_elsewhere();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    say(&mut c, Op::EndSession(session)).unwrap();
    let own = std::mem::replace(&mut c.key, OTHER);
    let _ = say(&mut c, Op::Alone(session, Alone::End));
    assert!(!begins(&mut c));
    c.key = own;
    say(&mut c, Op::Alone(session, Alone::End)).unwrap();
    assert!(begins(&mut c));
}

/// The client of a local session that is alone lives in the shards' own process. What its kernel
/// remembers lasts as long as that process. So no lease may end the session before.
#[test]
fn no_lease_ends_a_session_that_is_alone() {
    let (mut c, session) = cluster(8 * SECOND);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.wait(60 * SECOND);
    assert_eq!(c.counters()[0].sessions_expired, 0);
    assert_eq!(say(&mut c, Op::OpenSession), BUSY);
    say(&mut c, Op::Alone(session, Alone::End)).unwrap();
    c.wait(60 * SECOND);
    assert_eq!(c.counters()[0].sessions_expired, 1);
}

#[test]
fn after_a_restart_no_session_is_alone() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.restart(c.all());
    let begun = say(&mut c, Op::OpenSession);
    assert!(matches!(begun, Ok(Body::Session(_))), "{begun:?}");
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
}

/// Until all shards have heard that a session is over, some serve it.
#[test]
fn until_every_shard_has_heard_that_another_session_is_over_none_is_alone() {
    for restarts in [false, true] {
        let (mut c, session) = cluster(LONG);
        c.begin_session(Op::OpenSession);
        let other = c.session;
        let ends = c.send(SHARD_0, Op::EndSession(other));
        while c.answer(ends).is_none() {
            assert!(c.step(), "it comes to an end");
        }
        if restarts {
            c.restart([SHARD_0]);
            c.tick(c.all(), SECOND);
        }
        let serves = |c: &Cluster, shard| c.shard(shard).session_keys().any(|it| it.0 == other);
        let mut asked = 0;
        while [1, 2].iter().any(|shard| serves(&c, ShardIndex(*shard))) {
            let glance = c.ask(SHARD_0, Op::Alone(session, Alone::Ask));
            assert_eq!(glance, Some(Ok(Body::Alone(false))), "after {asked} messages");
            asked += 1;
            assert!(c.step(), "both hear of it");
        }
        assert!(asked > 1, "it takes messages");
        c.settle();
        assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    }
}

/// A cluster, its local session, and a mkdir that another session has begun. The directory is on
/// shard 1, and the new one on shard 2. The messages of the mkdir are held up.
struct Making {
    c: Cluster,
    session: SessionId,
    dir: DirRef,
    tag: u64,
    txn: TxnId,
}

const MAKER: ShardIndex = ShardIndex(1);

impl Making {
    fn new() -> Self {
        let (mut c, session) = cluster(LONG);
        let (_, dir) = dir_at(&mut c, DirRef::ROOT, "dir", |home| home == MAKER);
        c.settle();
        c.begin_session(Op::OpenSession);
        for n in 0..100 {
            let op = Op::Mkdir(dir, c.name(&format!("made{n}")), 0o755);
            if let (tag, Some(txn)) = c.send_txn(MAKER, op) {
                return Self { c, session, dir, tag, txn };
            }
            c.settle();
        }
        panic!("a directory has its home elsewhere");
    }

    /// Delivers all messages but those of the transaction, until there are none.
    fn deliver_others(&mut self) {
        let txn = self.txn;
        while self.c.step_of(|_, peer| peer.txn != txn) {}
    }

    /// Ends the other session.
    fn end(&mut self) -> u64 {
        let (other, id) = (self.c.session, RequestId::default());
        let tag = self.c.send(SHARD_0, (id, Op::EndSession(other)));
        self.deliver_others();
        tag
    }

    fn makes(&mut self, name: &str) -> u64 {
        let op = self.c.create_op(self.dir, name);
        self.c.send(MAKER, op)
    }
}

/// A client that is cut off from shard 0 alone may have begun a change when its lease ends.
#[test]
fn what_a_session_has_begun_is_undone_where_its_end_is_heard_of() {
    let mut m = Making::new();
    let (other, id) = (m.c.session, RequestId::default());
    let ends = m.c.send(SHARD_0, (id, Op::EndSession(other)));
    assert_eq!(m.c.answer(ends), Some(Ok(Body::Done)));
    let glance = m.c.ask(SHARD_0, Op::Alone(m.session, Alone::Ask));
    assert_eq!(glance, Some(Ok(Body::Alone(false))), "others may still serve it");
    m.deliver_others();
    assert_eq!(m.c.answer(m.tag), Some(Err(Refusal::NoSession)));
    assert_eq!(ask(&mut m.c, m.session), Ok(Body::Alone(true)));
    let late = m.makes("late");
    m.c.settle();
    assert_eq!(m.c.answer(late), Some(Err(Refusal::NoSession)));
    m.c.session = m.session;
    assert!(m.c.list(m.dir).is_empty());
    m.c.settle();
    assert_eq!(m.c.in_flight(), [0; 4]);
}

/// A transaction of the session that must begin again does not.
#[test]
fn what_a_session_has_to_begin_again_is_refused_when_the_session_ends() {
    let mut m = Making::new();
    // The participant is busy, so the transaction is undone.
    let txn = m.txn;
    let mut asked = m.c.take(|_, peer| peer.txn == txn);
    let (from, asked) = asked.pop().expect("it asks");
    let vote = Peer { from, message: PeerMessage::Voted(Vote::Busy), ..*asked };
    m.c.deliver([(MAKER, vote)]);
    let ends = m.end();
    assert_eq!(m.c.answer(ends), Some(Ok(Body::Done)));
    m.c.tick(m.c.all(), SECOND);
    let begins = |of: &TxnId| of.shard == MAKER && *of > txn;
    assert!(!m.c.messages().any(|(_, peer)| begins(&peer.txn)), "it has begun again");
    m.c.settle();
    assert_eq!(m.c.answer(m.tag), Some(Err(Refusal::NoSession)));
    assert_eq!(ask(&mut m.c, m.session), Ok(Body::Alone(true)));
    assert_eq!(m.c.in_flight(), [0; 4]);
}

/// Two requests that end a session, both numbered in that session, do not wait for each other.
#[test]
fn a_session_that_ends_itself_twice_at_once_does_not_wait_for_itself() {
    let (mut c, _) = cluster(LONG);
    c.begin_session(Op::OpenSession);
    let ends = [0; 2].map(|_| c.send(SHARD_0, Op::EndSession(c.session)));
    c.settle();
    let answers = ends.map(|tag| c.answer(tag));
    assert!(answers.iter().all(Option::is_some), "{answers:?}");
    assert!(answers.contains(&Some(Ok(Body::Done))), "{answers:?}");
    assert_eq!(c.in_flight(), [0; 4]);
}
