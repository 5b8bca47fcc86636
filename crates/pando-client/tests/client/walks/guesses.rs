//! Rounds in which the ids of a path are guessed (InfiniFS §3.3.2, Figure 5), over directories that
//! have split (GIGA+).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pando_client::{Client, Options, block_on};
use pando_types::op::Op;
use pando_types::reply::{Body, SplitHistory, Spread};
use pando_types::{Errno, Glimpse, Ino, PartitionIndex, Radix, ShardIndex};

use crate::fake::{Cluster, Fate};
use crate::walks::remembered::{deep, mv, paths};

/// Makes directories, of which some were renamed, or directories above them.
fn grown(draw: &mut fastrand::Rng, cluster: &Arc<Cluster>) -> Vec<String> {
    let maker = cluster.client();
    let mut dirs = vec![String::new()];
    for _ in 0..40 {
        let parent = dirs[draw.usize(..dirs.len())].clone();
        let name = format!("{parent}/{}", ["a", "b", "c", "d"][draw.usize(..4)]);
        if block_on(paths(&maker).mkdir(name.as_bytes(), 0o755)).is_ok() {
            dirs.push(name);
        }
        if draw.u64(..3) == 0 && dirs.len() > 2 {
            let from = dirs[1 + draw.usize(..dirs.len() - 1)].clone();
            let under = dirs[draw.usize(..dirs.len())].clone();
            let to = format!("{under}/{}", ["x", "y", "a", "b"][draw.usize(..4)]);
            let is_taken = dirs.contains(&to);
            if is_taken || under == from || under.starts_with(&format!("{from}/")) {
                continue;
            }
            mv(&maker, &from, &to);
            for dir in &mut dirs {
                if *dir == from || dir.starts_with(&format!("{from}/")) {
                    *dir = format!("{to}{}", &dir[from.len()..]);
                }
            }
        }
    }
    dirs.remove(0);
    dirs
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Splits the directory at `path`: as far as it may, here and there, or not at all.
fn split(draw: &mut fastrand::Rng, cluster: &Cluster, path: &str) {
    let namespace = &mut cluster.state().namespace;
    let dir = namespace.path(&names(path)).pop().unwrap_or(pando_types::DirRef::ROOT);
    match draw.u64(..3) {
        0 => {}
        1 => namespace.split_all(dir),
        _ => {
            for _ in 0..draw.u64(..12) {
                let partitions = namespace.partitions(dir);
                let which = draw.usize(..partitions.len());
                namespace.split_if_it_may(dir, partitions[which].0);
            }
        }
    }
}

/// Costs of a walk to an absent name.
#[derive(Debug)]
struct Cost {
    rounds: u64,
    repeats: u64,
    /// Lookups, redirected ones included: the request itself, and those of components that were
    /// asked for alone.
    lookups: u64,
    redirects: u64,
    /// Messages of rounds to the shard that got most.
    frames: u64,
}

impl Cost {
    /// Trips one after the other, without the request itself and redirects.
    fn trips(&self) -> u64 {
        self.rounds + self.repeats + self.lookups - self.redirects - 1
    }
}

fn cost(cluster: &Cluster, client: &Client, dir: &str) -> Cost {
    let before = (client.path_stats(), client.counters().redirects());
    cluster.take_log();
    let file = format!("{dir}/file");
    assert_eq!(block_on(paths(client).stat(file.as_bytes())), Err(Errno::ENOENT), "{file}");
    let (mut lookups, mut frames) = (0, BTreeMap::<_, u64>::new());
    for (shard, request) in cluster.take_log() {
        match request.op {
            Op::Lookup(..) => lookups += 1,
            Op::Glimpse(..) => *frames.entry(shard).or_default() += 1,
            other => panic!("{other:?}"),
        }
    }
    let after = client.path_stats();
    Cost {
        rounds: after.rounds - before.0.rounds,
        repeats: after.repeats - before.0.repeats,
        lookups,
        redirects: client.counters().redirects() - before.1,
        frames: frames.into_values().max().unwrap_or(0),
    }
}

/// A client that remembers partitions, but no paths.
fn without_memory(cluster: &Arc<Cluster>) -> Client {
    cluster.client_with(Options { paths_bytes: 0, ..Options::default() })
}

#[test]
fn there_are_no_more_rounds_than_wrong_guesses_and_one() {
    let (mut split_unknown, mut wrong_and_split) = (0, 0);
    for seed in 0..90 {
        let mut draw = fastrand::Rng::with_seed(seed);
        let cluster = match seed % 3 {
            0 => Cluster::new(),
            1 => Cluster::with_shards(9, 2),
            _ => Cluster::with_shards(16, 8),
        };
        let dirs = grown(&mut draw, &cluster);
        let splits = seed >= 30;
        if splits {
            dirs.iter().for_each(|dir| split(&mut draw, &cluster, dir));
            split(&mut draw, &cluster, "");
        }
        cluster.state().delay = draw.u32(..3);
        for dir in &dirs {
            let wrong = cluster.state().namespace.wrong_guesses(&names(dir));
            let client = without_memory(&cluster);
            let unknown = cost(&cluster, &client, dir);
            let told = format!("seed {seed}: {dir}: {wrong} wrong, {unknown:?}");
            assert!(unknown.trips() - unknown.repeats <= wrong + 1, "{told}");
            assert!(unknown.repeats <= unknown.rounds, "{told}");
            assert!(unknown.frames <= unknown.rounds + unknown.repeats, "{told}");
            assert!(splits || unknown.repeats == 0, "{told}");
            split_unknown += unknown.repeats;
            wrong_and_split += u64::from(wrong > 0 && unknown.repeats > 0);

            let known = cost(&cluster, &client, dir);
            let told = format!("seed {seed}: {dir}: {wrong} wrong, now known: {known:?}");
            assert!(known.trips() <= wrong + 1, "{told}");
            assert!(known.frames <= known.rounds, "{told}");
            assert_eq!((known.repeats, known.redirects), (0, 0), "{told}");
        }
    }
    assert!(split_unknown > 500 && wrong_and_split > 100, "{split_unknown} {wrong_and_split}");
}

#[test]
fn figure_5() {
    for splits in [false, true] {
        let cluster = Cluster::new();
        let maker = cluster.client();
        for path in ["/A", "/X", "/X/Y", "/X/Y/Z"] {
            block_on(paths(&maker).mkdir(path.as_bytes(), 0o755)).expect("made");
            if splits {
                let namespace = &mut cluster.state().namespace;
                let dir = namespace.path(&names(path)).pop().expect("it was made");
                namespace.split_all(dir);
            }
        }
        let client = without_memory(&cluster);
        cost(&cluster, &client, "/X/Y/Z");
        assert_eq!(cost(&cluster, &client, "/X/Y/Z").trips(), 1, "(a): all guessed right");
        mv(&maker, "/X", "/A/X");
        cost(&cluster, &client, "/A/X/Y/Z");
        let moved = cost(&cluster, &client, "/A/X/Y/Z").trips();
        assert_eq!(moved, 2, "(b): X's id is not what its place says");
    }
}

/// Makes a path of this depth, and splits all its directories.
fn deep_and_split(cluster: &Arc<Cluster>, depth: usize) -> String {
    let dir = deep(cluster, depth);
    let namespace = &mut cluster.state().namespace;
    for dir in namespace.path(&names(&dir)) {
        namespace.split_all(dir);
    }
    dir
}

#[test]
fn however_many_directories_have_split_unnoticed_they_are_asked_for_once_more_together() {
    for depth in [2, 5, 20] {
        let cluster = Cluster::new();
        let dir = deep_and_split(&cluster, depth);
        let client = without_memory(&cluster);
        let unknown = cost(&cluster, &client, &dir);
        assert_eq!((unknown.rounds, unknown.repeats, unknown.frames), (1, 1, 2), "depth {depth}");
        let known = cost(&cluster, &client, &dir);
        assert_eq!((known.trips(), known.frames), (1, 1), "depth {depth}");
    }
}

#[test]
fn what_is_known_of_partitions_that_are_gone_costs_one_trip_once() {
    let cluster = Cluster::new();
    let dir = deep_and_split(&cluster, 6);
    let client = without_memory(&cluster);
    cost(&cluster, &client, &dir);
    {
        let namespace = &mut cluster.state().namespace;
        for dir in namespace.path(&names(&dir)) {
            loop {
                let partitions = namespace.partitions(dir);
                let last =
                    partitions.iter().map(|(i, _)| *i).filter(|i| namespace.may_merge(dir, *i));
                let Some(last) = last.max() else { break };
                namespace.merge(dir, last);
            }
            assert_eq!(namespace.partitions(dir).len(), 1);
        }
    }
    let merged = cost(&cluster, &client, &dir);
    assert_eq!((merged.rounds, merged.repeats), (1, 1));
    let known = cost(&cluster, &client, &dir);
    assert_eq!((known.trips(), known.redirects), (1, 0));
}

#[test]
fn a_directory_that_is_born_again_is_not_looked_for_where_its_last_life_was() {
    let cluster = Cluster::new();
    let dir = deep_and_split(&cluster, 4);
    let client = without_memory(&cluster);
    cost(&cluster, &client, &dir);
    let other = cluster.client();
    for path in ["/0/1/2/3", "/0/1/2", "/0/1"] {
        block_on(paths(&other).rmdir(path.as_bytes())).expect("removed");
    }
    for path in ["/0/1", "/0/1/2", "/0/1/2/3"] {
        block_on(paths(&other).mkdir(path.as_bytes(), 0o755)).expect("made again");
    }
    let reborn = cost(&cluster, &client, &dir);
    assert!(reborn.rounds == 1 && reborn.repeats <= 1, "{reborn:?}");
    assert_eq!(cost(&cluster, &client, &dir).trips(), 1);
}

#[test]
fn slots_that_have_moved_cost_one_trip() {
    let cluster = Cluster::new();
    let dir = deep(&cluster, 8);
    let client = without_memory(&cluster);
    {
        let namespace = &mut cluster.state().namespace;
        for dir in namespace.path(&names(&dir)) {
            let to = ShardIndex((namespace.cluster.home(dir.id).0 + 1) % 4);
            namespace.cluster.hand_over(dir.id.hash_slot(), to).expect("a shard");
        }
    }
    let moved = cost(&cluster, &client, &dir);
    assert_eq!((moved.rounds, moved.repeats), (1, 1), "{moved:?}");
    assert_eq!(cost(&cluster, &client, &dir).trips(), 1);
}

#[test]
fn a_shard_that_sends_a_client_astray_costs_it_a_round_and_no_answer() {
    let ask_home = |_: u64| Glimpse::AskHome;
    let nowhere = |_: u64| Glimpse::Elsewhere(Ino(1), SplitHistory::default());
    let everywhere = |nth: u64| {
        let spread = Spread { base: ShardIndex(nth as u16 % 4), servers: 4, per_server: u16::MAX };
        let leaves =
            vec![(PartitionIndex(nth as u32 % 99), Radix(24)), (PartitionIndex(9), Radix(2))];
        let of = Some(ShardIndex(nth as u16 % 4));
        Glimpse::Elsewhere(Ino(nth), SplitHistory { of, spread: Some(spread), leaves })
    };
    let moved = |nth: u64| {
        let (hash_slot, owner) = (pando_types::HashSlot(nth as u16), ShardIndex(nth as u16 % 4));
        Glimpse::Moved(pando_types::reply::HashSlotNews { hash_slot, version: nth as u32, owner })
    };
    let answers: [fn(u64) -> Glimpse; 4] = [ask_home, nowhere, everywhere, moved];
    for answer in answers {
        let cluster = Cluster::new();
        let dir = deep(&cluster, 6);
        let client = without_memory(&cluster);
        let mut nth = 0;
        cluster.on_request(move |_, shard, request| {
            let Op::Glimpse(_, places) = &request.op else { return None };
            assert!(shard.0 < 4, "there is no {shard:?}");
            let astray = places.iter().map(|_| {
                nth += 1;
                answer(nth)
            });
            Some(Fate::Answer(Ok(Body::Glimpses(astray.collect()))))
        });
        let cost = cost(&cluster, &client, &dir);
        assert!(cost.rounds <= 6 && cost.repeats <= cost.rounds, "{cost:?}");
        assert_eq!(cost.lookups - cost.redirects, 7, "each is asked for alone: {cost:?}");
    }
}

#[test]
fn no_client_waits_for_a_shard_that_need_not_be_asked() {
    let cluster = Cluster::with_shards(64, 1);
    let dir = deep_and_split(&cluster, 5);
    let file = format!("{dir}/file");
    let walk = |client: &Client| {
        assert_eq!(block_on(paths(client).stat(file.as_bytes())), Err(Errno::ENOENT));
        let log = cluster.take_log().into_iter();
        // In rounds, and for the name itself, which is redirected as usual.
        let (rounds, alone): (Vec<_>, Vec<_>) =
            log.partition(|(_, request)| matches!(request.op, Op::Glimpse(..)));
        [rounds, alone].map(|log| log.into_iter().map(|(shard, _)| shard).collect::<BTreeSet<_>>())
    };
    let client = without_memory(&cluster);
    cluster.take_log();
    let ([asked, alone], [owners, _]) = (walk(&client), walk(&client));
    let homes: BTreeSet<ShardIndex> = {
        let namespace = &cluster.state().namespace;
        namespace.path(&names(&dir)).iter().map(|it| namespace.cluster.home(it.id)).collect()
    };
    let is_idle = |it: &&ShardIndex| ![&alone, &owners, &homes].iter().any(|all| all.contains(it));
    let idle = asked.iter().find(is_idle).copied().expect("some are asked in vain");
    cluster.state().delay = 1;
    cluster.on_request(move |_, shard, _| (shard == idle).then_some(Fate::LoseRequest));
    let client = without_memory(&cluster);
    assert!(walk(&client)[0].contains(&idle));
    assert_eq!(client.path_stats().repeats, 1);
}
