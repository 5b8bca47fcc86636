//! A session that is the only one, and what becomes of that when another wants to begin (docs/design/alone.md).

use pando_types::op::{Alone, Op, RequestId};
use pando_types::reply::{Body, Refusal};
use pando_types::{Errno, SessionId, ShardIndex};

use crate::support::Cluster;

const SECOND: u64 = 1_000_000_000;
const COORDINATOR: ShardIndex = ShardIndex(0);
const BUSY: Result<Body, Refusal> = Err(Refusal::Errno(Errno::EBUSY));

/// Longer than any test waits.
const LONG: u64 = 3600 * SECOND;

/// A cluster whose only session is local.
fn cluster(lease: u64) -> (Cluster, SessionId) {
    let mut c = Cluster::with_lease(3, 100, lease);
    let first = c.session();
    c.begin_local_session();
    let session = c.session();
    say(&mut c, Op::EndSession(first)).unwrap();
    (c, session)
}

/// A request that no session numbers, as all about sessions themselves.
fn say(c: &mut Cluster, op: Op) -> Result<Body, Refusal> {
    c.run_as(COORDINATOR, RequestId::default(), op)
}

fn ask(c: &mut Cluster, session: SessionId) -> Result<Body, Refusal> {
    say(c, Op::Alone(session, Alone::Ask))
}

#[test]
fn only_the_only_session_is_alone_and_only_if_it_is_local() {
    let (mut c, session) = cluster(LONG);
    c.begin_session();
    let other = c.session();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)), "there is another one");
    assert_eq!(ask(&mut c, other), Err(Refusal::Errno(Errno::EPERM)), "it may outlive the shards");
    say(&mut c, Op::EndSession(other)).unwrap();
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "asked again");
    let elsewhere = c.run_as(ShardIndex(1), RequestId::default(), Op::Alone(session, Alone::Ask));
    assert_eq!(elsewhere, Err(Refusal::Errno(Errno::EINVAL)));
}

#[test]
fn another_session_begins_only_when_the_one_alone_says_that_it_is_not() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    let awaits = c.start(COORDINATOR, Op::Alone(session, Alone::Await), None);
    assert_eq!(c.answer(awaits), None, "nobody wants to begin");
    assert_eq!(say(&mut c, Op::OpenSession), BUSY);
    assert_eq!(c.answer(awaits), Some(Ok(Body::Done)), "now somebody does");
    // The one alone takes its time.
    assert_eq!(say(&mut c, Op::OpenSession), BUSY);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)), "it is, until it says so");
    let again = c.start(COORDINATOR, Op::Alone(session, Alone::Await), None);
    assert_eq!(c.answer(again), Some(Ok(Body::Done)), "it is recalled still");
    for _ in 0..2 {
        assert_eq!(say(&mut c, Op::Alone(session, Alone::End)), Ok(Body::Done));
    }
    let begun = say(&mut c, Op::OpenSession);
    assert!(matches!(begun, Ok(Body::Session(_))), "{begun:?}");
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
}

#[test]
fn while_a_session_begins_or_ends_on_other_shards_nobody_is_alone() {
    let (mut c, session) = cluster(LONG);
    let mut op = Op::OpenSession;
    for _ in 0..2 {
        let under_way = c.start(COORDINATOR, op.clone(), None);
        let mut asked = 0;
        let answer = loop {
            if let Some(answer) = c.answer(under_way) {
                break answer;
            }
            let glance = c.glance(COORDINATOR, Op::Alone(session, Alone::Ask));
            assert_ne!(glance, Some(Ok(Body::Alone(true))), "{op:?} under way");
            asked += 1;
            assert!(c.step(), "it comes to an end");
        };
        assert!(asked > 1, "{op:?} takes messages");
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

/// Its client is in the shards' own process. What its kernel remembers lasts for as long as that, so no lease may end it before.
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
fn after_a_restart_nobody_is_alone() {
    let (mut c, session) = cluster(LONG);
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(true)));
    c.restart_at_once();
    let begun = say(&mut c, Op::OpenSession);
    assert!(matches!(begun, Ok(Body::Session(_))), "{begun:?}");
    assert_eq!(ask(&mut c, session), Ok(Body::Alone(false)));
}
