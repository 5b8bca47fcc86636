//! Identities of requests: kept, renewed, never shared.

use std::collections::HashSet;

use pando_client::path::Paths;
use pando_client::{IfThere, Options, Then, Usage, block_on};
use pando_types::op::{RenameFlags, RequestId, XattrMode};
use pando_types::reply::{Body, Refusal};
use pando_types::{Credentials, Errno, Ino, SessionId, ShardIndex, Timestamp};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::{file, make};

fn ids(cluster: &Cluster) -> Vec<RequestId> {
    cluster.take_log().iter().map(|(_, request)| request.head.id).collect()
}

#[test]
fn a_session_begins_and_ends_at_the_coordinator() {
    let cluster = Cluster::new();
    let client = cluster.client();
    assert_eq!(client.session(), SessionId(1));
    assert_eq!(block_on(client.close()), Ok(()));
    assert_eq!(cluster.ops(), ["OpenSession", "EndSession"]);
    assert_eq!(block_on(client.getattr(Ino::ROOT)), Err(Errno::EIO));
    assert_eq!(cluster.ops(), [""; 0]);
}

#[test]
fn a_lost_request_is_sent_again_unchanged_with_growing_pauses_and_runs_once() {
    for lose_reply in [false, true] {
        let cluster = Cluster::new();
        let client = cluster.client();
        cluster.take_log();
        let mut left = 9;
        cluster.on_request(move |_, _, _| {
            left -= 1;
            let fate = if lose_reply { Fate::LoseReply } else { Fate::LoseRequest };
            (left >= 0).then_some(fate)
        });
        let made = make(&client, &name("a"), Then::Nothing);
        assert!(made.expect("made once").1);
        let ids = ids(&cluster);
        assert_eq!(ids.len(), 10);
        assert!(ids.iter().all(|id| *id == ids[0] && id.sequence == 1));
        let millis: Vec<_> = cluster.state().slept.iter().map(|nanos| nanos / 1_000_000).collect();
        assert_eq!(millis, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(client.counters().retries(), 9);
    }
}

#[test]
fn what_waits_for_a_shard_that_is_away_is_asked_anew_until_patience_runs_out() {
    const SECOND: u64 = 1_000_000_000;
    let busy = || Fate::Answer(Err(Refusal::Errno(Errno::EBUSY)));
    let options = Options { slots: 1, patience: Some(5 * SECOND), ..Options::default() };
    let cluster = Cluster::new();
    let client = cluster.client_with(options);
    cluster.take_log();
    let mut left = 3;
    cluster.on_request(move |_, _, _| {
        left -= 1;
        (left >= 0).then(busy)
    });
    assert!(make(&client, &name("a"), Then::Nothing).is_ok());
    let ids = ids(&cluster);
    let sequences: Vec<u64> = ids.iter().map(|id| id.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4], "what was answered is not asked again");
    cluster.on_request(move |_, _, _| Some(busy()));
    let made = make(&client, &name("b"), Then::Nothing);
    assert_eq!(made.map(|_| ()), Err(Errno::ETIMEDOUT));
    assert_eq!(client.doubts(), 0, "it never ran");
    assert!(cluster.state().slept.iter().sum::<u64>() <= 6 * SECOND);
}

#[test]
fn patience_counts_the_time_that_calls_take() {
    const SECOND: u64 = 1_000_000_000;
    let cluster = Cluster::new();
    let client =
        cluster.client_with(Options { slots: 1, patience: Some(5 * SECOND), ..Options::default() });
    cluster.take_log();
    cluster.on_request(|_, _, _| Some(Fate::Hang(2 * SECOND)));
    assert_eq!(block_on(client.getattr(Ino::ROOT)), Err(Errno::ETIMEDOUT));
    assert_eq!(cluster.ops(), ["DirGetAttr"; 3], "at 0, 2.01 and 4.03 seconds");
    cluster.on_request(|_, _, _| Some(Fate::LoseRequest));
    let before = cluster.state().now;
    assert_eq!(block_on(client.getattr(Ino::ROOT)), Err(Errno::ETIMEDOUT));
    assert_eq!(cluster.state().now - before, 5 * SECOND, "the last pause is cut");
}

