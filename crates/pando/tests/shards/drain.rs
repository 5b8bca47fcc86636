//! A host is drained under a mount: its shards move to another process, and its server stops.

use crate::common::site::until;
use crate::common::{Scratch, all, pando};
use crate::load::{Load, Mounted};
use crate::site::{Server, format, hosts_of, is_whole, list, shard_move};

#[test]
fn a_host_whose_shards_have_moved_stops_and_its_mounts_do_not_notice() {
    let scratch = Scratch::new();
    let at = |name: &str| scratch.path().join(name);
    format(&at("first"), 4);
    let first = Server::start(&at("first"), &[]);
    let second = Server::start(&at("second"), &["--join", &first.address]);
    let moves = |shards: [u16; 2], to: &Server| {
        for shard in shards {
            let moved = shard_move(shard, &to.address);
            assert!(moved.status.success(), "{}", all(&moved));
        }
    };
    moves([2, 3], &second);
    // The first mount knows only the server that is to stop, the second only the one that stays.
    let mounts = [(&first, "one"), (&second, "two")]
        .map(|(server, name)| Mounted::new(&server.address, &at(name)));
    let load = Load::start([&mounts[0], &mounts[1]]);
    let third = Server::start(&at("third"), &["--join", &second.address]);
    moves([0, 1], &third);
    load.goes_on(100);
    assert_eq!(list(&second.address)["moves"].as_array().unwrap().len(), 0);
    for shard in [0, 1] {
        let kept = first.folder.join(format!("shard-{shard:04}"));
        until("the old copy is removed", || !kept.exists());
    }

    // The first server has no shard left.
    let output = pando().arg("down").arg(&first.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    first.is_gone();
    load.goes_on(200);
    for (shard, server) in [(0, &third), (1, &third), (2, &second), (3, &second)] {
        assert_eq!(hosts_of(shard, &second.address)[0], server.address);
    }
    let later = Mounted::new(&third.address, &at("three"));
    assert!(later.partitions("big").len() >= 4, "{:?}", later.partitions("big"));
    load.goes_on(100);
    load.end();
    drop((mounts, later));
    is_whole(&third.address);
}
