//! Which sessions write, and of which the kernel may remember (docs/design/holds.md).

use pando_types::hold::{AWAIT_TIME, HOLD_TIME, Holding, Said};
use pando_types::op::{Op, RequestId};
use pando_types::peer::{Peer, PeerMessage, Vote};
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Epoch, Errno, KeyId, SessionId, ShardIndex, TxnId};

use crate::support::{Cluster, Fault, dir_at};

type Answer = Result<Body, Refusal>;

const SECOND: u64 = 1_000_000_000;
const SHARD_0: ShardIndex = ShardIndex(0);
const BUSY: Answer = Err(Refusal::Errno(Errno::EBUSY));
const DONE: Answer = Ok(Body::Done);
const YES: Answer = Ok(Body::Holds(true));
const NO: Answer = Ok(Body::Holds(false));

/// Longer than any test waits.
const LONG: u64 = 3600 * SECOND;

/// The time for which shard 0 counts a session of another process as one that holds: a quarter more
/// than that session does.
const HELD: u64 = HOLD_TIME / 4 * 5;

/// A key that is none of the sessions'.
const OTHER: KeyId = KeyId(9);

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

/// A cluster with two sessions of other processes.
fn two() -> (Cluster, SessionId, SessionId) {
    let mut c = Cluster::with(3, |config| config.lease = LONG);
    let first = c.session;
    let second = c.begin_session(Op::OpenSession);
    (c, first, second)
}

/// Sends a request without session and sequence, as requests about sessions are.
fn say(c: &mut Cluster, op: Op) -> Answer {
    c.run(SHARD_0, (RequestId::default(), op))
}

fn ask(c: &mut Cluster, session: SessionId, number: u64) -> Answer {
    say(c, Op::Hold(session, Holding::Ask(number)))
}

fn wake(c: &mut Cluster, session: SessionId, number: u64) -> Answer {
    say(c, Op::Hold(session, Holding::Wake(number)))
}

fn said(c: &Cluster, number: u64) -> Said {
    Said { number, epoch: Epoch(c.epoch) }
}

fn quiet(c: &mut Cluster, session: SessionId, number: u64) -> Answer {
    let said = said(c, number);
    say(c, Op::Hold(session, Holding::Quiet(said)))
}

fn end(c: &mut Cluster, session: SessionId, number: u64) -> Answer {
    let said = said(c, number);
    say(c, Op::Hold(session, Holding::End(said)))
}

/// A question that waits, if the session is not recalled.
fn awaits(c: &mut Cluster, session: SessionId) -> u64 {
    c.send(SHARD_0, Op::Hold(session, Holding::Await))
}

fn restart(c: &mut Cluster, shards: impl IntoIterator<Item = ShardIndex> + Clone) {
    c.epoch += 1;
    c.restart(shards);
}

/// Shard 0 begins anew after an input that failed.
fn begin_anew(c: &mut Cluster) {
    c.fail(Fault::Input, 0);
    c.tick([SHARD_0], 0);
    assert!(c.has_failed());
}

#[test]
fn a_session_holds_while_no_other_one_writes() {
    let (mut c, first, second) = two();
    // A session that has just begun is quiet.
    assert_eq!([ask(&mut c, first, 1), ask(&mut c, second, 1)], [YES, YES], "both read");
    assert_eq!(end(&mut c, second, 2), DONE);
    assert_eq!(wake(&mut c, first, 1), DONE, "its own hold is in nobody's way");
    assert_eq!(ask(&mut c, first, 3), YES, "the only one that writes");
    assert_eq!(ask(&mut c, second, 3), NO, "another one writes");
    assert_eq!(quiet(&mut c, first, 2), DONE);
    assert_eq!([ask(&mut c, first, 4), ask(&mut c, second, 4)], [YES, YES]);
    let elsewhere = Op::Hold(first, Holding::Ask(5));
    let elsewhere = c.run(ShardIndex(1), (RequestId::default(), elsewhere));
    assert_eq!(elsewhere, Err(Refusal::Errno(Errno::EINVAL)));
}

