//! From stale maps to the owner.

use pando_client::{Client, IfThere, Then, block_on};
use pando_placement::DirMap;
use pando_types::op::{NewNode, Op};
use pando_types::reply::{Refusal, SplitHistory};
use pando_types::{Attr, DirRef, Errno, FileKind, Ino, Name, PartitionIndex};

use crate::fake::{Cluster, Fate, ROOT, name};

/// Makes a file in the root.
pub fn make(client: &Client, name: &Name, then: Then) -> Result<(Attr, bool), Errno> {
    block_on(client.create(ROOT, Ino::ROOT, name, file(), IfThere::Refuse, then))
}

pub fn file() -> NewNode {
    NewNode { kind: FileKind::Regular, mode: 0o644, rdev: 0, symlink: Vec::new() }
}

/// Makes `count` files `0`, `1`, … in the root.
pub fn fill(client: &Client, count: usize) {
    for n in 0..count {
        let name = name(&n.to_string());
        make(client, &name, Then::Nothing).expect("made");
    }
}

#[test]
fn a_small_directory_costs_one_message_a_call() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.take_log();
    let (attr, _) = make(&client, &name("a"), Then::Nothing).expect("made");
    block_on(client.lookup(ROOT, Ino::ROOT, &name("a"))).expect("found");
    block_on(client.getattr(attr.ino)).expect("there");
    block_on(client.getattr(Ino::ROOT)).expect("there");
    block_on(client.readdir_plus(ROOT, Ino::ROOT, 0, 10)).expect("read");
    block_on(client.unlink(ROOT, Ino::ROOT, &name("a"))).expect("removed");
    assert_eq!(cluster.ops(), ["Create", "Lookup", "GetAttr", "DirGetAttr", "ReadDir", "Unlink"]);
    assert_eq!(client.counters().requests(), 8, "with OpenSession, and Hold before a change");
}

#[test]
fn redirects_converge_keep_the_identity_and_are_remembered() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for i in [0, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7] {
        cluster.state().namespace.split(DirRef::ROOT, i);
    }
    cluster.take_log();
    for n in 0..200 {
        let name = name(&n.to_string());
        make(&client, &name, Then::Nothing).expect("made");
        let log = cluster.take_log();
        assert!(log.iter().all(|(_, request)| request.head.id == log[0].1.head.id));
        assert!(log.len() <= 5, "GIGA+: at most one redirect a level of the split tree");
    }
    let learned = client.counters().redirects();
    assert!(learned > 0);
    for n in 0..200 {
        block_on(client.lookup(ROOT, Ino::ROOT, &name(&n.to_string()))).expect("found");
    }
    assert_eq!(client.counters().redirects(), learned);
    assert!(cluster.state().slept.is_empty());
}

/// GIGA+ §5.4, Figure 9(c), with this client: a new one on 30 servers with 16 partitions each. It
/// begins with the zeroth partition and the list of servers only (§4.2). A test in
/// `pando-placement` runs this over 1,000 seeds.
#[test]
fn a_new_client_on_30_servers_with_16_partitions_each_soon_knows_its_way() {
    let cluster = Cluster::with_shards(30, 16);
    cluster.state().namespace.split_all(DirRef::ROOT);
    let partitions = cluster.state().namespace.partitions(DirRef::ROOT);
    assert_eq!(partitions.len(), 480);
    let (mut worst, mut total) = (Vec::new(), Vec::new());
    for seed in 0..20 {
        let client = cluster.client();
        cluster.take_log();
        let mut worst_request = 0;
        for n in 0..5_000 {
            let found = block_on(client.lookup(ROOT, Ino::ROOT, &name(&format!("{seed}.{n}"))));
            assert_eq!(found, Err(Errno::ENOENT));
            worst_request = worst_request.max(cluster.take_log().len() - 1);
        }
        worst.push(worst_request);
        total.push(client.counters().redirects());
    }
    worst.sort_unstable();
    total.sort_unstable();
    assert!(worst[10] <= 3 && worst[19] <= 10, "{worst:?}");
    assert!(total[10] <= 30, "{total:?}");
    assert!(cluster.state().slept.is_empty(), "a redirect that teaches something costs no pause");
}

