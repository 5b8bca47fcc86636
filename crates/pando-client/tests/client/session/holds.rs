//! A session says to shard 0 that it wants to write before its first change, and that it is quiet
//! when it has changed nothing for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pando_client::{Client, Options, Then, block_on};
use pando_types::hold::{Holding, Said};
use pando_types::op::Op;
use pando_types::reply::Refusal;
use pando_types::{Epoch, Errno, Ino};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::session::doubts::{MILLISECOND, maintain};
use crate::walks::routing::make;

const SECOND: u64 = 1_000 * MILLISECOND;

fn shown() -> Arc<Cluster> {
    let cluster = Cluster::new();
    cluster.state().shows_holds = true;
    // A second takes twenty polls.
    cluster.state().nanos_a_poll = 50 * MILLISECOND;
    cluster
}

fn impatient(cluster: &Arc<Cluster>) -> Client {
    let patience = Some(200 * MILLISECOND);
    let client = cluster.client_with(Options { patience, ..Options::default() });
    cluster.take_log();
    client
}

fn create(client: &Client, text: &str) -> Result<Ino, Errno> {
    make(client, &name(text), Then::Nothing).map(|(attr, _)| attr.ino)
}

/// What the client has said of holds since the log was taken last.
fn said(cluster: &Cluster) -> Vec<Holding> {
    let log = cluster.take_log().into_iter();
    log.filter_map(|(_, request)| match request.op {
        Op::Hold(_, says) => Some(says),
        _ => None,
    })
    .collect()
}

fn is_wake(op: &Op) -> bool {
    matches!(op, Op::Hold(_, Holding::Wake(_)))
}

fn quiet(number: u64, epoch: u64) -> Holding {
    Holding::Quiet(Said { number, epoch: Epoch(epoch) })
}

/// Lets a maintained client look so often whether it changes anything: each second.
fn be(cluster: &Cluster, client: &Client, looks: usize) {
    be_and(cluster, client, looks, |_| {});
}

/// The same. After each look, `happens` is called.
fn be_and(cluster: &Cluster, client: &Client, looks: usize, mut happens: impl FnMut(usize)) {
    let sleeps = || cluster.state().slept.iter().filter(|nanos| **nanos == SECOND).count();
    let before = sleeps();
    let mut seen = 0;
    maintain(cluster, client, || {
        // The first sleep begins before the first look.
        let looked = (sleeps() - before).saturating_sub(1);
        if looked > seen {
            seen = looked;
            happens(looked);
        }
        looked >= looks
    });
}

#[test]
pub fn before_its_first_change_a_session_waits_until_it_may_write() {
    let cluster = shown();
    let client = impatient(&cluster);
    assert_eq!(block_on(client.getattr(Ino::ROOT)).map(|attr| attr.ino), Ok(Ino::ROOT));
    assert_eq!(said(&cluster), [], "it reads");
    cluster.state().busy = 3;
    create(&client, "a").expect("made");
    let sent: Vec<_> = cluster.ops().into_iter().take(5).collect();
    assert_eq!(sent, ["Hold", "Hold", "Hold", "Hold", "Create"], "it waits");
    create(&client, "b").expect("made");
    assert_eq!(said(&cluster), [], "it is awake");
}

#[test]
fn a_change_that_may_not_be_made_in_time_is_never_sent() {
    let cluster = shown();
    let client = impatient(&cluster);
    cluster.state().busy = u32::MAX;
    assert_eq!(create(&client, "a"), Err(Errno::ETIMEDOUT));
    assert!(cluster.take_log().iter().all(|(_, request)| is_wake(&request.op)));
    assert_eq!(client.doubts(), 0);
    // Opens and releases need no other mount to forget.
    cluster.state().busy = 0;
    let a = create(&client, "a").expect("made");
    let other = impatient(&cluster);
    cluster.state().busy = u32::MAX;
    let found = block_on(other.lookup(ROOT, Ino::ROOT, &name("a"))).expect("made").ino;
    assert_eq!(found, a);
    let opened = block_on(other.open(ROOT, a, 4, pando_client::Content::Kept, None));
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(block_on(other.release(a)), Ok(()));
}

#[test]
fn a_lost_answer_to_a_wake_is_asked_for_again() {
    let cluster = shown();
    let client = impatient(&cluster);
    let losses = AtomicU32::new(2);
    cluster.on_request(move |_, _, request| {
        let is_lost = is_wake(&request.op) && losses.load(Ordering::Relaxed) > 0;
        is_lost.then(|| {
            losses.fetch_sub(1, Ordering::Relaxed);
            Fate::LoseReply
        })
    });
    create(&client, "a").expect("made");
    assert_eq!(said(&cluster), [Holding::Wake(1); 3]);
}

