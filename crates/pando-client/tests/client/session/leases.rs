//! Sessions that end before their client does.

use pando_client::{Content, Options, Then, WriteError, block_on};
use pando_types::op::{ObjectId, ObjectRange, Op, Payload, Piece, Request, RequestId};
use pando_types::reply::{Body, Improper, Layout, Refusal, Slice};
use pando_types::{Attr, Errno, Ino, SessionId};

use crate::fake::namespace::LEASE;
use crate::fake::{Cluster, Fate, ROOT, name};
use crate::session::doubts::{MILLISECOND, maintain};
use crate::walks::remembered::{deep, mv, paths};
use crate::walks::routing::make;

const FIRST: SessionId = SessionId(1);
const SECOND: SessionId = SessionId(2);

#[test]
fn a_request_refused_for_its_session_runs_in_the_next_one() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.take_log();
    cluster.expire(FIRST);
    assert!(block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).is_ok());
    let sent: Vec<_> = cluster.take_log().into_iter().map(|(_, request)| request).collect();
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[1].op, Op::OpenSession);
    let id = |session| RequestId { session, slot: 0, sequence: 1 };
    assert_eq!((sent[0].head.id, sent[2].head.id), (id(FIRST), id(SECOND)));
    assert_eq!(client.session(), SECOND);
}

#[test]
fn a_request_that_may_have_run_in_a_session_that_is_over_fails() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let mut is_first = true;
    cluster.on_request(move |_, _, _| std::mem::take(&mut is_first).then_some(Fate::LoseReply));
    cluster.state().on_sleep = Some(Box::new(move |state| state.expire(FIRST)));
    let made = block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755));
    assert_eq!(made.map(drop), Err(Errno::EIO));
    assert_eq!(client.doubts(), 0, "it cannot run any more");
    let again = block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755));
    assert_eq!(again.map(drop), Err(Errno::EEXIST), "the client goes on");
    assert_eq!(client.counters().sessions(), 2);
}

#[test]
pub fn what_is_open_is_opened_anew_before_anything_else_is_changed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let create = |text| {
        let made = make(&client, &name(text), Then::Open);
        made.expect("made").0.ino
    };
    let (a, b, gone) = (create("a"), create("b"), create("gone"));
    block_on(client.open(ROOT, a, 4, Content::Kept, None)).expect("opened");
    block_on(client.unlink(ROOT, Ino::ROOT, &name("gone"))).expect("removed, and still open");
    cluster.take_log();
    cluster.expire(FIRST);
    block_on(client.unlink(ROOT, Ino::ROOT, &name("b"))).expect("removed");
    let opens = |ino| cluster.state().namespace.opens(ino);
    assert_eq!((opens(a), opens(b)), (1, 1), "once each, and what was removed lives");
    assert_eq!(block_on(client.getattr(b)).map(|attr| attr.nlink), Ok(0));
    assert_eq!(block_on(client.getattr(gone)), Err(Errno::ESTALE));
    let order: Vec<_> = cluster.ops();
    assert_eq!(order[..2], ["Unlink", "OpenSession"]);
    let last_open = order.iter().rposition(|op| op == "Open").expect("opened");
    let unlink = order.iter().rposition(|op| op == "Unlink").expect("repeated");
    assert!(last_open < unlink, "{order:?}");

    assert_eq!(block_on(client.release(a)), Ok(()));
    assert_eq!(opens(a), 1, "it is still open here");
    assert_eq!(block_on(client.release(a)), Ok(()));
    assert_eq!(block_on(client.release(b)), Ok(()));
    assert_eq!(block_on(client.release(gone)), Ok(()));
    assert_eq!((opens(a), opens(b)), (0, 0));
}

#[test]
fn a_release_in_a_session_that_is_over_is_done() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = make(&client, &name("a"), Then::Open);
    let ino = made.expect("made").0.ino;
    cluster.take_log();
    cluster.expire(FIRST);
    assert_eq!(block_on(client.release(ino)), Ok(()));
    assert_eq!(cluster.ops(), ["Release"]);
    assert_eq!(block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).map(drop), Ok(()));
    assert_eq!(cluster.ops(), ["OpenSession", "Mkdir"], "nothing is open");
}

