//! A directory that is on all shards reaches shards that are added (GIGA+ §3.4).

use crate::common::Scratch;
use crate::common::all;
use crate::common::site::until;
use crate::load::{Load, Mounted};
use crate::site::{Server, format, is_whole, shard_add};

/// Number of shards at first. The more there are, the fewer hash slots an addition takes.
const SHARDS: u16 = 7;

/// Partitions go round robin over the shards that there were, one partition each. Then they go to
/// the added shards, one after the other.
#[test]
fn a_directory_that_has_grown_over_all_shards_reaches_those_that_are_added() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("old");
    format(&folder, SHARDS);
    let old = Server::start(&folder, &[]);
    let new = Server::start(&scratch.path().join("new"), &["--join", &old.address]);
    let mounts = ["one", "two"].map(|name| Mounted::new(&old.address, &scratch.path().join(name)));
    let load = Load::start([&mounts[0], &mounts[1]]);
    let grown = |partitions: u16, last: &str| {
        until(last, || {
            load.is_well();
            mounts[0].partitions("big").len() >= partitions.into()
        });
        let mut found = mounts[0].partitions("big");
        found.sort_unstable();
        found
    };
    let before = grown(SHARDS, "the directory is on all shards");
    let mut on: Vec<u64> = before.iter().map(|(_, shard)| *shard).collect();
    on.sort_unstable();
    assert_eq!(on, (0..u64::from(SHARDS)).collect::<Vec<_>>(), "{before:?}");

    for (more, to) in [(0, &new), (1, &old)] {
        let added = u64::from(SHARDS + more);
        let output = shard_add(&folder, &["--to", &to.address]).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        let after = grown(SHARDS + more + 1, "the directory reaches the shard that was added");
        // Partitions stay where they are, except for the first, which goes with its hash slot.
        assert!(before.iter().skip(1).all(|partition| after.contains(partition)), "{after:?}");
        assert_eq!(after.last(), Some(&(added, added)), "{before:?} {after:?}");
    }
    load.goes_on(200);
    load.end();
    drop(mounts);
    is_whole(&new.address);
}
