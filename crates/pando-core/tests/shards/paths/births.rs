//! The paper's cases of predictable ids (InfiniFS §3.3.1, Figure 4). The paper finds a directory's
//! version by rename lists and back-pointers. Here the content record of an id tells that the id is
//! taken. The ids are those of the paper.

use pando_core::record::{Content, Record};
use pando_core::{Write, keys};
use pando_types::op::Op;
use pando_types::peer::{Change, Peer, PeerMessage};
use pando_types::reply::Body;
use pando_types::{DirId, DirRef, Ino, ShardIndex};

use crate::support::{Cluster, Message, dir_at};

const ROOT: DirRef = DirRef::ROOT;

/// The id that the paper gives to the directory born as `name` in `parent`, with this name version.
fn id(c: &Cluster, parent: DirRef, name: &str, version: u32) -> DirId {
    c.secrets.dir_id(parent.id, &c.name(name), version)
}

fn cluster() -> Cluster {
    Cluster::new(4, 1000)
}

#[test]
fn creating_hashes_the_birth_triple() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    let b = c.mkdir(a, "B").unwrap();
    assert_eq!((a.id, b.id), (id(&c, ROOT, "A", 0), id(&c, a, "B", 0)), "Figure 4 (a)");
}

#[test]
fn renaming_leaves_the_id_and_the_next_of_that_name_is_born_with_version_1() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    let b = c.mkdir(a, "B").unwrap();
    c.rename(a, "B", ROOT, "B").unwrap();
    assert!(
        c.lookup(ROOT, "B").is_ok_and(|found| format!("{found:?}").contains(&b.id.to_string()))
    );
    let second = c.mkdir(a, "B").unwrap();
    assert_eq!(second.id, id(&c, a, "B", 1), "Figure 4 (b)");
    // Again: two renamed siblings live.
    c.rename(a, "B", ROOT, "C").unwrap();
    assert_eq!(c.mkdir(a, "B").unwrap().id, id(&c, a, "B", 2));
}

#[test]
fn renaming_again_changes_nothing_for_the_birth_parent() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    c.mkdir(a, "B").unwrap();
    c.rename(a, "B", ROOT, "B").unwrap();
    c.rename(ROOT, "B", ROOT, "elsewhere").unwrap();
    let other = c.mkdir(ROOT, "other").unwrap();
    c.rename(ROOT, "elsewhere", other, "deep").unwrap();
    assert_eq!(c.mkdir(a, "B").unwrap().id, id(&c, a, "B", 1));
}

#[test]
fn one_that_returns_to_its_place_has_the_id_that_is_guessed() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    let b = c.mkdir(a, "B").unwrap();
    c.rename(a, "B", ROOT, "B").unwrap();
    c.rename(ROOT, "B", a, "B").unwrap();
    assert_eq!(b.id, id(&c, a, "B", 0));
    c.rmdir(a, "B").unwrap();
    c.settle();
    assert_eq!(c.mkdir(a, "B").unwrap().id, id(&c, a, "B", 0));
}

#[test]
fn deleting_the_renamed_directory_brings_the_version_back_to_zero() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    let b = c.mkdir(a, "B").unwrap();
    c.rename(a, "B", ROOT, "B").unwrap();
    c.rmdir(ROOT, "B").unwrap();
    c.settle();
    let again = c.mkdir(a, "B").unwrap();
    assert_eq!(again.id, id(&c, a, "B", 0), "Figure 4 (c)");
    assert_ne!(again.ino, b.ino, "another directory in the same place");
}

#[test]
fn the_birth_parents_death_does_not_free_the_ids_of_directories_that_left_it() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    c.mkdir(a, "B").unwrap();
    c.rename(a, "B", ROOT, "B").unwrap();
    c.rmdir(ROOT, "A").unwrap();
    c.settle();
    let reborn = c.mkdir(ROOT, "A").unwrap();
    assert_eq!((reborn.id, reborn.ino == a.ino), (a.id, false), "its own id is free");
    assert_eq!(c.mkdir(reborn, "B").unwrap().id, id(&c, reborn, "B", 1), "the first B lives");
    c.rmdir(ROOT, "B").unwrap();
    c.rmdir(reborn, "B").unwrap();
    c.settle();
    assert_eq!(c.mkdir(reborn, "B").unwrap().id, id(&c, reborn, "B", 0));
}

/// Puts the content record of another directory under this id, as if two birth triples had one
/// hash.
fn occupy(c: &mut Cluster, id: DirId) {
    let key = |id| keys::dir(id, keys::Kind::Content, 0);
    let root = c.rows()[&(c.home(ROOT).0, key(ROOT.id))].clone();
    let mut content = Content::decode(&root).unwrap();
    let home = c.home(DirRef { id, ..ROOT });
    content.base.ino = Ino::new(home, (1 << 40) + u64::from(id.0[15]));
    c.write(home, vec![Write::Put(key(id), content.encode())]);
}

#[test]
fn a_collision_is_found_and_gives_way_to_the_next_version() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    for taken in 0..3 {
        let taken = id(&c, a, "B", taken);
        occupy(&mut c, taken);
    }
    let b = c.mkdir(a, "B").unwrap();
    assert_eq!(b.id, id(&c, a, "B", 3));
    c.create(b, "file").unwrap();
    assert_eq!(c.list(a), ["B"]);
    assert_eq!(c.list(b), ["file"]);
}