#[test]
fn a_session_begins_although_another_one_holds() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session, 1), YES);
    let waits = awaits(&mut c, session);
    let begun = c.begin_session(Op::OpenSession);
    assert_eq!(c.answer(waits), None, "nobody is recalled");
    assert_eq!(ask(&mut c, begun, 1), YES);
    say(&mut c, Op::EndSession(begun)).unwrap();
    assert_eq!(c.answer(waits), None);
    assert_eq!(ask(&mut c, session, 2), YES);
}

#[test]
pub fn a_session_writes_only_when_no_other_one_holds() {
    let (mut c, session) = cluster(LONG);
    let writer = c.begin_session(Op::OpenSession);
    assert_eq!(ask(&mut c, session, 1), YES);
    let waits = awaits(&mut c, session);
    assert_eq!(c.answer(waits), None, "nobody wants to write");
    assert_eq!(wake(&mut c, writer, 1), BUSY, "one holds");
    assert_eq!(c.answer(waits), Some(DONE), "now somebody does");
    // The session that holds takes its time.
    assert_eq!(wake(&mut c, writer, 1), BUSY, "one holds");
    assert_eq!(ask(&mut c, session, 2), YES, "it holds until it says that it does not");
    let again = awaits(&mut c, session);
    assert_eq!(c.answer(again), Some(DONE), "it is recalled still");
    for _ in 0..2 {
        assert_eq!(end(&mut c, session, 3), DONE);
    }
    assert_eq!(ask(&mut c, session, 4), NO, "one wants to write");
    assert_eq!(wake(&mut c, writer, 1), DONE);
    assert_eq!(wake(&mut c, writer, 1), DONE, "a lost answer");
    assert_eq!(ask(&mut c, session, 5), NO);
    assert_eq!(quiet(&mut c, writer, 2), DONE);
    assert_eq!(ask(&mut c, session, 6), YES);
}

#[test]
pub fn a_statement_that_comes_late_does_nothing() {
    let (mut c, first, second) = two();
    assert_eq!(wake(&mut c, first, 1), DONE);
    assert_eq!(quiet(&mut c, first, 2), DONE);
    assert_eq!(wake(&mut c, first, 3), DONE);
    assert_eq!(quiet(&mut c, first, 2), DONE, "a late copy");
    assert_eq!(ask(&mut c, second, 1), NO, "the late copy counts");
    assert_eq!(quiet(&mut c, first, 4), DONE);
    assert_eq!(wake(&mut c, first, 3), BUSY, "a late copy: its sender does not wait for it");
    assert_eq!(ask(&mut c, second, 2), YES);
    // So with holds.
    assert_eq!(end(&mut c, second, 1), DONE, "a late copy");
    assert_eq!(wake(&mut c, first, 5), BUSY);
    assert_eq!(end(&mut c, second, 3), DONE);
    assert_eq!(wake(&mut c, first, 5), DONE);
    assert_eq!(quiet(&mut c, first, 6), DONE);
    assert_eq!(ask(&mut c, second, 2), NO, "a late copy, for which nobody would say that it ends");
    assert_eq!(wake(&mut c, first, 7), DONE);
}

#[test]
fn two_that_hold_and_both_want_to_write_do() {
    for order in [[0, 1], [1, 0]] {
        let (mut c, first, second) = two();
        let both = [first, second];
        both.into_iter().for_each(|session| assert_eq!(ask(&mut c, session, 1), YES));
        let waits = both.map(|session| awaits(&mut c, session));
        both.into_iter().for_each(|session| assert_eq!(wake(&mut c, session, 1), BUSY));
        assert_eq!(waits.map(|tag| c.answer(tag)), [Some(DONE), Some(DONE)]);
        both.into_iter()
            .for_each(|session| assert_eq!(ask(&mut c, session, 2), NO, "each is recalled"));
        for (nth, ends) in order.into_iter().enumerate() {
            assert_eq!(end(&mut c, both[ends], 3), DONE);
            let expected = if nth == 0 { BUSY } else { DONE };
            assert_eq!(wake(&mut c, both[ends], 1), expected, "the other one holds, or not");
            assert_eq!(wake(&mut c, both[1 - ends], 1), DONE);
        }
        both.into_iter()
            .for_each(|session| assert_eq!(ask(&mut c, session, 4), NO, "the other one writes"));
    }
}

