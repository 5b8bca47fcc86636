//! Listings with pages fetched ahead.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use pando_client::{BUFFERED_MAX, Client, DirEntry, Listing, Options, Then, block_on};
use pando_types::op::Op;
use pando_types::reply::Refusal;
use pando_types::{DirRef, Errno, Ino, ShardIndex};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::{fill, make};

/// Polls that a request takes to its shard, and again back.
const FAR: u32 = 3;
/// Most pages fetched ahead.
const AHEAD_MAX: usize = 4;

/// A cluster with so many files in its root, after so many splits, and a client that has not seen
/// the root.
fn filled(count: usize, splits: u32) -> (Arc<Cluster>, Arc<Client>) {
    let cluster = Cluster::new();
    fill(&cluster.client(), count);
    for _ in 0..splits {
        let namespace = &mut cluster.state().namespace;
        let partitions = namespace.partitions(DirRef::ROOT);
        let largest = partitions.iter().max_by_key(|(_, entries)| *entries);
        let (i, _) = largest.expect("there is one");
        namespace.split(DirRef::ROOT, i.0);
    }
    let client = Arc::new(cluster.client());
    cluster.take_log();
    (cluster, client)
}

fn begin(client: &Arc<Client>, position: u64, page: u32) -> Listing {
    client.listing_in_pages(ROOT, Ino::ROOT, position, page).expect("a directory")
}

/// Adds a page. Positions must ascend.
fn add(all: &mut Vec<DirEntry>, page: Vec<DirEntry>) {
    let last = all.last().map_or(0, |entry| entry.position);
    assert!(page[0].position > last);
    assert!(page.is_sorted_by(|a, b| a.position < b.position));
    all.extend(page);
}

/// Lists the rest. `between` is called before each page.
fn rest(listing: &mut Listing, mut between: impl FnMut(&Listing)) -> Vec<DirEntry> {
    let mut all = Vec::new();
    loop {
        between(listing);
        let page = block_on(listing.next()).expect("listed");
        if page.is_empty() {
            return all;
        }
        add(&mut all, page);
    }
}

fn names(entries: &[DirEntry]) -> BTreeSet<String> {
    let names: BTreeSet<_> = entries.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names.len(), entries.len(), "a name is listed twice");
    names
}

fn numbers(count: usize) -> BTreeSet<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// Number of requests that have reached a shard.
fn pages_asked(cluster: &Cluster) -> usize {
    let state = cluster.state();
    state.log.iter().filter(|(_, request)| matches!(request.op, Op::ReadDir { .. })).count()
}

#[test]
fn where_pages_are_ready_at_once_nothing_is_fetched_ahead_and_the_end_costs_no_request() {
    let (cluster, client) = filled(2000, 0);
    let mut listing = client.listing(ROOT, Ino::ROOT, 0).expect("a directory");
    let mut asked = 0;
    let all = rest(&mut listing, |listing| {
        assert_eq!((pages_asked(&cluster), listing.buffered()), (asked, 0));
        asked += 1;
    });
    assert_eq!(names(&all), numbers(2000));
    assert_eq!(pages_asked(&cluster), 3, "512, 1024, 464");
    assert_eq!(cluster.state().calls_max, 1);
}

#[test]
fn the_first_entries_take_one_page_and_what_comes_ahead_grows_with_what_is_taken() {
    let (cluster, client) = filled(3000, 0);
    cluster.state().delay = FAR;
    let mut listing = begin(&client, 0, 10);
    cluster.state().calls_max = 0;
    for taken in 1..=20 {
        assert!(!block_on(listing.next()).expect("listed").is_empty());
        let state = cluster.state();
        let ahead = state.calls + listing.buffered() / 10;
        if taken == 1 {
            assert_eq!((state.log.len(), state.calls_max), (1, 1), "nothing else was asked");
            assert_eq!(ahead, 0);
        }
        assert!(ahead <= AHEAD_MAX.min(1 << (taken - 1)), "{ahead} ahead after {taken}");
    }
}