#[test]
fn all_this_holds_when_the_parent_is_split() {
    let mut c = Cluster::new(4, 6);
    let a = c.mkdir(ROOT, "A").unwrap();
    for n in 0..40 {
        c.create(a, &format!("file {n}")).unwrap();
    }
    c.settle();
    for n in 0..12 {
        let name = format!("D{n}");
        let first = c.mkdir(a, &name).unwrap();
        assert_eq!(first.id, id(&c, a, &name, 0));
        c.rename(a, &name, ROOT, &name).unwrap();
        assert_eq!(c.mkdir(a, &name).unwrap().id, id(&c, a, &name, 1));
        c.rmdir(ROOT, &name).unwrap();
        c.rmdir(a, &name).unwrap();
        c.settle();
        assert_eq!(c.mkdir(a, &name).unwrap().id, id(&c, a, &name, 0));
    }
}

fn makes(peer: &Peer, is_it: impl Fn(&Change) -> bool) -> bool {
    matches!(&peer.message, PeerMessage::Finish(Some(changes)) if changes.iter().any(is_it))
}

/// An empty directory with a partition on a third shard, neither its home nor the root's. Also
/// returns its name and that shard.
fn scattered(
    c: &mut Cluster,
    is_wanted: impl Fn(ShardIndex) -> bool,
) -> (String, DirRef, ShardIndex) {
    let (name, dir) = dir_at(c, ROOT, "dir", is_wanted);
    for n in 0..60 {
        c.create(dir, &format!("f{n}")).unwrap();
    }
    c.settle();
    // Nothing is delivered, so that no partition is merged.
    for name in (0..60).map(|n| format!("f{n}")) {
        let (owner, op) = (c.owner(dir, &name), Op::Unlink(dir, c.name(&name)));
        let tag = c.send(owner, op);
        assert!(c.answer(tag).is_some_and(|answer| answer.is_ok()), "at once");
    }
    c.take(|_, _| true);
    let homes = [c.home(dir), c.home(ROOT)];
    let mut others = c.all().filter(|shard| !homes.contains(shard));
    let has = others.find(|shard| !c.partitions([*shard], dir).is_empty());
    (name, dir, has.expect("it has split"))
}

#[test]
pub fn an_id_is_taken_until_the_last_partition_elsewhere_is_gone() {
    let mut c = Cluster::new(3, 10);
    let at = c.home(ROOT);
    let (name, dir, elsewhere) = scattered(&mut c, |home| home == at);
    c.send(c.home(ROOT), Op::Rmdir(ROOT, c.name(&name)));
    let drops = |peer: &Peer| makes(peer, |change| matches!(change, Change::DropPartition { .. }));
    for _ in 0..1_000 {
        if c.messages().any(|(_, peer)| drops(peer)) {
            break;
        }
        if !c.step() {
            c.tick(c.all(), 300_000_000);
        }
    }
    assert!(c.messages().any(|(_, peer)| drops(peer)), "it is decided");
    // The partition there stays for now.
    c.silence([elsewhere]);
    let next = c.mkdir(ROOT, &name).unwrap();
    assert_ne!(next.id, dir.id, "the id is free too early");
    c.silence([]);
    c.settle();
    c.rmdir(ROOT, &name).unwrap();
    c.settle();
    assert_eq!(c.mkdir(ROOT, &name).unwrap().id, dir.id);
}

/// A shard that lost power may have forgotten that it has applied a decision, and hears it again.
#[test]
pub fn a_burial_that_comes_again_leaves_the_next_life_be() {
    let mut c = Cluster::new(3, 10);
    let coordinator = c.home(ROOT);
    let (name, dir, _) = scattered(&mut c, |home| home != coordinator);
    c.take_sent();
    c.rmdir(ROOT, &name).unwrap();
    c.settle();
    let burial = |peer: &Peer| makes(peer, |change| matches!(change, Change::Bury(_)));
    let mut sent = c.take_sent().into_iter().map(|(.., peer)| peer);
    let mut again = sent.find(burial).expect("it is buried");
    let next = c.mkdir(ROOT, &name).unwrap();
    assert_eq!((next.id, next.ino == dir.ino), (dir.id, false));
    // As if it were of a transaction of which the shard has not heard.
    again.txn.number += 1 << 32;
    c.deliver([(c.home(next), again)]);
    c.settle();
    let parent = c.run(c.home(next), Op::Parent(next));
    assert!(parent.is_ok(), "the next life is buried");
}

/// Takes a message that is on its way, to be delivered later.
fn held(c: &mut Cluster, is_it: impl Fn(&Peer) -> bool) -> Vec<Message> {
    for _ in 0..1_000 {
        let held = c.take(|_, peer| is_it(peer));
        if !held.is_empty() {
            return held;
        }
        if !c.step() {
            c.tick(c.all(), 300_000_000);
        }
    }
    panic!("it is not said");
}

/// The shard that must bury the directory hands its hash slot to the coordinator itself. The
/// coordinator hears so before it has the decision that the hash slot is its own. It asks again.
#[test]
fn a_burial_at_the_asking_shard_itself_is_not_forgotten_before_that_shard_knows() {
    let mut c = Cluster::new(3, 10);
    let coordinator = c.home(ROOT);
    let (name, dir, _) = scattered(&mut c, |home| home != coordinator);
    let home = c.home(dir);
    c.send(coordinator, Op::Rmdir(ROOT, c.name(&name)));
    let burial = held(&mut c, |peer| makes(peer, |change| matches!(change, Change::Bury(_))));
    let hand_over = Op::HandOver(home, dir.id.hash_slot(), coordinator);
    assert_eq!(c.ask(home, hand_over), Some(Ok(Body::Done)));
    let taking =
        held(&mut c, |peer| makes(peer, |change| matches!(change, Change::OwnHashSlot(_))));
    c.put_back(burial);
    while c.step() {}
    c.put_back(taking);
    c.settle();
    let next = c.mkdir(ROOT, &name).unwrap();
    assert_eq!(next.id, dir.id, "it is not buried, and its id stays taken");
}
