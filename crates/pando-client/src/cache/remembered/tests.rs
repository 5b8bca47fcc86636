use super::*;
use pando_types::{DirId, DirRef};

const ROOT: Ino = Ino::ROOT;
const OPEN: Search = Search::new(0o755, 0, 0);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("valid")
}

fn access(ino: u64, mode: u16) -> Access {
    let dir = DirRef { id: DirId(u128::from(ino).to_be_bytes()), ino: Ino(ino) };
    Access { dir, mode, uid: 0, gid: 0 }
}

fn put(paths: &RememberedPaths, dir: Ino, text: &str, ino: u64, version: u64) {
    let read = Read { dir, search: OPEN, name: &name(text), access: access(ino, 0o755), version };
    paths.learn(&read);
}

fn get(paths: &RememberedPaths, dir: Ino, text: &str) -> Option<u64> {
    paths.step(&Credentials::ROOT, dir, &name(text)).map(|access| access.dir.ino.0)
}

fn news(since: u64, changed: &[(u64, u64)]) -> News {
    let version = changed.last().map_or(since, |(version, _)| *version);
    News { since, version, changed: changed.iter().map(|(v, ino)| (*v, Ino(*ino))).collect() }
}

fn begun() -> RememberedPaths {
    let paths = RememberedPaths::new(1 << 20);
    paths.begin(10);
    put(&paths, ROOT, "a", 20, 10);
    put(&paths, Ino(20), "b", 21, 10);
    paths
}

#[test]
fn news_drop_what_they_name_and_what_is_beneath() {
    let paths = begun();
    assert_eq!((get(&paths, ROOT, "a"), get(&paths, Ino(20), "b")), (Some(20), Some(21)));
    paths.apply(&news(10, &[(11, 99), (12, 20)]));
    assert_eq!((get(&paths, ROOT, "a"), get(&paths, Ino(20), "b")), (None, None));
    assert_eq!((paths.version(), paths.stats().drops), (12, 2));
}

#[test]
fn a_late_answer_is_not_remembered_if_a_version_since_names_it() {
    let paths = begun();
    paths.apply(&news(10, &[(11, 30), (13, 31)]));
    put(&paths, ROOT, "c", 30, 10);
    assert_eq!(get(&paths, ROOT, "c"), None, "it may be elsewhere since version 11");
    put(&paths, ROOT, "c", 30, 11);
    assert_eq!(get(&paths, ROOT, "c"), Some(30));
    put(&paths, ROOT, "d", 32, 10);
    assert_eq!(get(&paths, ROOT, "d"), Some(32), "nobody named it");
}

#[test]
fn an_answer_from_before_what_is_remembered_of_versions_is_not_taken() {
    let paths = begun();
    paths.apply(&news(50, &[(51, 30)]));
    assert_eq!(paths.stats().directories, 0, "something between may have named anything");
    put(&paths, ROOT, "d", 32, 50);
    assert_eq!(get(&paths, ROOT, "d"), None);
    put(&paths, ROOT, "d", 32, 51);
    assert_eq!(get(&paths, ROOT, "d"), Some(32));
}

#[test]
fn news_heard_twice_or_late_change_nothing() {
    let paths = begun();
    let first = news(10, &[(11, 99)]);
    paths.apply(&first);
    put(&paths, ROOT, "c", 99, 11);
    paths.apply(&first);
    paths.apply(&news(3, &[(4, 20), (11, 99)]));
    assert_eq!((get(&paths, ROOT, "a"), get(&paths, ROOT, "c")), (Some(20), Some(99)));
}

#[test]
fn other_permissions_of_a_directory_drop_it() {
    let paths = begun();
    let closed = Search::new(0o700, 0, 0);
    let read = Read {
        dir: Ino(20),
        search: closed,
        name: &name("n"),
        access: access(40, 0o755),
        version: 10,
    };
    paths.learn(&read);
    assert_eq!((get(&paths, ROOT, "a"), get(&paths, Ino(20), "n")), (None, None));
    let of_root = Read {
        dir: ROOT,
        search: closed,
        name: &name("z"),
        access: access(41, 0o755),
        version: 10,
    };
    paths.learn(&of_root);
    assert_eq!(get(&paths, ROOT, "z"), Some(41));
    assert_eq!(paths.step(&Credentials::new(5, 5, vec![]), ROOT, &name("z")), None);
}

#[test]
fn each_user_is_let_through_as_linux_does() {
    let user = |uid, gid| Credentials::new(uid, gid, vec![77]);
    let cases = [
        (0o700, user(5, 9), true),
        (0o070, user(5, 6), false), // the owner's class, although the group may
        (0o070, user(7, 6), true),
        (0o070, user(7, 8), false),
        (0o007, user(7, 8), true),
        (0o001, user(7, 8), true),
        (0o006, user(7, 8), false),
        (0o000, user(0, 0), true),
    ];
    for (mode, by, may) in cases {
        assert_eq!(Search::new(mode, 5, 6).allows(&by), may, "{mode:o} {by:?}");
    }
    assert!(Search::new(0o070, 5, 77).allows(&user(7, 8)));
}

#[test]
fn a_budget_of_nothing_remembers_nothing() {
    let paths = RememberedPaths::new(0);
    paths.begin(10);
    put(&paths, ROOT, "a", 20, 10);
    assert_eq!(get(&paths, ROOT, "a"), None);
    assert_eq!(paths.stats().directories, 0);
}

/// InfiniFS §3.4, Figure 6, as the counters show it.
#[test]
fn what_is_used_least_recently_goes_for_room_and_all_of_it_is_counted() {
    let measure = RememberedPaths::new(1 << 20);
    measure.begin(10);
    put(&measure, ROOT, "a", 20, 10);
    let one = measure.stats().bytes;
    assert!(one > 0);

    let paths = RememberedPaths::new(3 * one);
    paths.begin(10);
    put(&paths, ROOT, "a", 20, 10);
    put(&paths, ROOT, "b", 21, 10);
    put(&paths, Ino(20), "c", 22, 10);
    let full = PathStats { directories: 3, bytes: 3 * one, ..PathStats::default() };
    assert_eq!(paths.stats(), full);
    assert_eq!((get(&paths, ROOT, "b"), get(&paths, ROOT, "x")), (Some(21), None));
    assert_eq!(paths.stats(), PathStats { hits: 1, misses: 1, ..full });

    // "c" is the leaf used least recently; "a" is older, and has a child.
    put(&paths, ROOT, "d", 23, 10);
    assert_eq!(paths.stats(), PathStats { hits: 1, misses: 1, evictions: 1, ..full });
    assert_eq!(get(&paths, Ino(20), "c"), None);
    let left = [get(&paths, ROOT, "a"), get(&paths, ROOT, "b"), get(&paths, ROOT, "d")];
    assert_eq!(left, [Some(20), Some(21), Some(23)]);
    assert_eq!(paths.stats(), PathStats { hits: 4, misses: 2, evictions: 1, ..full });

    // A change drops a directory too, but that is no eviction. A user that may not search a
    // directory misses all names in it.
    paths.apply(&news(10, &[(11, 23)]));
    let access = access(24, 0o700);
    paths.learn(&Read { dir: ROOT, search: OPEN, name: &name("e"), access, version: 11 });
    let stranger = Credentials::new(5, 5, vec![]);
    assert_eq!(paths.step(&stranger, Ino(24), &name("f")), None);
    assert_eq!(paths.step(&stranger, ROOT, &name("e")), Some(access));
    assert_eq!(paths.stats(), PathStats { hits: 5, misses: 3, drops: 1, evictions: 1, ..full });
}
