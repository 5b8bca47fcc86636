//! Directories that grow and shrink under a client: routing, `stat`, listings.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use pando_client::{Client, block_on};
use pando_types::op::Op;
use pando_types::{DirRef, Ino};

use crate::fake::namespace::Namespace;
use crate::fake::{Cluster, ROOT, name};
use crate::walks::routing::fill;

const ROOT_DIR: DirRef = DirRef::ROOT;

/// Splits a partition, or gives one back where that is possible.
fn grow_or_shrink(namespace: &mut Namespace, random: &mut Rng, shrinks: bool) {
    let partitions = namespace.partitions(ROOT_DIR);
    let (i, _) = partitions[random.usize(..partitions.len())];
    match random.u8(..4) == 0 {
        is_other if is_other == shrinks => namespace.split_if_it_may(ROOT_DIR, i),
        _ => {
            let ripe = partitions.iter().filter(|(i, _)| namespace.may_merge(ROOT_DIR, *i));
            let ripe: Vec<_> = ripe.map(|(i, _)| *i).collect();
            if !ripe.is_empty() {
                namespace.merge(ROOT_DIR, ripe[random.usize(..ripe.len())]);
            }
        }
    }
}

/// A directory of 200 files. Its partitions split and merge whenever `when` says so.
fn restless(seed: u64, when: fn(&Op) -> bool) -> (Arc<Cluster>, Client) {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 200);
    cluster.state().namespace.split_all(ROOT_DIR);
    for n in 0..50 {
        block_on(client.lookup(ROOT, Ino::ROOT, &name(&n.to_string()))).expect("found");
    }
    let state = Mutex::new((Rng::with_seed(seed), 0_u32));
    cluster.on_request(move |namespace, _, request| {
        let (random, count) = &mut *state.lock().expect("not poisoned");
        if when(&request.op) {
            *count += 1;
            // The directory shrinks to one partition, grows again, and so on.
            grow_or_shrink(namespace, random, *count / 100 % 2 == 0);
        }
        None
    });
    (cluster, client)
}

#[test]
fn names_are_found_while_a_directory_grows_and_shrinks() {
    let mut most = 0;
    for seed in 0..20 {
        let (cluster, client) = restless(seed, |op| matches!(op, Op::Lookup(..)));
        cluster.take_log();
        for n in 0..1_000 {
            block_on(client.lookup(ROOT, Ino::ROOT, &name(&(n % 200).to_string()))).expect("found");
            most = most.max(cluster.take_log().len());
        }
        let slept = cluster.state().slept.len();
        assert!(
            slept <= 3,
            "{slept} pauses, seed {seed}: hardly ever one is sent to and fro for long"
        );
    }
    assert!((3..=14).contains(&most), "{most} requests for one name");
}

#[test]
fn what_shrank_to_one_partition_costs_one_message_a_call_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 100);
    cluster.state().namespace.split_all(ROOT_DIR);
    for n in 0..100 {
        block_on(client.lookup(ROOT, Ino::ROOT, &name(&n.to_string()))).expect("found");
    }
    while let Some((i, _)) = {
        let namespace = &cluster.state().namespace;
        namespace.partitions(ROOT_DIR).into_iter().find(|(i, _)| namespace.may_merge(ROOT_DIR, *i))
    } {
        cluster.state().namespace.merge(ROOT_DIR, i);
    }
    assert_eq!(cluster.state().namespace.partitions(ROOT_DIR).len(), 1);
    for n in 0..100 {
        block_on(client.lookup(ROOT, Ino::ROOT, &name(&n.to_string()))).expect("found");
    }
    cluster.take_log();
    for n in 0..100 {
        block_on(client.lookup(ROOT, Ino::ROOT, &name(&n.to_string()))).expect("found");
    }
    assert_eq!(cluster.take_log().len(), 100);
    assert_eq!(block_on(client.getattr(Ino::ROOT)).map(|attr| attr.size), Ok(100));
    assert_eq!(cluster.take_log().len(), 1);
}

#[test]
fn counts_are_right_while_partitions_split_and_merge_during_the_fan_out() {
    for seed in 0..100 {
        let (cluster, client) =
            restless(seed, |op| matches!(op, Op::PartitionStat(..) | Op::DirGetAttr(_)));
        for client in [&client, &cluster.client()] {
            for _ in 0..6 {
                let attr = block_on(client.getattr(Ino::ROOT)).expect("there");
                assert_eq!((attr.size, attr.nlink), (200, 2), "seed {seed}");
            }
        }
    }
}

/// A listing that overlaps merges and splits returns each entry that exists throughout exactly
/// once, from any position.
#[test]
fn every_entry_is_listed_once_while_the_directory_grows_and_shrinks() {
    let mut all: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    all.sort_unstable();
    for seed in 0..30 {
        let (_cluster, client) = restless(seed, |op| matches!(op, Op::ReadDir { .. }));
        let mut seen = Vec::new();
        let mut position = 0;
        loop {
            let limit = 1 + (seed as u32 * 7 + position as u32) % 9;
            let read = |from| block_on(client.readdir(ROOT, Ino::ROOT, from, limit));
            let page = read(position).expect("read");
            let Some(last) = page.last() else { break };
            // A position keeps its meaning (`seekdir`).
            let middle = page[page.len() / 2].position;
            let again: Vec<_> = read(middle).expect("read").into_iter().map(|e| e.name).collect();
            let rest = page[page.len() / 2 + 1..].iter().map(|e| &e.name);
            assert!(again.iter().zip(rest).all(|(again, first)| again == first), "seed {seed}");
            position = last.position;
            seen.extend(page.into_iter().map(|entry| entry.name.to_string()));
        }
        seen.sort_unstable();
        assert_eq!(seen, all, "seed {seed}");
    }
}
