//! Connections of different keys: neither gets a reply that is the other's.

use std::sync::{Arc, Condvar, Mutex};

use pando_server::host::connection::{Asked, ReplySink};
use pando_types::op::{MAX_SLOTS, Op, Request, RequestId};
use pando_types::reply::{Body, Improper, Refusal, Reply};
use pando_types::{KeyId, SessionId, ShardIndex};

use crate::{LONG, Served, Volume, mkdir, request};

const HERE: ShardIndex = ShardIndex(0);

/// The replies to one connection, by stream. `None`: the call ended without a reply.
struct Connection {
    key: KeyId,
    told: Mutex<Vec<(u64, Option<Reply>)>>,
    is_told: Condvar,
}

impl ReplySink for Connection {
    fn key(&self) -> KeyId {
        self.key
    }

    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool {
        self.told.lock().unwrap().push((asked.stream, reply.cloned()));
        self.is_told.notify_all();
        false
    }

    fn flush(&self) {}
}

impl Connection {
    fn new(key: u64) -> Arc<Self> {
        Arc::new(Self { key: KeyId(key), told: Mutex::default(), is_told: Condvar::new() })
    }

    /// Puts requests into the shard's inbox without running it. Each request has a stream of its
    /// own.
    fn put(self: &Arc<Self>, served: &Served, requests: Vec<Request>) {
        let sink: Arc<dyn ReplySink> = self.clone();
        let asked = |stream| Asked { stream, bytes: 1, reply: 1 };
        let numbered = (0..).zip(requests);
        let mut requests = numbered.map(|(stream, it)| (asked(stream), it)).collect();
        served.host.submit(HERE, &sink, &mut requests);
    }

    fn ask(self: &Arc<Self>, served: &Served, id: RequestId, op: Op) -> Result<Body, Refusal> {
        self.put(served, vec![request(id, op)]);
        served.host.run(HERE);
        self.take(1).remove(0)
    }

    /// The results of `count` replies. Some come after a sync, from the syncer's thread.
    fn take(&self, count: usize) -> Vec<Result<Body, Refusal>> {
        let told = self.told.lock().unwrap();
        let (mut told, timeout) =
            self.is_told.wait_timeout_while(told, LONG, |told| told.len() < count).unwrap();
        assert!(!timeout.timed_out() && told.len() == count, "{told:?}");
        told.drain(..).map(|(_, reply)| reply.expect("there is a reply").result).collect()
    }

    fn session(self: &Arc<Self>, served: &Served) -> SessionId {
        match self.ask(served, RequestId::default(), Op::OpenSession) {
            Ok(Body::Session(session)) => session,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_foreign_session_is_none_and_that_is_counted() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let (honest, liar) = (Connection::new(1), Connection::new(2));
    let session = honest.session(&served);
    let id = RequestId { session, slot: 3, sequence: 1 };
    for op in [mkdir("stolen"), Op::EndSession(session), Op::Renew(session)] {
        assert_eq!(liar.ask(&served, id, op), Err(Refusal::NoSession));
    }
    assert_eq!(served.counter("shard_foreign_sessions"), 3);
    assert!(matches!(honest.ask(&served, id, mkdir("own")), Ok(Body::Made(..))));
    assert!(matches!(honest.ask(&served, id, mkdir("own")), Ok(Body::Made(..))), "repeated");
}

/// Both requests are in one batch, under one id. Each connection gets its own reply.
#[test]
fn a_request_of_the_same_identity_takes_no_other_keys_answer() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let (honest, liar) = (Connection::new(1), Connection::new(2));
    let session = honest.session(&served);
    let id = RequestId { session, slot: 3, sequence: 1 };
    honest.put(&served, vec![request(id, mkdir("a"))]);
    liar.put(&served, vec![request(id, mkdir("a"))]);
    served.host.run(HERE);
    assert!(matches!(&honest.take(1)[..], [Ok(Body::Made(..))]));
    assert_eq!(liar.take(1), [Err(Refusal::NoSession)]);
}

#[test]
fn each_improper_request_is_counted_by_its_kind() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    let liar = Connection::new(2);
    let session = liar.session(&served);
    let id = RequestId { session, slot: 3, sequence: 1 };
    let many = vec![pando_types::op::ObjectId(1); pando_types::op::GARBAGE_MAX + 1];
    for (id, op, improper) in [
        (RequestId::default(), mkdir("a"), Improper::Unnumbered),
        (RequestId { slot: MAX_SLOTS, ..id }, mkdir("a"), Improper::Slot),
        (id, Op::AddShard(ShardIndex(1)), Improper::NotOwner),
        (id, Op::GarbageDone(HERE, many), Improper::TooMuch),
    ] {
        let name = format!("shard_improper_{}", improper.name());
        assert_eq!(served.counter(&name), 0);
        assert_eq!(liar.ask(&served, id, op), Err(improper.into()));
        assert_eq!(served.counter(&name), 1);
    }
}
