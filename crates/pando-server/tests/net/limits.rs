//! Too much: of connections, of requests, of patience.

use std::time::Duration;

use pando_net::HandshakeError;
use pando_types::op::Op;
use pando_types::{DirRef, Order, ShardIndex};
use pando_wire::Refused;

use crate::{Client, Volume, run, until};

#[test]
fn a_thousand_idle_connections_hurt_nobody() {
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
        // They are as good as any.
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
fn who_sends_and_never_reads_is_held_up_and_then_cut_off_alone() {
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
        // Until the server reads no further and the socket is full; what it holds by then is bounded by its limits.
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

#[test]
fn a_long_frame_is_cut_off_when_memory_is_short() {
    let volume = Volume::new(1);
    let mut options = volume.options(0);
    options.limits.memory = 300 << 10;
    let served = volume.serve(&[0], options);
    run(async {
        let mut witness = served.client(&served.unix()).await;
        let mut hoarders = Vec::new();
        for _ in 0..8 {
            let hoarder = served.client(&served.unix()).await;
            let mut bytes = (900_u32 << 10).to_le_bytes().to_vec();
            bytes.resize(100 << 10, 0);
            hoarder.out.append(|out| out.extend_from_slice(&bytes));
            hoarder.out.flush();
            hoarders.push(hoarder);
        }
        // Some are cut off, and then there is memory again.
        let driven: Vec<_> = hoarders.iter().map(|hoarder| hoarder.out.stream()).collect();
        assert_eq!(driven.len(), 8);
        until(|| {
            hoarders.iter().for_each(|hoarder| hoarder.out.flush());
            served.server.connections() < 9
        })
        .await;
        assert!(witness.works().await);
    });
}
