//! Too many connections, too many requests, and clients that take no replies.

use std::time::Duration;

use pando_net::{HandshakeError, Stream, open};
use pando_types::op::{Op, RequestId};
use pando_types::reply::Body;
use pando_types::{Credentials, DirRef, Epoch, Order, SessionId, ShardIndex};
use pando_wire::{Hosting, Refused, Role, encode_request};

use crate::{Client, Served, Volume, mkdir, open_session, request, run, until};

#[test]
fn a_thousand_idle_connections_hurt_no_client() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut idle = Vec::new();
        for _ in 0..1000 {
            idle.push(served.client(&served.unix()).await);
        }
        let mut busy = served.client(&served.tcp()).await;
        for _ in 0..100 {
            assert!(busy.works().await);
        }
        assert_eq!(served.server.connections(), 1001);
        // Each of them is served.
        assert!(idle[500].works().await);
        drop(idle);
        until(|| served.server.connections() == 1).await;
    });
}

#[test]
fn beyond_the_limit_a_connection_is_refused_and_room_is_used_again() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.connections = 3;
    let served = volume.serve(&[0], options);
    run(async {
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(served.client(&served.unix()).await);
        }
        let error = served.dial(&served.unix(), None).await.unwrap_err();
        assert!(matches!(error, HandshakeError::Refused(Refused::Full(3))), "{error}");
        held.pop();
        until(|| served.server.connections() == 2).await;
        assert!(served.client(&served.unix()).await.works().await);
    });
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.in_flight = 16;
    let served = volume.serve(&[0], options);
    run(async {
        let mut client = served.client(&served.tcp()).await;
        for stream in 0..5000 {
            client.send(stream, Op::StatFs(ShardIndex(0)));
        }
        let mut seen = vec![false; 5000];
        let drive = async {
            for _ in 0..5000 {
                let (stream, reply) = Client::reply(&mut client).await.unwrap();
                assert!(reply.result.is_ok());
                assert!(!std::mem::replace(&mut seen[stream as usize], true));
            }
        };
        drive.await;
        assert!(seen.into_iter().all(|seen| seen));
    });
}

#[test]
fn a_client_that_sends_and_never_reads_is_held_up_and_then_cut_off_alone() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.replies = 64 << 10;
    options.limits.stall = Duration::from_millis(800);
    let served = volume.serve(&[0], options);
    run(async {
        let mut witness = served.client(&served.tcp()).await;
        let deaf = served.client(&served.tcp()).await;
        let list = || Op::ReadDir { dir: DirRef::ROOT, from: Order(0), limit: 100 };
        let mut sent = 0_u64;
        // Sends until the server reads no further and the socket is full. The server's limits bound
        // what it holds by then.
        while !deaf.out.is_closed() && deaf.out.waiting() < 4 << 20 {
            for _ in 0..1000 {
                deaf.send(sent, list());
                sent += 1;
            }
            tokio::task::yield_now().await;
        }
        assert!(sent > 10_000);
        assert!(witness.works().await);
        until(|| served.server.connections() == 1).await;
        assert!(witness.works().await);
    });
}

/// Makes the shard's thread look at all its connections, many times.
async fn all_are_looked_at(witness: &mut Client) {
    for _ in 0..100 {
        assert!(witness.works().await);
    }
}

/// Asks for directories, each in a request slot of its own. `groups` of the caller make the frames
/// long.
fn ask_for_directories(client: &Client, session: SessionId, count: u16, groups: usize) {
    let credentials = Credentials::new(0, 0, vec![u32::MAX; groups]);
    for slot in 0..count {
        let id = RequestId { session, slot, sequence: 1 };
        let mut request = request(id, mkdir(&format!("dir-{slot}")));
        request.credentials = credentials.clone();
        client.out.append(|bytes| encode_request(bytes, pando_wire::Stream(slot.into()), &request));
    }
    client.out.flush();
}