/// Nobody can know whether a process that is stopped, or on a machine that cannot be reached,
/// remembers something. But what it remembers ends by itself.
#[test]
fn a_session_of_another_process_holds_for_a_time_after_it_asked() {
    let (mut c, session, writer) = two();
    assert_eq!(ask(&mut c, session, 1), YES);
    for number in 2..7 {
        c.wait(HELD / 2);
        assert_eq!(ask(&mut c, session, number), YES, "asked again in time");
    }
    c.wait(HELD / 2);
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    // It is recalled. A further question prolongs nothing, since its sender would count from it.
    assert_eq!(ask(&mut c, session, 7), NO);
    c.wait(HELD / 2 - SECOND / 10);
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    c.wait(SECOND / 5);
    assert_eq!(wake(&mut c, writer, 1), DONE);
    assert_eq!(ask(&mut c, session, 8), NO);
}

/// A client takes a call that is silent for long for a lost one.
#[test]
fn a_question_of_another_process_whether_it_is_recalled_is_answered_after_a_while() {
    let (mut c, session, writer) = two();
    let waits = awaits(&mut c, session);
    assert_eq!(c.answer(waits), Some(DONE), "it does not hold");
    assert_eq!(ask(&mut c, session, 1), YES);
    for _ in 0..2 {
        let waits = awaits(&mut c, session);
        c.wait(AWAIT_TIME - SECOND / 5);
        assert_eq!(c.answer(waits), None);
        c.wait(SECOND / 5);
        assert_eq!(c.answer(waits), Some(YES), "nobody wants to write");
    }
    let waits = awaits(&mut c, session);
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    assert_eq!(c.answer(waits), Some(DONE));
    // One whose session ends, or that says that it holds nothing, hears at once.
    let (mut c, session, other) = two();
    [session, other].into_iter().for_each(|session| assert_eq!(ask(&mut c, session, 1), YES));
    let waits = [session, other].map(|session| awaits(&mut c, session));
    assert_eq!(end(&mut c, other, 2), DONE);
    assert_eq!(c.answer(waits[1]), Some(DONE));
    assert_eq!(c.answer(waits[0]), None);
}

/// The owner ends a session, or its lease is over. Its kernel has not heard of that.
#[test]
fn a_session_of_another_process_that_is_over_keeps_others_waiting_for_its_time() {
    let (mut c, session, writer) = two();
    assert_eq!(ask(&mut c, session, 1), YES);
    say(&mut c, Op::EndSession(session)).unwrap();
    assert_eq!(ask(&mut c, session, 2), NO, "it is over");
    assert_eq!(wake(&mut c, session, 1), Err(Refusal::NoSession));
    assert_eq!(quiet(&mut c, session, 0), Err(Refusal::NoSession));
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    c.wait(HELD);
    assert_eq!(wake(&mut c, writer, 1), DONE);
}

#[test]
fn a_local_session_that_is_over_keeps_nobody_waiting() {
    let (mut c, session) = cluster(LONG);
    let writer = c.begin_session(Op::OpenSession);
    assert_eq!(ask(&mut c, session, 1), YES);
    let waits = awaits(&mut c, session);
    say(&mut c, Op::EndSession(session)).unwrap();
    assert_eq!(c.answer(waits), Some(DONE));
    assert_eq!(wake(&mut c, writer, 1), DONE);
}

#[test]
fn the_end_of_a_session_that_writes_or_wants_to_lets_others_hold() {
    let (mut c, first, second) = two();
    assert_eq!(wake(&mut c, first, 1), DONE);
    assert_eq!(ask(&mut c, second, 1), NO);
    say(&mut c, Op::EndSession(first)).unwrap();
    c.settle();
    assert_eq!(ask(&mut c, second, 2), YES);
    let third = c.begin_session(Op::OpenSession);
    assert_eq!(wake(&mut c, third, 1), BUSY);
    assert_eq!(end(&mut c, second, 3), DONE);
    assert_eq!(ask(&mut c, second, 4), NO, "one wants to write");
    say(&mut c, Op::EndSession(third)).unwrap();
    assert_eq!(ask(&mut c, second, 5), YES);
}

