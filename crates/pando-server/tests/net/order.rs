//! Requests that are overtaken or repeated on their way. Each changes something once, or never.

use pando_types::op::{Op, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{DirRef, Errno, Name, ShardIndex};

use crate::{Client, Volume, mkdir, open_session, request, run};

async fn answer(client: &mut Client, id: RequestId, op: Op) -> Reply {
    client.send_as(5, request(id, op));
    let (stream, reply) = client.reply().await.unwrap();
    assert_eq!((stream, reply.id), (5, id));
    reply
}

#[test]
fn a_request_that_its_successor_has_overtaken_is_refused_and_does_nothing() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let session = open_session(&served).await;
        let mut first = served.client(&served.tcp()).await;
        let mut second = served.client(&served.unix()).await;
        let id = |slot, sequence| RequestId { session, slot, sequence };
        // Request slot 3: both requests come on one connection, before any is answered.
        first.send_as(2, request(id(3, 2), mkdir("newer-3")));
        first.send_as(1, request(id(3, 1), mkdir("older-3")));
        let mut made = None;
        for _ in 0..2 {
            match first.reply().await.unwrap() {
                (2, reply) => made = Some(reply),
                (_, reply) => assert_eq!(reply.result, Err(Refusal::Answered)),
            }
        }
        let made = made.unwrap();
        assert!(matches!(made.result, Ok(Body::Made(..))), "{made:?}");
        // Request slot 4: the older request comes by another connection.
        let newer = answer(&mut first, id(4, 2), mkdir("newer-4")).await;
        assert!(matches!(newer.result, Ok(Body::Made(..))), "{newer:?}");
        let older = answer(&mut second, id(4, 1), mkdir("older-4")).await;
        assert_eq!(older.result, Err(Refusal::Answered));
        // A repetition gets the first answer again, by whichever connection it comes.
        for client in [&mut first, &mut second] {
            let again = answer(client, id(3, 2), mkdir("newer-3")).await;
            assert_eq!(again.result, made.result);
        }
        for (name, is_there) in
            [("newer-3", true), ("older-3", false), ("newer-4", true), ("older-4", false)]
        {
            let lookup = Op::Lookup(DirRef::ROOT, Name::new(name.as_bytes()).unwrap());
            let found = answer(&mut second, RequestId::default(), lookup).await.result;
            assert_eq!(found.is_ok(), is_there, "{name}: {found:?}");
            assert!(is_there || found == Err(Refusal::Errno(Errno::ENOENT)), "{name}: {found:?}");
        }
        let stat = answer(&mut second, RequestId::default(), Op::StatFs(ShardIndex(0))).await;
        assert!(matches!(stat.result, Ok(Body::StatFs { inodes: 3, .. })), "{stat:?}");
    });
}

/// A client over a connection may outlive the server. The outcomes of its requests must, too.
#[test]
fn over_a_connection_no_session_is_local() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        for address in [served.tcp(), served.unix()] {
            let mut client = served.client(&address).await;
            let reply = answer(&mut client, RequestId::default(), Op::OpenLocalSession).await;
            let Ok(Body::Session(session)) = reply.result else { panic!("{reply:?}") };
            assert!(!session.is_local());
        }
    });
}