/// Takes replies until all directories are made. Returns the other replies, each with the number of
/// directories made before it.
async fn await_directories(client: &mut Client, mut made: usize, count: u16) -> Vec<(u64, usize)> {
    let mut others = Vec::new();
    while made < usize::from(count) {
        let (stream, reply) = client.reply().await.expect("the connection goes on");
        match reply.result {
            Ok(Body::Made(..)) => made += 1,
            Ok(_) => others.push((stream, made)),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    others
}

#[test]
fn beyond_the_limit_of_requests_a_connection_is_read_no_further() {
    const DIRECTORIES: u16 = 64;
    let volume = Volume::new(2);
    let mut options = volume.options(0);
    options.limits.in_flight = 8;
    let one = volume.serve(&[0], options);
    run(async {
        let two = volume.serve(&[1], volume.options(1));
        let session = open_session(&one).await;
        drop(two);
        let mut client = one.client(&one.unix()).await;
        // Half of the directories have their home on the other shard, and wait.
        ask_for_directories(&client, session, DIRECTORIES, 0);
        client.send(77, Op::StatFs(ShardIndex(0)));
        let mut witness = one.client(&one.unix()).await;
        all_are_looked_at(&mut witness).await;
        let early = client.at_hand();
        assert!(early.len() + 8 <= usize::from(DIRECTORIES), "{early:?}");
        assert!(!early.contains(&77), "it is read though eight requests wait");
        let _two = volume.serve(&[1], volume.options(1));
        let others = await_directories(&mut client, early.len(), DIRECTORIES).await;
        // The request was taken when at most seven others waited.
        if let [(stream, before)] = others[..] {
            assert!(stream == 77 && before + 7 >= usize::from(DIRECTORIES), "{before}");
        } else {
            assert!(others.is_empty());
            assert_eq!(client.reply().await.unwrap().0, 77);
        }
    });
}

#[test]
fn requests_that_wait_are_counted_until_they_are_answered() {
    const DIRECTORIES: u16 = 64;
    // A group takes 5 bytes.
    const GROUPS: usize = 20_000;
    let volume = Volume::new(2);
    let mut options = volume.options(0);
    (options.limits.memory, options.limits.connections) = (400 << 10, 8);
    let one = volume.serve(&[0], options);
    run(async {
        let two = volume.serve(&[1], volume.options(1));
        let session = open_session(&one).await;
        drop(two);
        let mut client = one.client(&one.unix()).await;
        ask_for_directories(&client, session, DIRECTORIES, GROUPS);
        let mut witness = one.client(&one.unix()).await;
        // A connection that holds little is served meanwhile.
        until(|| one.server.waiting().0 > 400 << 10).await;
        all_are_looked_at(&mut witness).await;
        let waiting = one.server.waiting().0;
        // A batch that is read at once comes on top. All requests of the other shard together would
        // be 3 MiB.
        assert!((400 << 10..900 << 10).contains(&waiting), "{waiting} bytes");
        assert!(client.out.waiting() > 1 << 20, "it is read no further");
        let early = client.at_hand();
        let _two = volume.serve(&[1], volume.options(1));
        await_directories(&mut client, early.len(), DIRECTORIES).await;
        until(|| one.server.waiting() == (0, 0)).await;
    });
}

#[test]
fn what_requests_hold_is_given_back_though_their_connection_has_ended() {
    let volume = Volume::new(2);
    let one = volume.serve(&[0], volume.options(0));
    run(async {
        let two = volume.serve(&[1], volume.options(1));
        let session = open_session(&one).await;
        drop(two);
        let client = one.client(&one.unix()).await;
        ask_for_directories(&client, session, 64, 0);
        until(|| client.out.waiting() == 0 && one.server.waiting().0 > 0).await;
        drop(client);
        until(|| one.server.connections() == 0).await;
        assert!(one.server.waiting().0 > 0, "the shard holds them");
        let _two = volume.serve(&[1], volume.options(1));
        until(|| one.server.waiting() == (0, 0)).await;
    });
}

/// Fills the root with names that make a listing of 10 KiB.
async fn make_long_names(served: &Served, client: &mut Client) {
    let session = open_session(served).await;
    for sequence in 1..=40 {
        let id = RequestId { session, slot: 0, sequence };
        client.send_as(1, request(id, mkdir(&format!("{sequence:0>250}"))));
        assert!(client.reply().await.unwrap().1.result.is_ok());
    }
}

/// Asks for the root's listing `count` times, all at once.
fn ask_for_listings(client: &Client, count: u64) {
    let list = Op::ReadDir { dir: DirRef::ROOT, from: Order(0), limit: 100 };
    let list = request(RequestId::default(), list);
    for stream in 0..count {
        client.out.append(|bytes| encode_request(bytes, pando_wire::Stream(stream), &list));
    }
    client.out.flush();
}

#[test]
fn what_answers_hold_is_given_back_when_they_are_taken_though_nothing_more_is_asked() {
    // More than the sockets hold.
    const ASKED: u64 = 200;
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut client = served.client(&served.unix()).await;
        make_long_names(&served, &mut client).await;
        ask_for_listings(&client, ASKED);
        until(|| served.server.waiting().0 > 0).await;
        for _ in 0..ASKED {
            assert!(client.reply().await.unwrap().1.result.is_ok());
        }
        until(|| served.server.waiting() == (0, 0)).await;
        assert!(client.works().await);
    });
}

#[test]
fn answers_that_are_not_taken_are_counted_for_all_connections_together() {
    const DEAF: usize = 6;
    const ASKED: u64 = 300;
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    (options.limits.memory, options.limits.connections) = (300 << 10, 16);
    // Few requests at once, so that little comes on top of the limit.
    options.limits.in_flight = 4;
    let served = volume.serve(&[0], options);
    run(async {
        let mut witness = served.client(&served.unix()).await;
        make_long_names(&served, &mut witness).await;
        let mut deaf = Vec::new();
        for _ in 0..DEAF {
            let client = served.client(&served.unix()).await;
            ask_for_listings(&client, ASKED);
            deaf.push(client);
        }
        until(|| served.server.waiting().0 > 300 << 10).await;
        all_are_looked_at(&mut witness).await;
        let waiting = served.server.waiting().0;
        // Each client alone may hold 1 MiB, and has asked for 3.
        assert!((300 << 10..1 << 20).contains(&waiting), "{waiting} bytes");
        for client in &mut deaf {
            for _ in 0..ASKED {
                assert!(client.reply().await.unwrap().1.result.is_ok());
            }
        }
        until(|| served.server.waiting() == (0, 0)).await;
    });
}

