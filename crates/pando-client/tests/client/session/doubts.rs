//! Requests that were given up while it was unknown whether they ran.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pando_client::{Client, Content, Options, Then, WriteError, block_on};
use pando_types::op::{ObjectId, ObjectRange, Op, Payload, Piece, RenameFlags};
use pando_types::reply::{Body, Refusal};
use pando_types::{Errno, Ino, SetAttr};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::make;

pub const MILLISECOND: u64 = 1_000_000;
const PATIENCE: u64 = 50 * MILLISECOND;
/// Number of polls within which everything ends that ends at all.
const POLLS: u32 = 100_000;

/// Drives `client.maintain()` until `is_done`.
pub fn maintain(cluster: &Cluster, client: &Client, mut is_done: impl FnMut() -> bool) {
    let before = std::mem::replace(&mut cluster.state().delay, 1);
    let mut maintain = pin!(client.maintain());
    for _ in 0..POLLS {
        if is_done() {
            cluster.state().delay = before;
            return;
        }
        let polled = maintain.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Pending, "the client is neither closed nor stopped");
    }
    panic!("what must be done is not done");
}

fn create(client: &Client, text: &str, then: Then) -> Result<Ino, Errno> {
    let made = make(client, &name(text), then);
    made.map(|(attr, _)| attr.ino)
}

fn impatient(cluster: &std::sync::Arc<Cluster>, slots: u16) -> Client {
    cluster.client_with(Options { slots, patience: Some(PATIENCE), ..Options::default() })
}

#[test]
pub fn a_request_given_up_is_sent_until_it_is_answered_and_then_its_slot_is_free() {
    for lose_reply in [false, true] {
        let cluster = Cluster::new();
        let client = impatient(&cluster, 1);
        let fate = move || if lose_reply { Fate::LoseReply } else { Fate::LoseRequest };
        cluster.on_request(move |_, _, _| Some(fate()));
        assert_eq!(create(&client, "a", Then::Nothing), Err(Errno::ETIMEDOUT));
        assert_eq!(client.doubts(), 1);
        cluster.on_request(|_, _, _| None);
        cluster.take_log();
        assert_eq!(
            create(&client, "b", Then::Nothing),
            Err(Errno::ETIMEDOUT),
            "there is no other slot"
        );
        assert_eq!(cluster.ops(), [""; 0]);
        assert!(block_on(client.getattr(Ino::ROOT)).is_ok(), "reads need no slot");
        cluster.take_log();
        maintain(&cluster, &client, || client.doubts() == 0);
        let sent = cluster.take_log();
        let again = sent.iter().find(|(_, request)| matches!(request.op, Op::Create { .. }));
        assert_eq!(again.map(|(_, request)| request.head.id.sequence), Some(1));
        assert!(create(&client, "b", Then::Nothing).is_ok());
        assert_eq!(
            create(&client, "a", Then::Nothing),
            Err(Errno::EEXIST),
            "it has run, in the end"
        );
        assert_eq!((client.counters().given_up(), client.counters().resolved()), (1, [0, 1]));
    }
}

#[test]
fn what_was_opened_for_a_caller_that_is_gone_is_released() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 4);
    cluster.on_request(|_, _, _| Some(Fate::LoseReply));
    assert_eq!(create(&client, "a", Then::Open), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    let made = block_on(client.lookup(ROOT, Ino::ROOT, &name("a"))).expect("made").ino;
    assert_eq!(cluster.state().namespace.opens(made), 1);
    cluster.on_request(|_, _, _| Some(Fate::LoseRequest));
    assert_eq!(block_on(client.open(ROOT, made, 4, Content::Kept, None)), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    maintain(&cluster, &client, || {
        client.doubts() == 0 && cluster.state().namespace.opens(made) == 0
    });
    assert!(cluster.ops().iter().filter(|op| *op == "Release").count() == 2);
}

#[test]
pub fn what_is_in_doubt_is_not_changed_by_what_comes_after_it() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 8);
    cluster.on_request(|_, _, _| Some(Fate::LoseRequest));
    assert_eq!(create(&client, "a", Then::Nothing), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    let unlink = |text| block_on(client.unlink(ROOT, Ino::ROOT, &name(text)));
    assert_eq!(unlink("a"), Err(Errno::ETIMEDOUT), "a late create would come over it");
    assert_eq!(unlink("b"), Err(Errno::ENOENT));
    maintain(&cluster, &client, || client.doubts() == 0);
    assert_eq!(unlink("a"), Ok(()));
}

#[test]
fn a_file_is_settled_once_nothing_that_changes_it_is_in_doubt() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 8);
    let a = create(&client, "a", Then::Open).expect("made");
    let b = create(&client, "b", Then::Open).expect("made");
    assert_eq!(block_on(client.settled(a)), Ok(()));
    cluster.on_request(|_, _, _| Some(Fate::LoseRequest));
    let set = SetAttr { size: Some(5), ..SetAttr::default() };
    assert_eq!(block_on(client.setattr(ROOT, a, set)).map(drop), Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    assert_eq!(block_on(client.settled(a)), Err(Errno::ETIMEDOUT));
    assert_eq!(block_on(client.settled(b)), Ok(()));
    maintain(&cluster, &client, || client.doubts() == 0);
    assert_eq!(block_on(client.settled(a)), Ok(()));
}

