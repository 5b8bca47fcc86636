//! Places of files after renames, links and removals.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pando_client::{Client, Content, IfThere, Then, block_on};
use pando_types::op::{Op, RenameFlags};
use pando_types::reply::Refusal;
use pando_types::{Errno, Ino};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::{file, make};

const PLAIN: RenameFlags = RenameFlags { no_replace: false, exchange: false };

fn create(client: &Client, text: &str, then: Then) -> Ino {
    make(client, &name(text), then).expect("made").0.ino
}

fn rename(client: &Client, from: &str, to: &str, flags: RenameFlags) {
    block_on(client.rename(ROOT, Ino::ROOT, &name(from), Ino::ROOT, &name(to), flags))
        .expect("renamed");
}

#[test]
fn a_file_we_rename_is_asked_for_under_its_new_name() {
    for park in [false, true] {
        let cluster = Cluster::new();
        cluster.state().namespace.park_on_rename = park;
        let client = cluster.client();
        let ino = create(&client, "a", Then::Nothing);
        rename(&client, "a", "b", PLAIN);
        cluster.take_log();
        assert_eq!(block_on(client.getattr(ino)).expect("there").ino, ino);
        assert_eq!(cluster.ops(), ["GetAttr"], "found at once");
    }
}

#[test]
fn both_files_of_an_exchange_are_found_at_once() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let (a, b) = (create(&client, "a", Then::Open), create(&client, "b", Then::Open));
    rename(&client, "a", "b", RenameFlags { exchange: true, ..PLAIN });
    cluster.take_log();
    for ino in [a, b] {
        assert_eq!(block_on(client.getattr(ino)).expect("there").ino, ino);
    }
    assert_eq!(cluster.ops(), ["GetAttr"; 2]);
}

#[test]
fn a_linked_file_is_asked_for_at_its_link_shard() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = create(&client, "a", Then::Nothing);
    let attr = block_on(client.link(ROOT, ino, Ino::ROOT, &name("b"))).expect("linked");
    assert_eq!(attr.nlink, 2);
    cluster.take_log();
    assert_eq!(block_on(client.getattr(ino)).expect("there").nlink, 2);
    assert_eq!(cluster.ops(), ["GetAttr"]);
    block_on(client.unlink(ROOT, Ino::ROOT, &name("a"))).expect("removed");
    assert_eq!(block_on(client.getattr(ino)).expect("there").nlink, 1);
    let found = block_on(client.lookup(ROOT, Ino::ROOT, &name("b"))).expect("found");
    assert_eq!(found.ino, ino);
}

#[test]
fn an_open_file_without_a_name_is_found_and_released() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = create(&client, "a", Then::Open);
    block_on(client.unlink(ROOT, Ino::ROOT, &name("a"))).expect("removed");
    let other = create(&client, "a", Then::Nothing);
    assert_ne!(ino, other);
    cluster.take_log();
    block_on(client.getattr(ino)).expect("it is open");
    assert_eq!(cluster.ops(), ["GetAttr"; 2], "under its name, then at its link shard");
    client.forget(ino, 1);
    assert_eq!(block_on(client.release(ino)), Ok(()));
    assert_eq!(cluster.ops(), ["Release"], "the place is known");
    assert_eq!(block_on(client.getattr(ino)), Err(Errno::ESTALE));
}

#[test]
fn a_change_tried_elsewhere_has_a_new_identity() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = create(&client, "a", Then::Open);
    block_on(client.unlink(ROOT, Ino::ROOT, &name("a"))).expect("removed");
    cluster.take_log();
    block_on(client.release(ino)).expect("released");
    let ids: Vec<_> = cluster.take_log().iter().map(|(_, request)| request.head.id).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].slot == ids[1].slot && ids[0].sequence < ids[1].sequence);
}

