//! Replies that are ready at one time leave in one write.

use pando_types::ShardIndex;
use pando_types::op::{Op, RequestId};
use pando_wire::{Stream, encode_request};

use crate::{Volume, request, run};

#[test]
fn the_answers_to_many_requests_leave_in_few_writes() {
    const REQUESTS: u64 = 64;
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        for address in [served.unix(), served.tcp()] {
            let mut client = served.client(&address).await;
            let before = served.server.writes();
            let ask = request(RequestId::default(), Op::StatFs(ShardIndex(0)));
            for stream in 0..REQUESTS {
                client.out.append(|bytes| encode_request(bytes, Stream(stream), &ask));
            }
            client.out.flush();
            for _ in 0..REQUESTS {
                assert!(client.reply().await.unwrap().1.result.is_ok());
            }
            // One write for each batch of a long row of requests, and some for what a socket may
            // tear apart.
            let writes = served.server.writes() - before;
            assert!((1..=6).contains(&writes), "{writes} writes at {address}");
        }
    });
}
