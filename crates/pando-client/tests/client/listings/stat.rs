//! `stat` of a directory over its partitions.

use pando_client::{Options, block_on};
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, Ino, PartitionIndex, SetAttr};

use crate::fake::{Cluster, Fate, ROOT, name};
use crate::walks::routing::fill;

#[test]
fn partitions_add_up_in_one_round_each() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 300);
    for n in 0..20 {
        block_on(client.mkdir(ROOT, Ino::ROOT, &name(&format!("d{n}")), 0o755)).expect("made");
    }
    for i in [0, 0, 1, 2, 0, 3] {
        cluster.state().namespace.split(DirRef::ROOT, i);
        let attr = block_on(client.getattr(Ino::ROOT)).expect("there");
        assert_eq!((attr.size, attr.nlink, attr.change), (320, 22, 320));
    }
    cluster.take_log();
    block_on(client.getattr(Ino::ROOT)).expect("there");
    let partitions = cluster.state().namespace.partitions(DirRef::ROOT);
    assert!(cluster.take_log().len() <= partitions.len(), "home answers for its own");
}

#[test]
fn splits_during_the_fan_out_neither_lose_nor_double_entries() {
    for client_is_fresh in [false, true] {
        for seed in 0..50_u64 {
            let cluster = Cluster::new();
            let mut client = cluster.client();
            fill(&client, 200);
            cluster.state().namespace.split(DirRef::ROOT, 0);
            cluster.state().namespace.split(DirRef::ROOT, 0);
            if client_is_fresh {
                client = cluster.client();
            }
            let mut random = fastrand::Rng::with_seed(seed);
            cluster.on_request(move |namespace, _, request| {
                if matches!(request.op, Op::PartitionStat(..)) {
                    let partitions = namespace.partitions(DirRef::ROOT);
                    if partitions.len() < 24 {
                        let which = random.usize(..partitions.len());
                        namespace.split(DirRef::ROOT, partitions[which].0.0);
                    }
                }
                None
            });
            let attr = block_on(client.getattr(Ino::ROOT)).expect("there");
            assert_eq!(attr.size, 200, "seed {seed}");
        }
    }
}

#[test]
fn an_answer_without_counts_is_completed_by_all_partitions() {
    for splits in [0, 3] {
        let cluster = Cluster::new();
        let client = cluster.client();
        fill(&client, 100);
        for _ in 0..splits {
            cluster.state().namespace.split(DirRef::ROOT, 0);
        }
        cluster.on_request(|namespace, shard, request| {
            let Op::DirSetAttr(dir, _) = request.op else { return None };
            let Ok(Body::Dir(mut home)) = namespace.run(shard, &Op::DirGetAttr(dir)) else {
                return None;
            };
            home.deltas.clear();
            Some(Fate::Answer(Ok(Body::Dir(home))))
        });
        let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        let attr = block_on(client.setattr(ROOT, Ino::ROOT, set));
        assert_eq!(attr.map(|attr| attr.size), Ok(100));
        let set = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(block_on(client.setattr(ROOT, Ino::ROOT, set)), Err(Errno::EISDIR));
    }
}

#[test]
fn all_partitions_that_are_known_are_asked_in_one_round() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 300);
    for i in [0, 1, 0] {
        cluster.state().namespace.split(DirRef::ROOT, i);
    }
    block_on(client.getattr(Ino::ROOT)).expect("there");
    cluster.state().delay = 3;
    cluster.state().calls_max = 0;
    cluster.take_log();
    let attr = block_on(client.getattr(Ino::ROOT)).expect("there");
    assert_eq!(attr.size, 300);
    let asked = cluster.take_log().len();
    assert!(asked > 2, "one is at home, others are not");
    assert_eq!(cluster.state().calls_max, asked);
}

