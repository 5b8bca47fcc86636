use pando_types::{FileKind, Timestamp};

use super::*;

const OPEN: Search = Search::new(0o755, 0, 0);
const NOBODY: Credentials = Credentials { uid: 9, gid: 9, groups: Vec::new() };

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("valid")
}

fn attr(ino: u64, mode: u16) -> Attr {
    let time = Timestamp::default();
    Attr {
        ino: Ino(ino),
        kind: FileKind::Directory,
        mode,
        nlink: 2,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        data_version: 0,
        change: 0,
        project: 0,
    }
}

fn found(table: &Table, parent: u64, text: &str, ino: u64, version: u64) -> u64 {
    table.found((parent, &name(text)), &attr(ino, 0o755), Some(OPEN), version).0
}

fn way(table: &Table, node: u64, by: &Credentials) -> Option<Vec<u64>> {
    match table.way([node].into_iter(), by) {
        Way::Sure(trail) => Some(trail.dirs.iter().map(|dir| dir.0).collect()),
        Way::Unsure => None,
        Way::OfNoDirectory => panic!("{node} is a directory"),
    }
}

fn news(version: u64, dirs: &[u64]) -> News {
    let changed = dirs.iter().map(|dir| (version, Ino(*dir))).collect();
    News { since: version - 1, version, changed }
}

/// `/a/b`: 20 and 21.
fn begun() -> Table {
    let table = Table::default();
    table.begin(10);
    assert_eq!(found(&table, ROOT, "a", 20, 10), 20);
    assert_eq!(found(&table, 20, "b", 21, 10), 21);
    table
}

#[test]
fn a_way_names_all_directories_up_to_the_root() {
    let table = begun();
    assert_eq!(way(&table, 21, &NOBODY), Some(vec![21, 20, ROOT]));
    assert_eq!(way(&table, ROOT, &NOBODY), Some(vec![ROOT]));
    let two = table.way([21, 20].into_iter(), &NOBODY);
    assert!(matches!(two, Way::Sure(trail) if trail.version == 10 && trail.dirs.len() == 3));
    assert_eq!(table.way([77].into_iter(), &NOBODY), Way::OfNoDirectory);
    assert_eq!(table.edges(21), [(20, name("b")), (ROOT, name("a"))]);
}

#[test]
fn news_put_what_they_name_and_what_is_beneath_in_doubt_until_it_is_found_again() {
    let table = begun();
    table.hear(&news(11, &[20]));
    assert_eq!((way(&table, 20, &NOBODY), way(&table, 21, &NOBODY)), (None, None));
    table.hear(&news(12, &[20]));
    assert_eq!(found(&table, ROOT, "a", 20, 11), 20);
    assert_eq!(way(&table, 20, &NOBODY), None, "an answer from before the last change");
    assert_eq!(found(&table, ROOT, "a", 20, 12), 20);
    assert_eq!(way(&table, 21, &NOBODY), Some(vec![21, 20, ROOT]));
}

#[test]
fn who_has_missed_news_is_sure_of_nothing() {
    let table = begun();
    let missed = News { since: 15, version: 16, changed: Vec::new() };
    table.hear(&missed);
    assert_eq!(way(&table, 20, &Credentials::ROOT), None);
    found(&table, ROOT, "a", 20, 16);
    assert_eq!(way(&table, 20, &NOBODY), Some(vec![20, ROOT]));
}

#[test]
fn a_directory_found_elsewhere_is_another_node_and_the_old_one_leads_nowhere() {
    let table = begun();
    let (node, is_sure) = table.found((ROOT, &name("z")), &attr(20, 0o755), Some(OPEN), 10);
    assert!(is_sure && node >= EXTRA);
    assert_eq!(table.ino(node), Ino(20));
    assert_eq!((way(&table, 20, &NOBODY), way(&table, 21, &NOBODY)), (None, None));
    assert_eq!(way(&table, node, &NOBODY), Some(vec![20, ROOT]));
    // Back at its first place, it is a third one: who held the first cannot have come this way.
    let third = found(&table, ROOT, "a", 20, 10);
    assert!(third != 20 && third != node);
    assert_eq!(table.forget(node, 1), Ino(20));
    assert_eq!(way(&table, third, &NOBODY), Some(vec![20, ROOT]));
}

#[test]
fn nobody_comes_through_a_directory_he_may_not_search() {
    let table = begun();
    let closed = Search::new(0o700, 0, 0);
    table.hear(&news(11, &[20]));
    table.found((ROOT, &name("a")), &attr(20, 0o700), Some(OPEN), 11);
    assert_eq!(way(&table, 20, &NOBODY), Some(vec![20, ROOT]), "to it, not through it");
    assert_eq!(way(&table, 21, &NOBODY), None);
    assert_eq!(way(&table, 21, &Credentials::ROOT), Some(vec![21, 20, ROOT]));
    // Told by who looked something up in it: it was changed while it had no subdirectories.
    let table = begun();
    let (node, is_sure) = table.found((20, &name("c")), &attr(22, 0o755), Some(closed), 10);
    assert!(is_sure && node == 22);
    assert_eq!(way(&table, 22, &Credentials::ROOT), None, "20 is to be read anew");
}

#[test]
fn the_roots_permissions_are_those_told_last() {
    let table = Table::default();
    table.begin(1);
    let (node, ..) = table.found((ROOT, &name("a")), &attr(20, 0o755), None, 1);
    assert_eq!(way(&table, node, &NOBODY), None, "nobody has told who may search the root");
    found(&table, ROOT, "a", 20, 1);
    assert_eq!(way(&table, node, &NOBODY), Some(vec![20, ROOT]));
    table.hear(&news(2, &[ROOT]));
    assert_eq!(way(&table, node, &NOBODY), None);
    assert_eq!(way(&table, node, &Credentials::ROOT), Some(vec![20, ROOT]));
}

