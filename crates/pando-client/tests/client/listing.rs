//! Listings over partitions.

use pando_client::{Client, block_on};
use pando_types::op::Op;
use pando_types::reply::Refusal;
use pando_types::{DirRef, Errno, FileKind, Ino};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::routing::{file, fill};

/// Lists the names of the root, page by page, and sorts them. Positions must ascend.
fn list(client: &Client, limit: u32, plus: bool) -> Vec<String> {
    let mut names = Vec::new();
    let mut position = 0;
    loop {
        let page = block_on(client.readdir(ROOT, Ino::ROOT, position, limit, plus)).expect("read");
        assert!(page.len() <= limit as usize);
        let Some(last) = page.last() else { break };
        assert!(page.is_sorted_by(|a, b| a.position < b.position) && page[0].position > position);
        position = last.position;
        for entry in page {
            assert_eq!(entry.attr.map(|attr| attr.ino), plus.then_some(entry.ino));
            names.push(entry.name.to_string());
        }
    }
    names.sort_unstable();
    names
}

#[test]
fn every_entry_is_listed_once_while_the_directory_splits() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 200);
    let mut all: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    all.sort_unstable();
    for limit in [1, 7, 1000] {
        assert_eq!(list(&client, limit, false), all);
    }
    cluster.on_request(move |namespace, _, request| {
        let partitions = namespace.partitions(DirRef::ROOT);
        let largest = partitions.iter().max_by_key(|(_, entries)| *entries);
        if let Some((i, entries)) = largest
            && *entries > 10
            && matches!(request.op, Op::ReadDir { .. })
        {
            namespace.split(DirRef::ROOT, i.0);
        }
        None
    });
    for limit in [3, 7, 1000] {
        assert_eq!(list(&client, limit, false), all);
    }
}

#[test]
fn with_attributes_each_entry_counts_as_looked_up() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 5);
    block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).expect("made");
    let linked = block_on(client.lookup(ROOT, Ino::ROOT, &name("1"))).expect("found");
    block_on(client.link(ROOT, linked.ino, Ino::ROOT, &name("1b"))).expect("linked");
    drop(client);
    let client = cluster.client();
    assert_eq!(list(&client, 3, true).len(), 7);
    assert_eq!(client.known_inodes(), 6);
    client.forget(linked.ino, 1);
    assert_eq!(client.known_inodes(), 6, "it was seen under two names");
    client.forget(linked.ino, 1);
    assert_eq!(client.known_inodes(), 5);
}

#[test]
fn what_vanishes_under_the_listing_has_no_attributes() {
    let cluster = Cluster::new();
    let client = cluster.client();
    block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).expect("made");
    cluster.on_request(|_, _, request| {
        let is_stat = matches!(request.op, Op::DirGetAttr(_));
        is_stat.then_some(Fate::Answer(Err(Refusal::Errno(Errno::ESTALE))))
    });
    let page = block_on(client.readdir(ROOT, Ino::ROOT, 0, 10, true)).expect("read");
    assert_eq!((page.len(), page[0].kind, page[0].attr.is_none()), (1, FileKind::Directory, true));
}

#[test]
fn only_directories_are_listed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = block_on(client.create(ROOT, Ino::ROOT, &name("a"), file(), true, false));
    let ino = made.expect("made").0.ino;
    let list = |ino| block_on(client.readdir(ROOT, ino, 0, 10, false));
    assert_eq!(list(ino), Err(Errno::ENOTDIR));
    assert_eq!(list(Ino(99)), Err(Errno::ESTALE));
    let end = block_on(client.readdir(ROOT, Ino::ROOT, u64::MAX, 10, false));
    assert_eq!(end, Ok(Vec::new()));
}