/// GIGA+ §3.3, §5.4. While the directory splits, few creates of several clients are misrouted, and
/// the second try is mostly right. After the splits there are none.
#[test]
fn creates_go_astray_only_while_the_directory_splits() {
    const CLIENTS: usize = 4;
    const FILES: usize = 10_000;
    let cluster = Cluster::with_shards(8, 1);
    cluster.on_request(|namespace, _, request| {
        if matches!(request.op, Op::Create { .. }) && request.head.id.sequence % 50 == 0 {
            let partitions = namespace.partitions(DirRef::ROOT);
            let full = partitions.iter().filter(|(_, entries)| *entries > 400);
            full.for_each(|(i, _)| namespace.split_if_it_may(DirRef::ROOT, *i));
        }
        None
    });
    let clients: Vec<_> = (0..CLIENTS).map(|_| cluster.client()).collect();
    let (mut astray, mut last, mut worst) = (0, 0, 0);
    for n in 0..FILES {
        for (who, client) in clients.iter().enumerate() {
            cluster.take_log();
            let name = name(&format!("{who}.{n}"));
            make(client, &name, Then::Nothing).expect("made");
            let wrong = cluster.take_log().len() - 1;
            if wrong > 0 {
                (astray, last, worst) = (astray + 1, n, worst.max(wrong));
            }
        }
    }
    assert_eq!(cluster.state().namespace.partitions(DirRef::ROOT).len(), 8);
    assert!(worst <= 2 && astray <= CLIENTS * 8, "{astray} of {}, {worst}", CLIENTS * FILES);
    assert!(astray * 10_000 <= CLIENTS * FILES * 10, "{astray} of {}", CLIENTS * FILES);
    assert!(last < FILES / 2, "{last}");
}

/// Beyond GIGA+: an answer from the right server tells how deep its partition is. So the partitions
/// that it has split off are found at once.
#[test]
fn a_create_that_stays_tells_where_the_others_went() {
    let cluster = Cluster::with_shards(8, 1);
    let client = cluster.client();
    cluster.state().namespace.split(DirRef::ROOT, 0);
    fill(&client, 20);
    let learned = client.counters().redirects();
    let secrets = cluster.state().namespace.secrets.clone();
    let mut map = DirMap::new();
    map.split(PartitionIndex(0));
    for (step, i) in [0, 1, 0, 1, 2, 3].map(PartitionIndex).into_iter().enumerate() {
        cluster.state().namespace.split(DirRef::ROOT, i.0);
        // A name that has stayed, then one that has moved.
        for at in [i, map.split(i)] {
            let text = |n: &u32| format!("{step}.{}.{n}", at.0);
            let is_there = |n: &u32| map.locate(secrets.order(text(n).as_bytes())).0 == at;
            let name = name(&text(&(0..).find(is_there).expect("half of them, a fourth, ...")));
            make(&client, &name, Then::Nothing).expect("made");
        }
    }
    assert_eq!(client.counters().redirects(), learned);
}

#[test]
fn a_target_that_is_not_ready_is_asked_again_after_pauses() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let mut left = 20;
    cluster.on_request(move |_, _, _| {
        left -= 1;
        let redirect = Refusal::Redirect(SplitHistory::default());
        (left >= 0).then_some(Fate::Answer(Err(redirect)))
    });
    make(&client, &name("a"), Then::Nothing).expect("made");
    let state = cluster.state();
    assert_eq!(state.slept.len(), 16);
    assert!(state.slept.iter().all(|nanos| *nanos <= 250_000_000));
}

#[test]
fn shards_that_send_us_in_circles_are_left_in_the_end() {
    for refusal in [Refusal::AskHome, Refusal::Redirect(SplitHistory::default())] {
        let cluster = Cluster::new();
        let client = cluster.client();
        cluster.on_request(move |_, _, _| Some(Fate::Answer(Err(refusal.clone()))));
        let made = make(&client, &name("a"), Then::Nothing);
        assert_eq!(made, Err(Errno::EIO));
    }
}

#[test]
fn ask_home_forgets_what_was_known_and_home_has_the_last_word() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let name = name("d");
    let made = block_on(client.mkdir(ROOT, Ino::ROOT, &name, 0o755)).expect("made");
    let dir = DirRef {
        id: cluster.state().namespace.secrets.dir_id(DirRef::ROOT.id, &name, 0),
        ino: made.ino,
    };
    cluster.state().namespace.split(dir, 0);
    for n in 0..20 {
        let name = crate::fake::name(&n.to_string());
        block_on(client.create(ROOT, made.ino, &name, file(), IfThere::Refuse, Then::Nothing))
            .expect("made");
    }
    let other = cluster.client();
    block_on(other.rmdir(ROOT, Ino::ROOT, &name)).expect("the fake does not mind entries");
    cluster.take_log();
    for n in 0..20 {
        let name = crate::fake::name(&n.to_string());
        assert_eq!(block_on(client.lookup(ROOT, made.ino, &name)), Err(Errno::ESTALE));
    }
    assert!(cluster.take_log().len() <= 21, "one AskHome, then home for all");
}