#[test]
fn many_callers_share_one_new_session() {
    let cluster = Cluster::new();
    let client = cluster.client_with(Options { slots: 2, patience: None, ..Options::default() });
    cluster.state().delay = 2;
    cluster.expire(FIRST);
    cluster.take_log();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = &client;
            scope.spawn(move || {
                let name = name(&thread.to_string());
                let made = make(client, &name, Then::Open);
                assert!(made.expect("made").1);
            });
        }
    });
    assert_eq!(cluster.ops().iter().filter(|op| *op == "OpenSession").count(), 1);
}

#[test]
fn an_idle_client_renews_its_lease_three_times_in_its_length() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.take_log();
    let is_third = |cluster: &Cluster| cluster.state().log.len() >= 3;
    // Time passes while a client sleeps.
    cluster.state().nanos_a_poll = LEASE / 64;
    maintain(&cluster, &client, || is_third(&cluster));
    let slept = std::mem::take(&mut cluster.state().slept);
    let longest = slept.iter().filter(|nanos| **nanos >= LEASE / 3).collect::<Vec<_>>();
    assert!(longest.len() > 1 && longest.iter().all(|nanos| **nanos == LEASE / 3), "{slept:?}");
    assert_eq!(cluster.ops(), ["Renew"; 3]);
}

/// Lease renewals carry newer versions, so that an idle client learns early
/// (docs/design/path-versions.md).
#[test]
fn an_idle_client_hears_with_its_renewal_what_others_have_renamed() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 4);
    let (client, other) = (cluster.client(), cluster.client());
    let file = format!("{dir}/file");
    let stat = || block_on(paths(&client).stat(file.as_bytes()));
    assert_eq!(stat(), Err(Errno::ENOENT));
    mv(&other, "/0/1", "/0/moved");
    cluster.take_log();
    assert_eq!(
        (client.path_stats().directories, client.path_stats().drops),
        (4, 0),
        "nobody has told it"
    );
    maintain(&cluster, &client, || client.path_stats().drops > 0);
    assert_eq!(cluster.ops(), ["Renew"], "nothing else was asked");
    assert_eq!(
        (client.path_stats().directories, client.path_stats().drops),
        (1, 3),
        "what is above stays"
    );
    assert_eq!(stat(), Err(Errno::ENOENT));
    assert_eq!(client.path_stats().refusals, 0, "no path was taken that has changed");
}

#[test]
fn an_idle_client_whose_session_is_over_begins_the_next_and_keeps_what_is_open() {
    let cluster = Cluster::new();
    let patience = Some(50 * MILLISECOND);
    let client = cluster.client_with(Options { slots: 2, patience, ..Options::default() });
    let made = make(&client, &name("a"), Then::Open);
    let ino = made.expect("made").0.ino;
    cluster.expire(FIRST);
    assert_eq!(cluster.state().namespace.opens(ino), 0);
    maintain(&cluster, &client, || client.session() == SECOND);
    assert_eq!(cluster.state().namespace.opens(ino), 1);
}

#[test]
fn maintenance_ends_with_the_client() {
    let cluster = Cluster::new();
    let client = cluster.client();
    assert_eq!(block_on(client.close()), Ok(()));
    block_on(client.maintain());
    let other = cluster.client();
    cluster.on_request(|_, _, _| Some(Fate::Stop));
    block_on(other.maintain());
}

/// A request may name objects of a session that is over, which only that session might put. The
/// caller that stores contents must then store them again, as an object of the next session.
#[test]
fn an_object_of_a_session_that_is_over_is_stored_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = make(&client, &name("a"), Then::Open);
    let ino = made.expect("made").0.ino;
    let object = client.new_object();
    assert_eq!(object.session(), FIRST);
    let is_foreign = |request: &Request| {
        match &request.op {
        Op::WriteData { pieces, .. } => pieces.iter().any(|piece| {
            matches!(&piece.payload, Payload::Object(of) if of.object.session() != request.head.id.session)
        }),
        _ => false,
    }
    };
    // The answer that shards give.
    cluster.on_request(move |_, _, request| {
        is_foreign(request).then(|| Fate::Answer(Err(Improper::ForeignObject.into())))
    });
    cluster.expire(FIRST);
    let range =
        ObjectRange { object, offset: 0, len: 1, object_len: 1, store: 0, key: 0, codec: 0 };
    let pieces = vec![Piece { offset: 0, payload: Payload::Object(range) }];
    let written = block_on(client.write_data(ino, None, pieces, None, None));
    assert_eq!(written, Err(WriteError::DataChanged));
    assert_eq!(client.new_object().session(), SECOND);
}