#[test]
fn after_a_restart_a_session_counts_as_writing_until_it_says_that_it_is_quiet() {
    let (mut c, first, second) = two();
    restart(&mut c, [SHARD_0]);
    c.settle();
    assert_eq!(ask(&mut c, first, 1), NO);
    let old = Said { number: 4, epoch: Epoch(c.epoch - 1) };
    assert_eq!(say(&mut c, Op::Hold(second, Holding::Quiet(old))), DONE);
    assert_eq!(ask(&mut c, first, 2), NO, "it may have written since it said so");
    assert_eq!(quiet(&mut c, second, 2), DONE);
    assert_eq!(ask(&mut c, first, 3), YES);
    assert_eq!(ask(&mut c, second, 1), NO, "the first one has not said so");
}

#[test]
fn after_a_restart_each_session_of_another_process_may_hold() {
    let awake = || {
        let (mut c, first, second) = two();
        [first, second].into_iter().for_each(|session| assert_eq!(ask(&mut c, session, 1), YES));
        let all = c.all();
        restart(&mut c, all);
        c.settle();
        restart(&mut c, [SHARD_0]);
        assert_eq!(wake(&mut c, second, 1), BUSY);
        (c, first, second)
    };
    let (mut c, _, second) = awake();
    c.wait(HELD);
    assert_eq!(wake(&mut c, second, 1), DONE, "its time is over");

    let (mut c, first, second) = awake();
    let old = Said { number: 9, epoch: Epoch(c.epoch - 1) };
    assert_eq!(say(&mut c, Op::Hold(first, Holding::End(old))), DONE);
    assert_eq!(wake(&mut c, second, 1), BUSY, "it may have asked again since");
    assert_eq!(end(&mut c, first, 10), DONE);
    assert_eq!(wake(&mut c, second, 1), DONE, "it says that it does not");

    let (mut c, first, second) = awake();
    c.settle();
    assert_eq!(quiet(&mut c, second, 2), DONE);
    assert_eq!(ask(&mut c, first, 2), YES, "it goes on");
    assert_eq!(wake(&mut c, second, 3), BUSY);
    c.wait(HELD);
    assert_eq!(wake(&mut c, second, 3), DONE);
}

/// The client of a local session ends with the process, and with its kernel's mount.
#[test]
fn after_a_restart_no_local_session_holds() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session, 1), YES);
    let all = c.all();
    restart(&mut c, all);
    let writer = c.begin_session(Op::OpenSession);
    assert_eq!(wake(&mut c, writer, 1), DONE);
    assert_eq!(ask(&mut c, session, 2), NO);
}

/// Beginning anew is no start: what sessions have said is known.
#[test]
fn a_shard_that_begins_anew_knows_who_holds_and_who_writes() {
    let (mut c, first, second) = two();
    let third = c.begin_session(Op::OpenSession);
    assert_eq!(ask(&mut c, first, 1), YES);
    let waits = awaits(&mut c, first);
    begin_anew(&mut c);
    assert_eq!(c.answer(waits), None, "it goes on waiting");
    assert_eq!(ask(&mut c, third, 1), YES, "the others are quiet");
    assert_eq!(end(&mut c, third, 2), DONE);
    assert_eq!(wake(&mut c, second, 1), BUSY);
    assert_eq!(c.answer(waits), Some(DONE));
    begin_anew(&mut c);
    assert_eq!(ask(&mut c, first, 2), NO, "it is recalled still");
    assert_eq!(end(&mut c, first, 3), DONE);
    assert_eq!(wake(&mut c, second, 1), DONE);
    begin_anew(&mut c);
    assert_eq!(ask(&mut c, first, 4), NO);
    assert_eq!(quiet(&mut c, second, 0), DONE, "a late copy");
    assert_eq!(ask(&mut c, first, 5), NO);
    assert_eq!(quiet(&mut c, second, 2), DONE);
    assert_eq!(ask(&mut c, first, 6), YES);
}

