//! What calls cost: requests of the kernel, messages to shards.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::RenameFlags;
use serde_json::Value;

use crate::acts::plant;
use crate::common::site::Site;
use crate::common::{all, pando};

type Counts = BTreeMap<String, u64>;

/// What a mount was asked, and what it asked; without what happens at any time.
fn counts(mount: &Path) -> (Counts, Counts) {
    const ANY_TIME: [&str; 10] = [
        "FORGET",
        "BATCH_FORGET",
        "RELEASE",
        "RELEASEDIR",
        "Release",
        "ReleaseAll",
        "Renew",
        "Garbage",
        "GarbageDone",
        "INTERRUPT",
    ];
    let output = pando().arg("status").arg(mount).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |what: &str| -> Counts {
        let counts = status[what].as_object().unwrap().iter();
        let counts = counts.map(|(name, count)| (name.clone(), count.as_u64().unwrap()));
        counts.filter(|(name, _)| !ANY_TIME.contains(&name.as_str())).collect()
    };
    (of("requests"), of("messages"))
}

/// What `work` costs a mount.
fn cost(mount: &Path, work: impl FnOnce()) -> (Counts, Counts) {
    let before = counts(mount);
    work();
    let after = counts(mount);
    let less = |after: Counts, before: &Counts| -> Counts {
        let left = after.into_iter().map(|(name, count)| {
            let was = before.get(&name).copied().unwrap_or(0);
            (name, count - was)
        });
        left.filter(|(_, count)| *count > 0).collect()
    };
    (less(after.0, &before.0), less(after.1, &before.1))
}