#[test]
fn a_session_that_changes_nothing_for_a_while_goes_quiet() {
    let cluster = shown();
    let client = impatient(&cluster);
    be(&cluster, &client, 10);
    assert_eq!(said(&cluster), [], "shard 0 knows that a new session is quiet");
    create(&client, "a").expect("made");
    assert_eq!(said(&cluster), [Holding::Wake(1)]);
    be_and(&cluster, &client, 8, |looked| {
        if looked == 4 {
            create(&client, "b").expect("made");
        }
    });
    assert_eq!(said(&cluster), [], "it was used");
    be(&cluster, &client, 8);
    assert_eq!(said(&cluster), [quiet(2, 1)]);
    be(&cluster, &client, 8);
    assert_eq!(said(&cluster), [], "that was heard");
    create(&client, "c").expect("made");
    assert_eq!(said(&cluster), [Holding::Wake(3)]);
    // Shard 0 may have heard one that its caller has given up.
    be(&cluster, &client, 8);
    assert_eq!(said(&cluster), [quiet(4, 1)]);
    cluster.on_request(|_, _, request| is_wake(&request.op).then_some(Fate::LoseReply));
    assert_eq!(create(&client, "d"), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    cluster.take_log();
    be(&cluster, &client, 8);
    assert_eq!(said(&cluster), [quiet(6, 1)]);
}

#[test]
fn each_start_of_shard_0_hears_that_a_session_is_quiet_and_that_it_holds_nothing() {
    let cluster = shown();
    let client = impatient(&cluster);
    be(&cluster, &client, 3);
    assert_eq!(said(&cluster), []);
    cluster.state().epoch = 2;
    be(&cluster, &client, 3);
    let end = Holding::End(Said { number: 1, epoch: Epoch(2) });
    assert_eq!(said(&cluster), [quiet(0, 2), end]);
    // One that holds does not say that it does not.
    assert_eq!(block_on(client.ask_to_hold()), Ok(true));
    cluster.state().epoch = 3;
    assert_eq!(block_on(client.is_recalled()), Ok(false));
    cluster.take_log();
    be(&cluster, &client, 5);
    assert_eq!(said(&cluster), [quiet(0, 3)]);
    assert_eq!(block_on(client.end_hold()), Ok(()));
    let ended = said(&cluster);
    let is_newer = |says: &Holding| match says {
        Holding::End(said) => said.number > 2 && said.epoch == Epoch(3),
        _ => false,
    };
    assert!(ended.len() == 1 && ended.iter().all(is_newer), "{ended:?}");
    assert_eq!(block_on(client.end_hold()), Ok(()));
    assert_eq!(said(&cluster), [], "it holds nothing");
}

#[test]
fn a_request_in_doubt_keeps_its_session_awake() {
    let cluster = shown();
    let client = impatient(&cluster);
    create(&client, "a").expect("made");
    cluster.on_request(|_, _, request| {
        matches!(request.op, Op::Create { .. }).then_some(Fate::LoseReply)
    });
    assert_eq!(create(&client, "b"), Err(Errno::ETIMEDOUT));
    assert_eq!(client.doubts(), 1);
    cluster.take_log();
    be(&cluster, &client, 20);
    assert_eq!((said(&cluster), client.doubts()), (vec![], 1), "it may run yet");
    cluster.on_request(|_, _, _| None);
    be(&cluster, &client, 10);
    assert_eq!((said(&cluster), client.doubts()), (vec![quiet(2, 1)], 0));
}

#[test]
fn the_next_session_wakes_anew() {
    let cluster = shown();
    let client = impatient(&cluster);
    create(&client, "a").expect("made");
    let first = client.session();
    cluster.expire(first);
    cluster.take_log();
    create(&client, "b").expect("made in the next session");
    let sessions: Vec<_> = cluster
        .take_log()
        .into_iter()
        .filter_map(|(_, request)| match request.op {
            Op::Hold(session, Holding::Wake(number)) => Some((session, number)),
            _ => None,
        })
        .collect();
    assert_eq!(sessions, [(client.session(), 1)]);
    assert_ne!(client.session(), first);
    // A session that is over is not woken.
    let second = client.session();
    be(&cluster, &client, 8);
    cluster.on_request(move |_, _, request| {
        let is_its = matches!(request.op, Op::Hold(session, Holding::Wake(_)) if session == second);
        is_its.then_some(Fate::Answer(Err(Refusal::NoSession)))
    });
    create(&client, "c").expect("made in the next session");
    assert_ne!(client.session(), second);
}