#[test]
fn a_file_that_is_gone_is_stale_and_its_name_is_absent() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(), cluster.client());
    let ino = create(&client, "a", Then::Nothing);
    block_on(other.unlink(ROOT, Ino::ROOT, &name("a"))).expect("removed");
    assert_eq!(block_on(client.getattr(ino)), Err(Errno::ESTALE));
    assert_eq!(block_on(client.lookup(ROOT, Ino::ROOT, &name("a"))), Err(Errno::ENOENT));
    assert_eq!(block_on(client.getattr(Ino(99))), Err(Errno::ESTALE));
}

/// Polls `one` and `other` in turn, so many times each, until `one` is ready.
fn race<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>, turns: (u32, u32)) -> T {
    let mut context = Context::from_waker(Waker::noop());
    let (mut one, mut other) = (pin!(one), pin!(other));
    let mut other_is_ready = false;
    loop {
        for _ in 0..turns.0 {
            if let Poll::Ready(output) = one.as_mut().poll(&mut context) {
                return output;
            }
        }
        for _ in 0..turns.1 {
            other_is_ready = other_is_ready || other.as_mut().poll(&mut context).is_ready();
        }
    }
}

#[test]
fn a_file_is_found_while_it_is_renamed_over_and_over() {
    for delay in [1, 2, 20] {
        for turns in [(1, 1), (1, 2), (2, 1), (1, 7), (3, 2), (1, 40), (40, 1)] {
            let cluster = Cluster::new();
            let client = cluster.client();
            let ino = create(&client, "0", Then::Nothing);
            cluster.state().delay = delay;
            let root = Ino::ROOT;
            let renames = async {
                for n in 0_u32.. {
                    let (from, to) = (name(&n.to_string()), name(&(n + 1).to_string()));
                    let renamed = client.rename(ROOT, root, &from, root, &to, PLAIN).await;
                    assert_eq!(renamed, Ok(()));
                }
            };
            let reads = async {
                for _ in 0..50 {
                    assert_eq!(client.getattr(ino).await.map(|attr| attr.ino), Ok(ino));
                }
            };
            race(reads, renames, turns);
        }
    }
}

#[test]
fn a_removal_between_the_entry_and_the_inode_is_looked_at_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let ino = create(&client, "a", Then::Nothing);
    block_on(client.link(ROOT, ino, Ino::ROOT, &name("b"))).expect("linked");
    let mut left = 3;
    cluster.on_request(move |_, _, request| {
        let is_read = matches!(request.op, Op::GetAttr(_) | Op::Open { .. });
        left -= i32::from(is_read);
        (is_read && left >= 0).then_some(Fate::Answer(Err(Refusal::NotUnderName)))
    });
    assert_eq!(block_on(client.lookup(ROOT, Ino::ROOT, &name("b"))).map(|it| it.ino), Ok(ino));
    let opened =
        block_on(client.create(ROOT, Ino::ROOT, &name("a"), file(), IfThere::Take, Then::Open));
    assert_eq!(opened.map(|(attr, is_new)| (attr.ino, is_new)), Ok((ino, false)));
    assert_eq!(cluster.state().namespace.opens(ino), 1);
}

#[test]
fn directories_are_what_they_are_through_renames() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let d = block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).expect("made").ino;
    let e = block_on(client.mkdir(ROOT, d, &name("e"), 0o755)).expect("made").ino;
    rename(&client, "d", "f", PLAIN);
    assert_eq!(block_on(client.getattr(d)).map(|attr| (attr.ino, attr.nlink)), Ok((d, 3)));
    assert_eq!(block_on(client.parent(e)), Ok(d));
    assert_eq!(block_on(client.parent(d)), Ok(Ino::ROOT));
    assert_eq!(block_on(client.unlink(ROOT, d, &name("e"))), Err(Errno::EISDIR));
    assert_eq!(block_on(client.open(ROOT, d, 4, Content::Kept, None)), Err(Errno::EISDIR));
    assert_eq!(block_on(client.link(ROOT, d, Ino::ROOT, &name("g"))), Err(Errno::EPERM));
    assert_eq!(block_on(client.rmdir(ROOT, d, &name("e"))), Ok(()));
    assert_eq!(block_on(client.getattr(e)), Err(Errno::ESTALE));
}