#[test]
fn pages_of_several_partitions_are_under_way_at_once() {
    let (cluster, client) = filled(800, 16);
    rest(&mut begin(&client, 0, 100), |_| ());
    cluster.state().delay = FAR;
    cluster.state().calls_max = 0;
    cluster.take_log();
    let all = rest(&mut begin(&client, 0, 100), |_| ());
    assert_eq!(names(&all), numbers(800));
    let most = cluster.state().calls_max;
    assert!((3..=AHEAD_MAX + 1).contains(&most), "{most} under way at once");
    let shards: BTreeSet<ShardIndex> = cluster.take_log().iter().map(|(shard, _)| *shard).collect();
    assert_eq!(shards.len(), 4);
}

#[test]
fn what_is_kept_does_not_grow_with_the_directory() {
    for (count, splits) in [(500, 0), (20_000, 0), (20_000, 16)] {
        let (cluster, client) = filled(count, splits);
        cluster.state().delay = FAR;
        let mut most = 0;
        let mut listing = client.listing(ROOT, Ino::ROOT, 0).expect("a directory");
        let all = rest(&mut listing, |listing| most = most.max(listing.buffered()));
        assert_eq!(names(&all), numbers(count));
        assert!(most <= BUFFERED_MAX, "{most} entries kept of {count}");
        assert!(cluster.state().calls_max <= AHEAD_MAX + 1);
    }
}

/// Whatever its partitions do, each entry that exists throughout is listed once, and others at most
/// once.
#[test]
fn every_entry_is_listed_once_while_the_directory_grows_shrinks_and_splits() {
    for seed in 0..40_u64 {
        let (cluster, client) = filled(300, seed as u32 % 3);
        let busy = cluster.client();
        cluster.state().delay = (seed % 4) as u32;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut splits = random.fork();
        cluster.on_request(move |namespace, _, request| {
            let partitions = namespace.partitions(DirRef::ROOT);
            let (i, _) = partitions[splits.usize(..partitions.len())];
            let is_listing = matches!(request.op, Op::ReadDir { .. });
            if is_listing && partitions.len() < 60 && splits.u8(..3) == 0 {
                namespace.split(DirRef::ROOT, i.0);
            }
            None
        });
        let (mut made, mut gone) = (0, 300);
        let all = rest(&mut begin(&client, 0, 1 + seed as u32 % 9), |_| {
            let new = name(&format!("new{made}"));
            made += 1;
            make(&busy, &new, Then::Nothing).expect("made");
            if gone > 200 && random.bool() {
                gone -= 1;
                block_on(busy.unlink(ROOT, Ino::ROOT, &name(&gone.to_string()))).expect("removed");
            }
        });
        let listed = names(&all);
        assert!(numbers(gone).is_subset(&listed), "seed {seed}");
        assert!(cluster.state().calls <= AHEAD_MAX, "seed {seed}");
    }
}

#[test]
fn a_listing_goes_on_from_any_entry_after_the_directory_has_split() {
    let (cluster, client) = filled(300, 0);
    let before = rest(&mut begin(&client, 0, 1000), |_| ());
    for i in [0, 0, 1, 2, 3, 0, 1] {
        cluster.state().namespace.split(DirRef::ROOT, i);
    }
    cluster.state().delay = FAR;
    for (index, entry) in before.iter().enumerate().step_by(7) {
        let after = rest(&mut begin(&client, entry.position, 20), |_| ());
        assert_eq!(after, before[index + 1..], "after entry {index}");
    }
    assert!(rest(&mut begin(&client, u64::MAX, 20), |_| ()).is_empty());
}

#[test]
fn a_caller_that_no_longer_waits_loses_nothing() {
    let (cluster, client) = filled(300, 4);
    cluster.state().delay = FAR;
    let mut listing = begin(&client, 0, 10);
    let mut all = Vec::new();
    loop {
        // Polled once and dropped, again and again.
        let page = block_on(poll_fn(|context| {
            Poll::Ready(match pin!(listing.next()).poll(context) {
                Poll::Ready(page) => Some(page),
                Poll::Pending => None,
            })
        }));
        match page {
            Some(Ok(page)) if page.is_empty() => break,
            Some(page) => add(&mut all, page.expect("listed")),
            None => {}
        }
    }
    assert_eq!(names(&all), numbers(300));
}

#[test]
fn a_listing_that_is_dropped_leaves_nothing_under_way() {
    let (cluster, client) = filled(300, 8);
    cluster.state().delay = FAR;
    for taken in 0..6 {
        let mut listing = begin(&client, 0, 10);
        for _ in 0..taken {
            block_on(listing.next()).expect("listed");
        }
        drop(listing);
        assert_eq!(cluster.state().calls, 0, "after {taken} pages");
    }
    assert_eq!(Arc::strong_count(&client), 1);
}