/// Fills the root with names that make a listing of more than 256 KiB.
async fn make_very_many_long_names(served: &Served) {
    let session = open_session(served).await;
    for sequence in 1..=1000 {
        let id = RequestId { session, slot: 0, sequence };
        let op = mkdir(&format!("{sequence:0>250}"));
        let reply = crate::within(served.host.call(ShardIndex(0), request(id, op))).await.unwrap();
        assert!(reply.result.is_ok());
    }
}

fn ask_for_long_listings(client: &Client, count: u64) {
    let list = Op::ReadDir { dir: DirRef::ROOT, from: Order(0), limit: 4096 };
    let list = request(RequestId::default(), list);
    for stream in 0..count {
        client.out.append(|bytes| encode_request(bytes, pando_wire::Stream(stream), &list));
    }
    client.out.flush();
}

#[test]
fn what_a_batch_may_bring_about_is_counted_before_it_is_run() {
    const ASKED: u64 = 100;
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        make_very_many_long_names(&served).await;
        let mut client = served.client(&served.unix()).await;
        // All of these requests are at hand at once. Their replies would be 27 MiB.
        ask_for_long_listings(&client, ASKED);
        let mut witness = served.client(&served.unix()).await;
        until(|| served.server.waiting().0 > 0).await;
        all_are_looked_at(&mut witness).await;
        let waiting = served.server.waiting().0;
        assert!(waiting < 2 << 20, "{waiting} bytes");
        // A client that reads gets all replies.
        for _ in 0..ASKED {
            assert!(client.reply().await.unwrap().1.result.is_ok());
        }
        until(|| served.server.waiting() == (0, 0)).await;
    });
}

#[test]
fn a_connection_with_more_replies_than_allowed_is_cut_off_alone_and_counted() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.replies_cut = 100 << 10;
    let served = volume.serve(&[0], options);
    run(async {
        make_very_many_long_names(&served).await;
        let mut witness = served.client(&served.unix()).await;
        let mut greedy = served.client(&served.unix()).await;
        ask_for_long_listings(&greedy, 1);
        assert!(greedy.reply().await.is_none());
        assert!(witness.works().await);
        assert_eq!(served.counter("cut_off"), 1);
        until(|| served.server.connections() == 1).await;
    });
}

#[test]
fn what_a_client_never_sends_is_counted() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.unix()).await;
        let mut liar = served.client(&served.unix()).await;
        let ask = pando_types::hold::Holding::Ask(1);
        liar.send(1, Op::Hold(SessionId::new(1, true), ask));
        assert!(liar.reply().await.is_none());
        let mut liar = served.client(&served.unix()).await;
        liar.out.append(|bytes| bytes.extend_from_slice(&[0xff; 64]));
        liar.out.flush();
        assert!(liar.reply().await.is_none());
        assert!(witness.works().await);
        until(|| served.counter("bad_frames") == 2).await;
    });
}

#[test]
fn a_long_frame_is_cut_off_when_memory_is_short() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.memory = 300 << 10;
    let served = volume.serve(&[0], options);
    run(async {
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(served.client(&served.unix()).await);
        }
        some_are_cut_off(&served, &clients).await;
    });
}

#[test]
fn a_long_frame_of_a_shard_is_cut_off_when_memory_is_short() {
    let volume = Volume::new(2);
    let mut options = volume.options(0);
    options.limits.peer_memory = 300 << 10;
    let served = volume.serve(&[0], options);
    run(async {
        let addresses = vec!["10.1.1.1:1".to_owned()];
        let there = Hosting { shard: ShardIndex(1), epoch: Epoch(9), host: [1; 16], addresses };
        let mut peers = Vec::new();
        for _ in 0..8 {
            let stream = Stream::connect(&served.unix()).await.unwrap();
            let role = Role::Peer(ShardIndex(0), vec![there.clone()]);
            peers.push(Client::of(open(stream, served.volume, role, None).await.unwrap()));
        }
        some_are_cut_off(&served, &peers).await;
    });
}

/// Each hoarder begins a long frame. There is not enough memory for all of them.
async fn some_are_cut_off(served: &Served, hoarders: &[Client]) {
    let mut witness = served.client(&served.unix()).await;
    for hoarder in hoarders {
        let mut bytes = (900_u32 << 10).to_le_bytes().to_vec();
        bytes.resize(100 << 10, 0);
        hoarder.out.append(|out| out.extend_from_slice(&bytes));
        hoarder.out.flush();
    }
    // Then there is memory again.
    until(|| {
        hoarders.iter().for_each(|hoarder| hoarder.out.flush());
        (served.server.connections() as usize) <= hoarders.len()
    })
    .await;
    assert!(witness.works().await);
}
