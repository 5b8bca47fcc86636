//! Listings over partitions.

use pando_client::{Client, DirEntry, Then, block_on};
use pando_types::op::Op;
use pando_types::reply::Refusal;
use pando_types::{DirRef, Errno, FileKind, Ino};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::{fill, make};

/// Reads page by page. Positions must ascend.
fn pages(limit: u32, read: impl Fn(u64) -> Result<Vec<DirEntry>, Errno>) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = Vec::new();
    loop {
        let position = entries.last().map_or(0, |last| last.position);
        let page = read(position).expect("read");
        assert!(page.len() <= limit as usize);
        let Some(first) = page.first() else { return entries };
        assert!(page.is_sorted_by(|a, b| a.position < b.position) && first.position > position);
        entries.extend(page);
    }
}

/// Lists the names of the root, page by page, and sorts them.
fn list(client: &Client, limit: u32) -> Vec<String> {
    let entries = pages(limit, |at| block_on(client.readdir(ROOT, Ino::ROOT, at, limit)));
    assert!(entries.iter().all(|entry| entry.attr.is_none()));
    let mut names: Vec<_> = entries.iter().map(|entry| entry.name.to_string()).collect();
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
        assert_eq!(list(&client, limit), all);
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
        assert_eq!(list(&client, limit), all);
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
    let listed = pages(3, |at| block_on(client.readdir_plus(ROOT, Ino::ROOT, at, 3)));
    assert_eq!(listed.len(), 7);
    assert!(listed.iter().all(|entry| entry.attr.as_ref().map(|attr| attr.ino) == Some(entry.ino)));
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
    let page = block_on(client.readdir_plus(ROOT, Ino::ROOT, 0, 10)).expect("read");
    assert_eq!((page.len(), page[0].kind, page[0].attr.is_none()), (1, FileKind::Directory, true));
}

#[test]
fn only_directories_are_listed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let made = make(&client, &name("a"), Then::Nothing);
    let ino = made.expect("made").0.ino;
    let list = |ino| block_on(client.readdir(ROOT, ino, 0, 10));
    assert_eq!(list(ino), Err(Errno::ENOTDIR));
    assert_eq!(list(Ino(99)), Err(Errno::ESTALE));
    let end = block_on(client.readdir(ROOT, Ino::ROOT, u64::MAX, 10));
    assert_eq!(end, Ok(Vec::new()));
}