#[test]
fn a_release_is_never_given_up() {
    let cluster = Cluster::new();
    let client =
        cluster.client_with(Options { slots: 4, patience: Some(50_000_000), ..Options::default() });
    let made = make(&client, &name("a"), Then::Open);
    let ino = made.expect("made").0.ino;
    let mut left = 100;
    cluster.on_request(move |_, _, _| {
        left -= 1;
        (left >= 0).then_some(Fate::LoseRequest)
    });
    assert_eq!(block_on(client.release(ino)), Ok(()));
    assert_eq!(cluster.state().namespace.opens(ino), 0);
}

#[test]
fn a_stopped_transport_is_an_input_output_error() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.on_request(|_, _, _| Some(Fate::Stop));
    assert_eq!(block_on(client.getattr(Ino::ROOT)), Err(Errno::EIO));
}

#[test]
fn many_threads_share_few_slots_and_no_identity_serves_twice() {
    let cluster = Cluster::new();
    let client = cluster.client_with(Options { slots: 3, patience: None, ..Options::default() });
    cluster.state().delay = 3;
    cluster.take_log();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for n in 0..50 {
                    let name = name(&format!("{thread}-{n}"));
                    let made = make(client, &name, Then::Nothing);
                    assert!(made.expect("made").1);
                    assert_eq!(block_on(client.unlink(ROOT, Ino::ROOT, &name)), Ok(()));
                }
            });
        }
    });
    let ids = ids(&cluster);
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), distinct.len()), (800, 800));
    assert!(ids.iter().all(|id| id.slot < 3));
}

#[test]
fn clocks_and_versions_heard_of_are_told_on() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.on_request(|_, _, request| {
        let head = request.head;
        assert!(head.clock > 0 && head.version == 3 && head.trace > 0);
        Some(Fate::Answer(Ok(Body::StatFs { inodes: 2, bytes: 5 })))
    });
    assert_eq!(block_on(client.statfs()), Ok(Usage { inodes: 8, bytes: 20 }));
}

#[test]
fn what_time_it_is_on_a_shard_its_answers_tell() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let an_hour_ago = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        Timestamp::from_nanos((since.as_nanos() - 3_600_000_000_000) as u64)
    };
    block_on(client.statfs()).unwrap();
    let shard = client.shard_of(Ino::ROOT);
    // The clock of these shards is a count of requests.
    assert!(client.time_at(shard) < an_hour_ago());
    assert!(
        client.time_at(ShardIndex(200)) < an_hour_ago(),
        "rather another shard's than one's own"
    );
}

#[test]
fn calls_move_between_threads() {
    fn check<T: Send>(_: &T) {}
    fn shared<T: Send + Sync>(_: &T) {}
    let cluster = Cluster::new();
    let client = cluster.client();
    shared(&client);
    let (root, a) = (Ino::ROOT, name("a"));
    let paths = Paths::new(&client, Credentials::ROOT);
    check(&client.lookup(ROOT, root, &a));
    check(&client.create(ROOT, root, &a, file(), IfThere::Refuse, Then::Open));
    check(&client.rename(ROOT, root, &a, root, &a, RenameFlags::default()));
    check(&client.link(ROOT, root, root, &a));
    check(&client.getattr(root));
    check(&client.setxattr(ROOT, root, b"user.a", b"", XattrMode::Any));
    check(&client.write_data(root, None, Vec::new(), None, None));
    check(&client.readdir_plus(ROOT, root, 0, 1));
    check(&client.garbage_done(&[]));
    check(&client.sync_file(root));
    check(&paths.create(b"/a", 0o644, IfThere::Take));
    check(&paths.stat(b"/a"));
}