#[test]
fn what_a_shard_takes_for_no_proper_request_is_an_error_that_tells() {
    for (improper, errno) in [
        (Improper::NotOwner, Errno::EPERM),
        (Improper::TooMuch, Errno::EINVAL),
        (Improper::Sessions, Errno::EAGAIN),
    ] {
        let cluster = Cluster::new();
        let client = cluster.client();
        cluster.on_request(move |_, _, _| Some(Fate::Answer(Err(improper.into()))));
        let answer = block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755));
        assert_eq!(answer.map(drop), Err(errno));
    }
}

#[test]
fn a_session_that_another_client_has_ended_is_closed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.on_request(|_, _, request| {
        matches!(request.op, Op::EndSession(_)).then_some(Fate::Answer(Err(Refusal::NoSession)))
    });
    assert_eq!(block_on(client.close()), Ok(()));
}

/// A layout of very many slices comes in parts. If the file changes in between, the client asks for
/// all of it anew.
#[test]
fn a_layout_that_comes_in_parts_is_one() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = make(&client, &name("a"), Then::Open);
    let attr = Attr { size: 30, ..made.expect("made").0 };
    let ino = attr.ino;
    let slice = |offset| {
        let object = ObjectId(u128::from(offset));
        let range =
            ObjectRange { object, offset: 0, len: 10, object_len: 10, store: 0, key: 0, codec: 0 };
        Slice { offset, range }
    };
    let mut asked = 0;
    cluster.on_request(move |_, _, request| {
        let Op::ReadData { offset, .. } = request.op else { return None };
        asked += 1;
        // After the second answer the file has another version.
        let attr = Attr { data_version: if asked < 3 { 7 } else { 8 }, ..attr.clone() };
        let until = if offset < 20 { offset + 10 } else { u64::MAX };
        let slices = vec![slice(offset)];
        let layout = Layout { attr, is_inline: false, inline: Vec::new(), slices, until };
        Some(Fate::Answer(Ok(Body::Layout(layout))))
    });
    let layout = block_on(client.read_data(ino, 0, 1_000)).expect("read");
    let offsets: Vec<_> = layout.slices.iter().map(|slice| slice.offset).collect();
    assert_eq!((offsets, layout.attr.data_version), (vec![0, 10, 20], 8));
}

/// A faulty shard answers with parts that do not go on. The read fails instead of asking for ever.
#[test]
fn a_layout_that_does_not_go_on_is_an_error() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = make(&client, &name("a"), Then::Open);
    let attr = Attr { size: 30, data_version: 7, ..made.expect("made").0 };
    let ino = attr.ino;
    cluster.on_request(move |_, _, request| {
        let Op::ReadData { .. } = request.op else { return None };
        let (attr, slices) = (attr.clone(), Vec::new());
        let layout = Layout { attr, is_inline: false, inline: Vec::new(), slices, until: 10 };
        Some(Fate::Answer(Ok(Body::Layout(layout))))
    });
    assert_eq!(block_on(client.read_data(ino, 0, 1_000)).map(drop), Err(Errno::EIO));
}

/// The disk of shard 0 is full, or has failed, for a while. `maintain` goes on, and renews the
/// session that is opened in the end.
#[test]
fn a_session_that_is_refused_for_a_while_is_opened_and_renewed_in_the_end() {
    for errno in [Errno::EIO, Errno::ENOSPC] {
        let cluster = Cluster::new();
        let client = cluster.client();
        let mut refusals = 3;
        cluster.on_request(move |_, _, request| {
            let refuses = matches!(request.op, Op::OpenSession) && refusals > 0;
            refusals -= u32::from(refuses);
            refuses.then_some(Fate::Answer(Err(Refusal::Errno(errno))))
        });
        cluster.expire(FIRST);
        cluster.take_log();
        maintain(&cluster, &client, || client.session() == SECOND);
        let renewed = Op::Renew(SECOND);
        maintain(&cluster, &client, || {
            cluster.take_log().iter().any(|(_, request)| request.op == renewed)
        });
    }
}
