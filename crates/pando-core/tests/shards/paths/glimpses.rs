//! Answers of shards about components of a path, in directories with guessed ids (InfiniFS §3.3.2),
//! when the directories are split. A shard tells where the name is. It tells nothing that must be
//! waited for, or is forbidden.

use pando_placement::DirMap;
use pando_types::op::Op;
use pando_types::reply::{Body, Found};
use pando_types::{Credentials, DirId, DirRef, Glimpse, SetAttr, ShardIndex};

use crate::growth::splits::{fill, is_upper};
use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 4;

/// A directory with `count` subdirectories, named `d0` and so on, and partitions on all shards.
fn split(count: u32) -> (Cluster, DirRef) {
    let mut c = Cluster::new(SHARDS, 6);
    let dir = c.mkdir(ROOT, "split").unwrap();
    fill(&mut c, dir, "f", 60);
    for n in 0..count {
        c.mkdir(dir, &format!("d{n}")).unwrap();
    }
    c.settle();
    for shard in 0..SHARDS {
        assert!(!c.partitions([ShardIndex(shard)], dir).is_empty(), "shard {shard} has none of it");
    }
    (c, dir)
}

fn glimpse(c: &mut Cluster, shard: ShardIndex, dir: DirId, name: &str) -> Glimpse {
    let places = vec![(dir, c.name(name))];
    match c.ask(shard, Op::Glimpse(shard, places)) {
        Some(Ok(Body::Glimpses(mut seen))) if seen.len() == 1 => seen.remove(0),
        other => panic!("{other:?}"),
    }
}

fn all(c: &mut Cluster, dir: DirId, name: &str) -> Vec<Glimpse> {
    (0..SHARDS).map(|shard| glimpse(c, ShardIndex(shard), dir, name)).collect()
}

#[test]
fn the_owner_of_a_name_tells_where_it_leads_and_all_others_where_it_is() {
    let (mut c, dir) = split(12);
    let mut owners = Vec::new();
    for n in 0..12 {
        let name = format!("d{n}");
        let Ok(Found::Dir(below)) = c.lookup(dir, &name) else { panic!("{name} is there") };
        let seen = all(&mut c, dir.id, &name);
        let is_owner = |it: &Glimpse| matches!(it, Glimpse::Dir { dir: d, access, .. } if (*d, *access) == (dir.ino, below));
        let owner = ShardIndex(seen.iter().position(is_owner).expect("somebody has it") as u16);
        let mut map = DirMap::new();
        for (shard, glimpse) in (0..).map(ShardIndex).zip(&seen) {
            match glimpse {
                _ if shard == owner => {}
                Glimpse::Elsewhere(ino, history) => {
                    assert_eq!((*ino, history.of), (dir.ino, Some(shard)));
                    let mut alone = DirMap::new();
                    alone.learn(history);
                    let order = c.secrets.order(name.as_bytes());
                    let candidates = alone.candidates(c.home(dir), order, SHARDS);
                    assert!(candidates.contains(&owner), "{name}: {candidates:?}");
                    map.learn(history);
                }
                other => panic!("{name} at {shard:?}: {other:?}"),
            }
        }
        let order = c.secrets.order(name.as_bytes());
        assert_eq!(map.shard(c.home(dir), map.locate(order).0), owner);
        owners.push(owner);
    }
    owners.sort_unstable();
    owners.dedup();
    assert!(owners.len() > 1, "{owners:?}");
}

#[test]
fn of_what_leads_to_no_directory_its_owner_tells_nothing() {
    let (mut c, dir) = split(0);
    for name in ["f0", "f1", "f2", "nothing"] {
        let seen = all(&mut c, dir.id, name);
        let nothing = seen.iter().filter(|it| **it == Glimpse::Nothing).count();
        let elsewhere = seen.iter().filter(|it| matches!(it, Glimpse::Elsewhere(..))).count();
        assert_eq!((nothing, elsewhere), (1, 3), "{name}: {seen:?}");
    }
}

#[test]
fn of_an_unused_id_its_home_tells_nothing_and_others_that_they_are_not() {
    let mut c = Cluster::new(SHARDS, 6);
    let id = c.secrets.dir_id(DirId::ROOT, &c.name("none"), 0);
    let home = c.home(DirRef { id, ino: pando_types::Ino(0) });
    for shard in (0..SHARDS).map(ShardIndex) {
        let expected = if shard == home { Glimpse::Nothing } else { Glimpse::AskHome };
        assert_eq!(glimpse(&mut c, shard, id, "x"), expected);
    }
}

