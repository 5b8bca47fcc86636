//! Shards in two processes: a message from one to the other arrives, also after the other was away.

use std::task::Poll;

use pando_types::op::{Op, RequestId};
use pando_types::reply::Body;
use pando_types::{SessionId, ShardIndex};

use crate::{Served, Volume, mkdir, open_session, request, run, within};

async fn make(served: &Served, session: SessionId, number: u64) {
    let id = RequestId { session, slot: 0, sequence: number };
    let op = mkdir(&format!("dir-{number}"));
    let reply = within(served.host.call(ShardIndex(0), request(id, op))).await.unwrap();
    assert!(matches!(reply.result, Ok(Body::Made(..))), "{reply:?}");
}

#[test]
fn what_takes_two_processes_waits_for_the_other_and_goes_on() {
    let volume = Volume::new(2);
    let one = volume.serve(&[0], volume.options(0));
    run(async {
        let two = volume.serve(&[1], volume.options(1));
        let session = open_session(&one).await;
        for number in 1..20 {
            make(&one, session, number).await;
        }
        drop(two);
        let mut waiting = std::pin::pin!(async {
            for number in 20..60 {
                make(&one, session, number).await;
            }
        });
        // Half of all directories have their home on the other shard, which is away now.
        let first = std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context)));
        assert!(first.await.is_pending());
        let _two = volume.serve(&[1], volume.options(1));
        waiting.await;
    });
}

#[test]
fn repetitions_of_what_waits_do_not_use_up_the_connection() {
    let volume = Volume::new(2);
    let mut options = volume.options(0);
    options.limits.in_flight = 8;
    let one = volume.serve(&[0], options);
    run(async {
        let two = volume.serve(&[1], volume.options(1));
        let session = open_session(&one).await;
        drop(two);
        let mut client = one.client(&one.unix()).await;
        for round in 0..50 {
            // Some of these directories have their home on the other shard, and wait. Each request
            // is sent again and again.
            for slot in 0..6 {
                let id = RequestId { session, slot, sequence: 1 };
                client.send_as(1000 + round, request(id, mkdir(&format!("dir-{slot}"))));
            }
        }
        client.send(7, Op::StatFs(ShardIndex(0)));
        while client.reply().await.expect("the connection goes on").0 != 7 {}
    });
}