fn named(counts: &[(&str, u64)]) -> Counts {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// `d/d/d/…`, so many of them.
fn deep(depth: usize) -> String {
    vec!["d"; depth].join("/")
}

/// An operation, and what it costs by a path that is known.
type Costs =
    (&'static str, fn(&Path), &'static [(&'static str, u64)], &'static [(&'static str, u64)]);

const COSTS: [Costs; 11] = [
    (
        "stat of a file",
        |dir| assert!(dir.join("file").exists()),
        &[("LOOKUP", 1), ("GETATTR", 1)],
        &[("Lookup", 1), ("GetAttr", 1)],
    ),
    ("stat of a directory", |dir| assert!(dir.exists()), &[("GETATTR", 1)], &[("DirGetAttr", 1)]),
    (
        "a name that is not there",
        |dir| assert!(!dir.join("none").exists()),
        &[("LOOKUP", 1)],
        &[("Lookup", 1)],
    ),
    (
        "opening and closing",
        |dir| drop(File::open(dir.join("file")).unwrap()),
        &[("LOOKUP", 1), ("OPEN", 1)],
        &[("Lookup", 1), ("Open", 1)],
    ),
    (
        "making a file",
        |dir| drop(File::create_new(dir.join("new")).unwrap()),
        &[("LOOKUP", 1), ("CREATE", 1), ("FLUSH", 1)],
        &[("Lookup", 1), ("Create", 1)],
    ),
    (
        "removing it",
        |dir| fs::remove_file(dir.join("new")).unwrap(),
        &[("LOOKUP", 1), ("UNLINK", 1)],
        &[("Lookup", 1), ("Unlink", 1)],
    ),
    (
        "making a directory",
        |dir| fs::create_dir(dir.join("sub")).unwrap(),
        &[("LOOKUP", 1), ("MKDIR", 1)],
        &[("Lookup", 1), ("Mkdir", 1)],
    ),
    (
        "removing it",
        |dir| fs::remove_dir(dir.join("sub")).unwrap(),
        &[("LOOKUP", 1), ("RMDIR", 1)],
        &[("Lookup", 1), ("Rmdir", 1)],
    ),
    (
        "chmod of a file",
        |dir| {
            fs::set_permissions(dir.join("file"), PermissionsExt::from_mode(0o640)).unwrap();
        },
        &[("LOOKUP", 1), ("SETATTR", 1)],
        &[("Lookup", 1), ("SetAttr", 1)],
    ),
    (
        "renaming a file",
        |dir| fs::rename(dir.join("file"), dir.join("other")).unwrap(),
        &[("LOOKUP", 2), ("RENAME", 1)],
        &[("Lookup", 2), ("Rename", 1)],
    ),
    (
        "listing",
        |dir| assert_eq!(fs::read_dir(dir).unwrap().count(), 2),
        &[("OPENDIR", 1), ("READDIR", 2)],
        &[],
    ),
];

#[test]
fn a_known_path_of_ten_directories_costs_what_one_of_one_does() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    let root = &site.mounts[0];
    fs::create_dir_all(root.join(deep(10))).unwrap();
    for depth in [1, 10] {
        let dir = root.join(deep(depth));
        fs::write(dir.join("file"), "text").unwrap();
        if depth == 10 {
            fs::create_dir(dir.join("d")).unwrap();
        }
        dir.join("file").metadata().unwrap();
        for (what, work, requests, messages) in &COSTS {
            let cost = cost(root, || work(&dir));
            let told = format!("{what} at depth {depth}: {cost:?}");
            if *what == "making a file" {
                // Closing costs a request where something might have been written.
                let without: Counts =
                    cost.0.into_iter().filter(|(name, _)| name != "FLUSH").collect();
                let expected: Vec<_> =
                    requests.iter().copied().filter(|(name, _)| *name != "FLUSH").collect();
                assert_eq!(without, named(&expected), "{told}");
            } else if *what == "listing" {
                assert!(cost.0.values().sum::<u64>() <= 4, "{told}");
                continue;
            } else {
                assert_eq!(cost.0, named(requests), "{told}");
            }
            assert_eq!(cost.1, named(messages), "{told}");
        }
    }
}

#[test]
fn a_path_that_is_not_known_costs_a_lookup_for_each_directory_once() {
    let site = Site::pair();
    fs::create_dir_all(site.at(0, &deep(10))).unwrap();
    fs::write(site.at(0, &deep(10)).join("file"), "text").unwrap();
    let file = site.at(1, &deep(10)).join("file");
    let stat = || assert!(file.exists());
    let (first, messages) = cost(&site.mounts[1], stat);
    assert_eq!(first, named(&[("LOOKUP", 11), ("GETATTR", 1)]));
    assert_eq!(messages, named(&[("Lookup", 11), ("GetAttr", 1)]));
    let (again, _) = cost(&site.mounts[1], stat);
    assert_eq!(again, named(&[("LOOKUP", 1), ("GETATTR", 1)]));
    // A directory far above is renamed: what lies beneath is asked for anew, once.
    fs::rename(site.at(0, "d/d"), site.at(0, "d/e")).unwrap();
    fs::rename(site.at(0, "d/e"), site.at(0, "d/d")).unwrap();
    let (after, _) = cost(&site.mounts[1], stat);
    assert!(after["LOOKUP"] <= 14, "{after:?}");
    let (again, _) = cost(&site.mounts[1], stat);
    assert_eq!(again, named(&[("LOOKUP", 1), ("GETATTR", 1)]));
}

#[test]
fn a_directory_moved_here_stays_known_here() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    let root = &site.mounts[0];
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("q")).unwrap();
    fs::write(root.join("a/b/c/file"), "text").unwrap();
    root.join("q").metadata().unwrap();
    for (from, to) in [("a", "z"), ("z", "q/z"), ("q/z/b", "q/z/e")] {
        fs::rename(root.join(from), root.join(to)).unwrap();
    }
    let (requests, _) = cost(root, || assert!(root.join("q/z/e/c/file").exists()));
    assert_eq!(requests, named(&[("LOOKUP", 1), ("GETATTR", 1)]));
    fs::create_dir(root.join("x")).unwrap();
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        root.join("x"),
        rustix::fs::CWD,
        root.join("q/z"),
        RenameFlags::EXCHANGE,
    )
    .unwrap();
    assert_eq!(fs::read_to_string(root.join("x/e/c/file")).unwrap(), "text");
    assert_eq!(fs::read_dir(root.join("q/z")).unwrap().count(), 0);
}

/// What `--attr-timeout` and `--entry-timeout` give, and what they give up.
#[test]
fn whoever_wants_speed_may_have_old_attributes_and_old_files_but_no_old_directories() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&["--attr-timeout", "3600", "--entry-timeout", "3600"]);
    site.mount(&[]);
    plant(&site.mounts[1], "a", "old");
    let file = site.at(0, "a/b/c/file");
    let mode = || file.metadata().unwrap().mode() & 0o777;
    let first = mode();
    let (requests, messages) = cost(&site.mounts[0], || assert_eq!(mode(), first));
    assert_eq!((requests, messages), (named(&[]), named(&[])));
    fs::set_permissions(site.at(1, "a/b/c/file"), PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(mode(), first, "an hour later");
    // Its own changes a mount sees at once.
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(mode(), 0o640);
    let other = site.at(0, "a/b/c/doomed");
    other.metadata().unwrap();
    fs::rename(site.at(1, "a"), site.at(1, "z")).unwrap();
    let made = File::create_new(site.at(0, "a/b/c/new")).map(drop);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!site.at(1, "z/b/c/new").exists());
}