#[test]
fn a_caller_that_may_not_search_a_directory_does_not_hear_where_its_names_are() {
    let (mut c, dir) = split(3);
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    c.by = Credentials { uid: 1000, gid: 1000, ..Credentials::default() };
    let elsewhere =
        |seen: &[Glimpse]| seen.iter().filter(|it| matches!(it, Glimpse::Elsewhere(..))).count();
    assert_eq!(elsewhere(&all(&mut c, dir.id, "d1")), 3);
    c.by = Credentials::ROOT;
    c.done(&Op::DirSetAttr(dir, mode)).unwrap();
    c.settle();
    assert_eq!(elsewhere(&all(&mut c, dir.id, "d1")), 3, "the superuser may");
    c.by = Credentials { uid: 1000, gid: 1000, ..Credentials::default() };
    assert_eq!(all(&mut c, dir.id, "d1"), vec![Glimpse::Nothing; 4]);
}

#[test]
fn while_permissions_change_no_caller_hears_what_may_be_refused_a_moment_later() {
    let (mut c, dir) = split(3);
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    let home = c.home(dir);
    let tag = c.send(home, Op::DirSetAttr(dir, mode));
    let mut answer = c.answer(tag);
    assert_eq!(answer, None, "it spans shards");
    c.by = Credentials { uid: 1000, gid: 1000, ..Credentials::default() };
    let mut held_back = 0;
    while answer.is_none() {
        // A shard that still answers has not heard of the change, so the change has not been
        // answered.
        held_back += all(&mut c, dir.id, "d1").iter().filter(|it| **it == Glimpse::Nothing).count();
        assert!(c.step(), "it comes to its end");
        answer = c.answer(tag);
    }
    assert!(held_back > 4, "{held_back}");
    assert_eq!(all(&mut c, dir.id, "d1"), vec![Glimpse::Nothing; 4]);
}

#[test]
fn nothing_is_told_of_a_half_that_is_about_to_go_elsewhere() {
    let mut c = Cluster::with(2, |config| {
        (config.split_threshold, config.partitions_per_shard) = (40, 1);
    });
    let dir = c.mkdir(ROOT, "big").unwrap();
    let upper = (0..).map(|n| format!("d{n}")).find(|name| is_upper(&c, name)).unwrap();
    c.mkdir(dir, &upper).unwrap();
    c.settle();
    let home = c.home(dir);
    for n in 0.. {
        c.ask(home, c.create_op(dir, &format!("f{n}"))).unwrap().unwrap();
        if c.copies() > 0 {
            break;
        }
    }
    let mut kinds = Vec::new();
    loop {
        let seen = glimpse(&mut c, home, dir.id, &upper);
        let is_waiting = {
            let name = c.name(&upper);
            c.ask(home, Op::Lookup(dir, name)).is_none()
        };
        let kind = match seen {
            Glimpse::Dir { .. } => "here",
            Glimpse::Nothing => "waits",
            Glimpse::Elsewhere(..) => "elsewhere",
            other => panic!("{other:?}"),
        };
        assert_eq!(is_waiting, kind == "waits");
        if kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
        if !c.step() {
            break;
        }
    }
    assert_eq!(kinds, ["here", "waits", "elsewhere"]);
}

#[test]
fn where_a_hash_slot_was_it_is_told_where_it_is_now() {
    let (mut c, dir) = split(6);
    let (from, hash_slot) = (c.home(dir), dir.id.hash_slot());
    let to = ShardIndex((from.0 + 1) % SHARDS);
    let begun = c.ask(from, Op::HandOver(from, hash_slot, to)).expect("an answer at once");
    assert_eq!(begun, Ok(Body::Done));
    c.settle();
    let news = c.shard(from).map().clone().news(hash_slot).expect("it has moved");
    assert_eq!(news.owner, to);
    let mut moved = 0;
    for name in (0..6).map(|n| format!("d{n}")) {
        let seen = all(&mut c, dir.id, &name);
        assert_eq!(seen.iter().filter(|it| matches!(it, Glimpse::Dir { .. })).count(), 1, "{name}");
        moved += usize::from(seen[usize::from(from.0)] == Glimpse::Moved(news));
    }
    assert!(moved > 0, "some name is in partition 0");
}