#[test]
fn an_open_file_is_found_after_a_rename_that_the_client_has_not_heard_of() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 8);
    let ino = create(&client, "a", Then::Open).expect("made");
    cluster.on_request(|_, _, _| Some(Fate::LoseReply));
    let flags = RenameFlags::default();
    let (a, b) = (name("a"), name("b"));
    let renamed = block_on(client.rename(ROOT, Ino::ROOT, &a, Ino::ROOT, &b, flags));
    assert_eq!(renamed, Err(Errno::ETIMEDOUT));
    cluster.on_request(|_, _, _| None);
    assert_eq!(block_on(client.getattr(ino)), Err(Errno::ETIMEDOUT), "it may be on its way");
    maintain(&cluster, &client, || client.doubts() == 0);
    assert_eq!(block_on(client.getattr(ino)).map(|attr| attr.ino), Ok(ino));
    assert_eq!(block_on(client.release(ino)), Ok(()));
}

#[test]
fn a_request_whose_caller_is_gone_is_in_doubt_once_it_was_sent() {
    let cluster = Cluster::new();
    let client = cluster.client_with(Options { slots: 1, patience: None, ..Options::default() });
    create(&client, "first", Then::Nothing).expect("from now on the session is awake");
    cluster.state().delay = 3;
    let (a, b) = (name("a"), name("b"));
    {
        let mut sent = pin!(client.mkdir(ROOT, Ino::ROOT, &a, 0o755));
        let mut waits = pin!(client.mkdir(ROOT, Ino::ROOT, &b, 0o755));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(sent.as_mut().poll(context).is_pending());
        assert!(waits.as_mut().poll(context).is_pending());
    }
    cluster.state().delay = 0;
    assert_eq!(client.doubts(), 1, "the other one never left");
    maintain(&cluster, &client, || client.doubts() == 0);
    let look = |name| block_on(client.lookup(ROOT, Ino::ROOT, name)).map(drop);
    assert_eq!((look(&a), look(&b)), (Ok(()), Err(Errno::ENOENT)));
}

#[test]
fn an_open_file_is_found_after_an_exchange_though_no_shard_could_be_asked_for_it() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 8);
    let (a, b) =
        (create(&client, "a", Then::Open).expect("made"), create(&client, "b", Then::Open));
    let b = b.expect("made");
    cluster.on_request(|_, _, request| {
        matches!(request.op, Op::Lookup(..)).then_some(Fate::LoseRequest)
    });
    let flags = RenameFlags { exchange: true, no_replace: false };
    let (old, new) = (name("a"), name("b"));
    assert_eq!(block_on(client.rename(ROOT, Ino::ROOT, &old, Ino::ROOT, &new, flags)), Ok(()));
    for ino in [a, b] {
        assert_eq!(block_on(client.getattr(ino)).map(|attr| attr.ino), Ok(ino));
    }
}

#[test]
fn maintenance_of_a_closed_client_ends_whatever_is_in_doubt() {
    let cluster = Cluster::new();
    let client = impatient(&cluster, 2);
    cluster.on_request(|_, _, request| {
        (!matches!(request.op, Op::EndSession(_))).then_some(Fate::LoseRequest)
    });
    assert_eq!(create(&client, "a", Then::Nothing), Err(Errno::ETIMEDOUT));
    cluster.state().delay = 1;
    let mut maintain = pin!(client.maintain());
    let context = &mut Context::from_waker(Waker::noop());
    for _ in 0..10 {
        assert!(maintain.as_mut().poll(context).is_pending());
    }
    assert_eq!(block_on(client.close()), Ok(()));
    assert!(maintain.as_mut().poll(context).is_ready());
    assert_eq!(client.doubts(), 1, "nobody will ever know");
}

#[test]
fn objects_of_a_write_in_doubt_are_unneeded_once_it_is_known_that_it_was_not_made() {
    let object = ObjectId((1 << 64) + 7);
    let range =
        ObjectRange { object, offset: 0, len: 9, object_len: 9, store: 0, key: 0, codec: 0 };
    let piece = Piece { offset: 0, payload: Payload::Object(range) };
    for (answer, is_needed) in [
        (Err(Refusal::DataChanged), false),
        (Err(Refusal::NotUnderName), false),
        (Err(Refusal::Errno(Errno::ENOSPC)), false),
        (Ok(()), true),
        // It may have run before.
        (Err(Refusal::Answered), true),
        (Err(Refusal::Errno(Errno::EIO)), true),
        (Err(Refusal::NoSession), true),
    ] {
        let cluster = Cluster::new();
        let client = impatient(&cluster, 8);
        let ino = create(&client, "a", Then::Open).expect("made");
        let attr = block_on(client.getattr(ino)).expect("made");
        cluster.on_request(|_, _, _| Some(Fate::LoseRequest));
        let written = block_on(client.write_data(ino, None, vec![piece.clone()], None, None));
        assert_eq!(written.map(drop), Err(WriteError::Unsure(Errno::ETIMEDOUT)));
        assert!(client.unneeded().is_empty(), "nobody knows");
        let told = answer.clone().map(|()| Body::Attr(attr));
        cluster.on_request(move |_, _, request| {
            matches!(request.op, Op::WriteData { .. }).then(|| Fate::Answer(told.clone()))
        });
        maintain(&cluster, &client, || client.doubts() == 0);
        let expected = if is_needed { vec![] } else { vec![object] };
        assert_eq!((client.unneeded(), client.unneeded()), (expected, vec![]), "{answer:?}");
    }
}
