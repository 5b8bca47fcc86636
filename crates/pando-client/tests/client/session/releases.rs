//! Files that are closed together.

use pando_client::{Client, Content, Then, block_on};
use pando_types::op::Op;
use pando_types::{DirRef, Errno, Ino, SessionId};

use crate::fake::{Cluster, ROOT, name};
use crate::walks::routing::make;

fn opened(client: &Client, of: &str) -> Ino {
    let made = make(client, &name(of), Then::Open);
    made.expect("made").0.ino
}

#[test]
fn each_shard_is_told_once_however_many_files_it_has() {
    let cluster = Cluster::with_shards(4, 1);
    let client = cluster.client();
    for i in [0, 0, 1] {
        cluster.state().namespace.split(DirRef::ROOT, i);
    }
    let inos: Vec<_> = (0..100).map(|n| opened(&client, &n.to_string())).collect();
    let opens = || inos.iter().map(|ino| cluster.state().namespace.opens(*ino)).sum::<u32>();
    assert_eq!(opens(), 100);
    cluster.take_log();
    assert_eq!(block_on(client.release_all(&inos)), Ok(()));
    assert_eq!(cluster.ops(), ["ReleaseAll"; 4]);
    assert_eq!(opens(), 0);
    assert_eq!(block_on(client.release_all(&[])), Ok(()));
    assert!(cluster.ops().is_empty());
}

#[test]
fn what_is_elsewhere_is_released_by_itself() {
    let cluster = Cluster::with_shards(4, 1);
    let client = cluster.client();
    let inos: Vec<_> = (0..40).map(|n| opened(&client, &n.to_string())).collect();
    // One file has no name any more, which its client knows. Half of the others have moved, which
    // the client does not know.
    block_on(client.unlink(ROOT, Ino::ROOT, &name("7"))).expect("removed");
    cluster.state().namespace.split(DirRef::ROOT, 0);
    cluster.take_log();
    assert_eq!(block_on(client.release_all(&inos)), Ok(()));
    let ops = cluster.ops();
    assert_eq!(ops.iter().filter(|op| *op == "ReleaseAll").count(), 1, "{ops:?}");
    assert!(ops.len() > 10, "{ops:?}");
    assert!(inos.iter().all(|ino| cluster.state().namespace.opens(*ino) == 0));
    assert_eq!(block_on(client.getattr(inos[7])), Err(Errno::ESTALE), "it is gone");
}

#[test]
fn a_file_that_is_open_more_often_stays_open() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = opened(&client, "a");
    for _ in 0..2 {
        block_on(client.open(ROOT, ino, 4, Content::Kept, None)).expect("opened");
    }
    assert_eq!(block_on(client.release_all(&[ino, ino])), Ok(()));
    assert_eq!(cluster.state().namespace.opens(ino), 1);
    assert_eq!(block_on(client.release_all(&[ino])), Ok(()));
    assert_eq!(cluster.state().namespace.opens(ino), 0);
}

#[test]
fn in_a_session_that_is_over_there_is_nothing_to_release() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let inos = ["a", "b"].map(|of| opened(&client, of));
    cluster.take_log();
    cluster.expire(SessionId(1));
    assert_eq!(block_on(client.release_all(&inos)), Ok(()));
    let asked = |op: &Op| matches!(op, Op::ReleaseAll(_, files) if files.len() == 2);
    let log = cluster.take_log();
    assert!(matches!(&log[..], [(_, request)] if asked(&request.op)), "{log:?}");
}