#[test]
fn what_the_kernel_moves_keeps_its_number_and_is_sure_once_it_was_seen_there() {
    let table = begun();
    let (from, to) = (name("a"), name("z"));
    assert_eq!(table.renamed((ROOT, &from), (ROOT, &to), false), [Some(20), None]);
    assert_eq!(way(&table, 21, &NOBODY), None);
    table.confirm(20, (ROOT, &to), &attr(99, 0o755), Some(OPEN), 10);
    assert_eq!(way(&table, 21, &NOBODY), None, "something else is there");
    table.confirm(20, (ROOT, &to), &attr(20, 0o755), Some(OPEN), 10);
    assert_eq!(way(&table, 21, &NOBODY), Some(vec![21, 20, ROOT]));
    assert_eq!(found(&table, ROOT, "z", 20, 10), 20);
    // Nobody knows whether the kernel has heard of it.
    table.abandon(20);
    assert_eq!(way(&table, 21, &NOBODY), None);
    assert_ne!(found(&table, ROOT, "z", 20, 10), 20);
}

#[test]
fn an_exchange_moves_both_and_a_replaced_directory_is_nowhere() {
    let table = begun();
    found(&table, ROOT, "x", 30, 10);
    let (a, x) = (name("a"), name("x"));
    assert_eq!(table.renamed((ROOT, &a), (ROOT, &x), true), [Some(20), Some(30)]);
    table.confirm(20, (ROOT, &x), &attr(20, 0o755), Some(OPEN), 10);
    table.confirm(30, (ROOT, &a), &attr(30, 0o755), Some(OPEN), 10);
    assert_eq!(way(&table, 21, &NOBODY), Some(vec![21, 20, ROOT]));
    assert_eq!(table.edges(30), [(ROOT, name("a"))]);
    assert_eq!(table.renamed((ROOT, &a), (ROOT, &x), false), [Some(30), None]);
    assert_eq!(table.edges(20), []);
}

#[test]
fn of_two_nodes_of_a_directory_one_is_sure() {
    let table = begun();
    // Somebody finds it at its new place before the kernel hears that it has moved it there itself.
    let other = found(&table, ROOT, "z", 20, 10);
    let moved = table.renamed((ROOT, &name("a")), (ROOT, &name("z")), false);
    assert_eq!(moved, [Some(20), None]);
    table.confirm(20, (ROOT, &name("z")), &attr(20, 0o755), Some(OPEN), 10);
    assert_eq!(way(&table, 20, &NOBODY), Some(vec![20, ROOT]));
    assert_eq!(way(&table, other, &NOBODY), None);
}

#[test]
fn a_directory_that_was_just_made_is_asked_for_once_more() {
    let table = begun();
    assert_eq!(table.made((21, &name("new")), Ino(40)), 40);
    assert_eq!(way(&table, 40, &Credentials::ROOT), None);
    assert_eq!(found(&table, 21, "new", 40, 10), 40);
    assert_eq!(way(&table, 40, &NOBODY), Some(vec![40, 21, 20, ROOT]));
}

#[test]
fn a_node_goes_with_its_last_lookup() {
    let table = begun();
    found(&table, ROOT, "a", 20, 10);
    assert_eq!((table.forget(20, 1), table.len()), (Ino(20), 2));
    assert_eq!((table.forget(20, 1), table.len()), (Ino(20), 1));
    assert_eq!(way(&table, 21, &Credentials::ROOT), None);
    assert_eq!(table.forget(77, 1), Ino(77), "a file");
    assert_eq!(found(&table, ROOT, "a", 20, 10), 20);
}

#[test]
fn changed_attributes_matter_if_they_change_who_may_search() {
    let table = begun();
    table.changed(20, &attr(20, 0o4755));
    assert!(way(&table, 21, &NOBODY).is_some());
    table.changed(20, &attr(20, 0o750));
    assert_eq!(way(&table, 21, &Credentials::ROOT), None);
    let table = begun();
    table.changed(ROOT, &attr(ROOT, 0o700));
    assert_eq!(way(&table, 20, &NOBODY), None);
}

#[test]
fn a_node_is_adrift_once_the_kernel_was_told_that_its_name_leads_elsewhere() {
    for (text, ino) in [("a", None), ("a", Some(50))] {
        let table = begun();
        table.hear(&news(11, &[20]));
        assert!(!table.is_adrift([21].into_iter()));
        let node = ino.map(|ino| found(&table, ROOT, text, ino, 11));
        table.answered((ROOT, &name(text)), node);
        assert!(table.is_adrift([21].into_iter()) && table.is_adrift([20, 21].into_iter()));
        assert!(!table.is_adrift([].into_iter()));
        // Found again, it is another node: who held it goes on holding it.
        assert_ne!(found(&table, ROOT, "z", 20, 11), 20);
        assert!(table.is_adrift([21].into_iter()));
    }
}

#[test]
fn a_name_that_was_missing_for_a_moment_leads_to_the_same_node_and_can_be_moved() {
    let table = begun();
    table.answered((ROOT, &name("a")), None);
    assert_eq!(way(&table, 20, &NOBODY), None);
    assert_eq!(found(&table, ROOT, "a", 20, 10), 20);
    assert_eq!(way(&table, 21, &NOBODY), Some(vec![21, 20, ROOT]));
    assert!(!table.is_adrift([21].into_iter()));
    let moved = table.renamed((ROOT, &name("a")), (ROOT, &name("z")), false);
    assert_eq!(moved, [Some(20), None]);
}
