//! Loss of power in mode `os`: votes that are not synced, and decisions that are applied again, in
//! any order.

use pando_types::op::Op;
use pando_types::reply::Found;
use pando_types::{DirRef, Errno, SetAttr, ShardIndex};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;

/// Lets coordinators send everything again, the latest message first.
fn say_again_backwards(c: &mut Cluster) {
    c.tick(c.all(), 300_000_000);
    let mut messages = c.take(|_, _| true);
    messages.reverse();
    c.put_back(messages);
    c.settle();
}

/// A directory in the root with a wanted home.
fn dir_at(c: &mut Cluster, stem: &str, is_wanted: impl Fn(ShardIndex) -> bool) -> (String, DirRef) {
    for n in 0..1000 {
        let name = format!("{stem} {n}");
        let dir = c.mkdir(ROOT, &name).unwrap();
        if is_wanted(c.home(dir)) {
            return (name, dir);
        }
    }
    panic!("no directory where one is wanted");
}

/// The decision that makes the new directory is applied again. If the decision that removed the old
/// one were, too, and later, it would take the new one away.
#[test]
fn an_id_is_promised_to_its_next_life_when_the_last_is_durably_over() {
    let mut c = Cluster::new(2, 1000);
    let root_home = c.home(ROOT);
    let (name, old) = dir_at(&mut c, "dir", |home| home != root_home);
    c.settle();
    c.keep_logs();
    c.rmdir(ROOT, &name).unwrap();
    while c.step() {}
    let new = c.mkdir(ROOT, &name).unwrap();
    assert_eq!((new.id, new.ino == old.ino), (old.id, false), "the id is used again");
    while c.step() {}
    c.lose_power(c.home(new));
    say_again_backwards(&mut c);
    c.create(new, "file").unwrap();
    assert_eq!(c.list(new), ["file"]);
    c.unlink(new, "file").unwrap();
    c.rmdir(ROOT, &name).unwrap();
}

/// A directory's permissions change, and the shard of its entry loses its power. The entry is then
/// removed or moved. The decision is told again, and must not miss the entry.
#[test]
fn what_is_decided_once_more_does_not_miss_an_entry_that_is_gone() {
    for is_moved in [false, true] {
        let mut c = Cluster::new(3, 1000);
        let at = c.home(ROOT);
        let (_, parent) = dir_at(&mut c, "parent", |home| home != at);
        let holder = c.home(parent);
        let name = (0..1000)
            .map(|n| format!("dir {n}"))
            .find(|name| {
                let dir = c.mkdir(parent, name).unwrap();
                c.home(dir) != holder && c.home(dir) != at
            })
            .unwrap();
        c.settle();
        let Ok(Found::Dir(before)) = c.lookup(parent, &name) else { panic!("no directory") };
        c.keep_logs();
        let set = SetAttr { mode: Some(0o775), ..SetAttr::default() };
        c.run(c.home(before.dir), Op::DirSetAttr(before.dir, set)).unwrap();
        while c.step() {}
        c.lose_power(holder);
        if is_moved {
            c.rename(parent, &name, ROOT, "moved").unwrap();
        } else {
            c.rmdir(parent, &name).unwrap();
        }
        say_again_backwards(&mut c);
        assert_eq!(c.lookup(parent, &name).unwrap_err(), Errno::ENOENT);
        match c.lookup(ROOT, "moved") {
            Ok(Found::Dir(access)) => assert_eq!((access.dir, is_moved), (before.dir, true)),
            other => assert!(!is_moved, "{other:?}"),
        }
        c.create(parent, "another").unwrap();
    }
}

/// Access metadata are set in the entry that a rename has put there, and in no later one.
#[test]
fn the_entry_of_a_vote_is_durable() {
    let mut c = Cluster::new(3, 1000);
    let at = c.home(ROOT);
    let (name, moved) = dir_at(&mut c, "moved", |home| home != at);
    let home = c.home(moved);
    let (_, to) = dir_at(&mut c, "to", |other| other != at && other != home);
    c.settle();
    c.keep_logs();
    c.rename(ROOT, &name, to, "moved").unwrap();
    while c.step() {}
    // Search permission stays as it is, so the change needs no version.
    let set = SetAttr { mode: Some(0o751), ..SetAttr::default() };
    c.run(home, Op::DirSetAttr(moved, set)).unwrap();
    while c.step() {}
    c.lose_power(c.home(to));
    say_again_backwards(&mut c);
    match c.lookup(to, "moved") {
        Ok(Found::Dir(access)) => assert_eq!((access.dir, access.mode), (moved, 0o751)),
        other => panic!("{other:?}"),
    }
}
