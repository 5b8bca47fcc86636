//! The cases of predictable ids in the paper (InfiniFS §3.3.1, Figure 4). It finds a directory's version through rename lists
//! and back-pointers; here the content record that has an id says that it is taken. The ids are the same.

use pando_types::{DirId, DirRef};

use crate::support::Cluster;

const ROOT: DirRef = DirRef::ROOT;

/// The id that the paper gives to the directory born as `name` in `parent`, with this name version.
fn id(c: &Cluster, parent: DirRef, name: &str, version: u32) -> DirId {
    c.secrets().dir_id(parent.id, &c.name(name), version)
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
fn the_birth_parents_death_does_not_free_the_ids_of_who_left_it() {
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

#[test]
fn a_collision_is_found_and_gives_way_to_the_next_version() {
    let mut c = cluster();
    let a = c.mkdir(ROOT, "A").unwrap();
    for taken in 0..3 {
        let taken = id(&c, a, "B", taken);
        c.occupy(taken);
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