/// The call that waits for a failed page gets the error, and may be repeated.
#[test]
fn a_page_that_fails_ahead_is_asked_again_when_it_is_waited_for() {
    let (cluster, client) = filled(400, 8);
    rest(&mut begin(&client, 0, 100), |_| ());
    cluster.state().delay = FAR;
    let (mut seen, mut failed) = (0, 0);
    let all = {
        cluster.on_request(move |_, _, request| {
            seen += u32::from(matches!(request.op, Op::ReadDir { .. }));
            // Never two in a row: a repeated request is answered.
            (seen % 3 == 2).then_some(Fate::Answer(Err(Refusal::Errno(Errno::ESTALE))))
        });
        let mut all = Vec::new();
        let mut listing = begin(&client, 0, 10);
        loop {
            match block_on(listing.next()) {
                Ok(page) if page.is_empty() => break all,
                Ok(page) => add(&mut all, page),
                Err(errno) => {
                    assert_eq!(errno, Errno::ESTALE);
                    failed += 1;
                }
            }
        }
    };
    assert_eq!(names(&all), numbers(400));
    assert!(failed < pages_asked(&cluster) / 3, "some of those that failed were ahead");
}

#[test]
fn lost_requests_are_sent_again_and_a_listing_out_of_patience_goes_on_where_it_was() {
    let (cluster, _) = filled(400, 8);
    for patience in [None, Some(1)] {
        let client = Arc::new(cluster.client_with(Options { patience, ..Options::default() }));
        cluster.state().delay = FAR;
        let mut seen = 0_u32;
        cluster.on_request(move |_, _, request| {
            let is_page = matches!(request.op, Op::ReadDir { .. });
            seen += u32::from(is_page);
            match seen % 5 {
                _ if !is_page => None,
                1 => Some(Fate::LoseReply),
                3 => Some(Fate::Hang(1000)),
                _ => None,
            }
        });
        let mut listing = begin(&client, 0, 10);
        let mut all = Vec::new();
        loop {
            match block_on(listing.next()) {
                Ok(page) if page.is_empty() => break,
                Ok(page) => add(&mut all, page),
                Err(errno) => assert_eq!((errno, patience), (Errno::ETIMEDOUT, Some(1))),
            }
        }
        assert_eq!(names(&all), numbers(400));
        cluster.on_request(|_, _, _| None);
        cluster.state().delay = 0;
    }
}

/// The answer was there long before a call took it, or its patience was over by then. Neither
/// matters.
#[test]
fn a_page_that_timed_out_while_no_caller_waited_for_it_is_asked_again() {
    let (cluster, _) = filled(100, 0);
    let client =
        Arc::new(cluster.client_with(Options { patience: Some(1_000_000), ..Options::default() }));
    cluster.state().delay = FAR;
    let mut listing = begin(&client, 0, 10);
    let [_, second] = [(); 2].map(|()| block_on(listing.next()).expect("listed"));
    let mut hangs = true;
    cluster.on_request(move |_, _, _| {
        std::mem::take(&mut hangs).then_some(Fate::Hang(60_000_000_000))
    });
    let third = block_on(listing.next()).expect("the one that was under way is asked again");
    assert!(third[0].position > second[9].position);
}

#[test]
fn a_directory_that_is_gone_is_stale_and_a_file_is_none() {
    let cluster = Cluster::new();
    let client = Arc::new(cluster.client());
    let made = make(&client, &name("a"), Then::Nothing);
    let ino = made.expect("made").0.ino;
    assert_eq!(client.listing(ROOT, ino, 0).err(), Some(Errno::ENOTDIR));
    assert_eq!(client.listing(ROOT, Ino(99), 0).err(), Some(Errno::ESTALE));
    let dir = block_on(client.mkdir(ROOT, Ino::ROOT, &name("d"), 0o755)).expect("made");
    let mut listing = client.listing(ROOT, dir.ino, 0).expect("a directory");
    block_on(client.rmdir(ROOT, Ino::ROOT, &name("d"))).expect("removed");
    assert_eq!(block_on(listing.next()), Err(Errno::ESTALE));
}