#[test]
fn no_stat_waits_for_partitions_if_home_has_all() {
    for is_gone in [false, true] {
        let cluster = Cluster::new();
        let client = cluster.client();
        fill(&client, 100);
        for i in [0, 0, 1] {
            cluster.state().namespace.split(DirRef::ROOT, i);
        }
        block_on(client.getattr(Ino::ROOT)).expect("there");
        for i in [3, 2, 1] {
            cluster.state().namespace.merge(DirRef::ROOT, PartitionIndex(i));
        }
        cluster.state().delay = 3;
        cluster.on_request(move |_, _, request| match request.op {
            Op::DirGetAttr(_) if is_gone => Some(Fate::Answer(Err(Refusal::Errno(Errno::ENOENT)))),
            Op::PartitionStat(..) => Some(Fate::LoseRequest),
            _ => None,
        });
        let answer = block_on(client.getattr(Ino::ROOT)).map(|attr| attr.size);
        assert_eq!(answer, if is_gone { Err(Errno::ESTALE) } else { Ok(100) });
        assert!(cluster.state().slept.is_empty(), "nothing was asked twice");
    }
}

#[test]
fn no_stat_waits_for_a_partition_that_another_has_taken_back() {
    let cluster = Cluster::new();
    let client = cluster.client();
    fill(&client, 100);
    for i in [0, 0] {
        cluster.state().namespace.split(DirRef::ROOT, i);
    }
    block_on(client.getattr(Ino::ROOT)).expect("there");
    cluster.state().namespace.merge(DirRef::ROOT, PartitionIndex(2));
    cluster.state().delay = 3;
    cluster.on_request(|_, _, request| match request.op {
        Op::PartitionStat(_, PartitionIndex(2)) => Some(Fate::LoseRequest),
        _ => None,
    });
    let answer = block_on(client.getattr(Ino::ROOT)).map(|attr| attr.size);
    assert_eq!(answer, Ok(100));
    // The first request may have begun to wait before the others were answered.
    assert!(cluster.state().slept.len() <= 1, "{:?}", cluster.state().slept);
}

#[test]
fn a_shard_that_is_away_is_waited_for_once() {
    const PATIENCE: u64 = 3_000_000_000;
    let cluster = Cluster::new();
    let client = cluster.client_with(Options { patience: Some(PATIENCE), ..Options::default() });
    fill(&client, 100);
    cluster.state().namespace.split(DirRef::ROOT, 0);
    block_on(client.getattr(Ino::ROOT)).expect("there");
    cluster.on_request(|_, _, request| match request.op {
        Op::PartitionStat(..) => Some(Fate::LoseRequest),
        _ => None,
    });
    let begun = cluster.state().now;
    assert_eq!(block_on(client.getattr(Ino::ROOT)), Err(Errno::ETIMEDOUT));
    let waited = cluster.state().now - begun;
    assert!((PATIENCE..PATIENCE / 2 * 3).contains(&waited), "{waited}");
}

#[test]
fn whatever_becomes_of_partitions_meanwhile_each_entry_counts_once() {
    for seed in 0..200_u64 {
        let cluster = Cluster::new();
        let client = cluster.client();
        fill(&client, 200);
        for i in [0, 0, 1] {
            cluster.state().namespace.split(DirRef::ROOT, i);
        }
        block_on(client.getattr(Ino::ROOT)).expect("there");
        let mut random = fastrand::Rng::with_seed(seed);
        cluster.on_request(move |namespace, _, request| {
            if !matches!(request.op, Op::PartitionStat(..) | Op::DirGetAttr(_)) {
                return None;
            }
            let partitions = namespace.partitions(DirRef::ROOT);
            let i = partitions[random.usize(..partitions.len())].0;
            match random.u8(..4) {
                0 | 1 if namespace.may_merge(DirRef::ROOT, i) => namespace.merge(DirRef::ROOT, i),
                2 if partitions.len() < 24 => namespace.split(DirRef::ROOT, i.0),
                _ => {}
            }
            None
        });
        for _ in 0..5 {
            let attr = block_on(client.getattr(Ino::ROOT)).expect("there");
            assert_eq!(attr.size, 200, "seed {seed}");
        }
    }
}