/// A client that asks to hold without end keeps no other waiting for longer than its time.
#[test]
fn one_that_asks_again_and_again_keeps_nobody_from_writing() {
    let (mut c, session, writer) = two();
    assert_eq!(ask(&mut c, session, 1), YES);
    let mut waited = 0;
    while wake(&mut c, writer, 1) == BUSY {
        assert!(waited <= HELD, "it takes too long");
        for number in 0..5 {
            c.wait(SECOND / 20);
            assert_ne!(ask(&mut c, session, waited + number), YES);
        }
        waited += SECOND / 4;
    }
    // Somebody wanted to write, and has given up.
    let (mut c, session, writer) = two();
    assert_eq!(ask(&mut c, session, 1), YES);
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    assert_eq!(end(&mut c, session, 2), DONE);
    assert_eq!(ask(&mut c, session, 3), NO);
    c.wait(SECOND);
    assert_eq!(ask(&mut c, session, 4), YES);
}

#[test]
fn only_the_key_of_a_session_says_that_its_kernel_remembers_nothing() {
    let (mut c, session, writer) = two();
    assert_eq!(ask(&mut c, session, 1), YES);
    say(&mut c, Op::EndSession(session)).unwrap();
    let own = std::mem::replace(&mut c.key, OTHER);
    let _ = end(&mut c, session, 2);
    c.key = own;
    assert_eq!(wake(&mut c, writer, 1), BUSY);
    assert_eq!(end(&mut c, session, 3), DONE);
    assert_eq!(wake(&mut c, writer, 1), DONE);
}

/// The client of a local session that holds lives in the shards' own process. What its kernel
/// remembers lasts as long as that process. So no lease may end the session before.
#[test]
fn no_lease_ends_a_local_session_that_holds() {
    let (mut c, session) = cluster(8 * SECOND);
    assert_eq!(ask(&mut c, session, 1), YES);
    c.wait(60 * SECOND);
    assert_eq!(c.counters()[0].sessions_expired, 0);
    assert_eq!(end(&mut c, session, 2), DONE);
    c.wait(60 * SECOND);
    assert_eq!(c.counters()[0].sessions_expired, 1);
}

/// Until all shards have heard that a session is over, some serve it.
#[test]
fn until_every_shard_has_heard_that_a_session_that_wrote_is_over_none_holds() {
    for restarts in [false, true] {
        let (mut c, session) = cluster(LONG);
        c.begin_session(Op::OpenSession);
        let other = c.session;
        assert_eq!(wake(&mut c, other, 1), DONE);
        let ends = c.send(SHARD_0, Op::EndSession(other));
        while c.answer(ends).is_none() {
            assert!(c.step(), "it comes to an end");
        }
        if restarts {
            restart(&mut c, [SHARD_0]);
            c.tick(c.all(), SECOND);
            // Nothing is delivered.
            let says = Holding::Quiet(said(&c, 0));
            assert_eq!(c.ask(SHARD_0, Op::Hold(session, says)), Some(DONE));
        }
        let serves = |c: &Cluster, shard| c.shard(shard).session_keys().any(|it| it.0 == other);
        let mut asked = 0;
        while [1, 2].iter().any(|shard| serves(&c, ShardIndex(*shard))) {
            let glance = c.ask(SHARD_0, Op::Hold(session, Holding::Ask(1)));
            assert_eq!(glance, Some(Ok(Body::Holds(false))), "after {asked} messages");
            asked += 1;
            assert!(c.step(), "both hear of it");
        }
        assert!(asked > 1, "it takes messages");
        c.settle();
        assert_eq!(ask(&mut c, session, 1), YES);
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
        let maker = c.begin_session(Op::OpenSession);
        assert_eq!(wake(&mut c, maker, 1), DONE);
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
    let glance = m.c.ask(SHARD_0, Op::Hold(m.session, Holding::Ask(1)));
    assert_eq!(glance, Some(Ok(Body::Holds(false))), "others may still serve it");
    m.deliver_others();
    assert_eq!(m.c.answer(m.tag), Some(Err(Refusal::NoSession)));
    assert_eq!(ask(&mut m.c, m.session, 1), YES);
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
    assert_eq!(ask(&mut m.c, m.session, 1), YES);
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
