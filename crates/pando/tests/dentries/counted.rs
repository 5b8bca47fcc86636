//! The costs of calls, as requests of the kernel and messages to shards.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::Value;

use crate::acts::plant;
use crate::common::site::Site;
use crate::common::{all, pando};

type Counts = BTreeMap<String, u64>;

/// Requests that a mount got and messages that it sent, without those that happen at any time.
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

/// The requests and messages that `work` costs a mount.
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

/// A path `d/d/d/…` of `depth` directories.
fn deep(depth: usize) -> String {
    vec!["d"; depth].join("/")
}

/// An operation below a path of `depth` directories. The parts are its name, the call, the number
/// of lookups for a depth, and the one other request, if it has one.
type Costs = (&'static str, fn(&Path), fn(u64) -> u64, Option<&'static str>);

const COSTS: [Costs; 10] = [
    ("stat of a file", |dir| assert!(dir.join("file").exists()), |depth| depth + 1, None),
    ("stat of a directory", |dir| assert!(dir.exists()), |depth| depth, None),
    ("a missing name", |dir| assert!(!dir.join("none").exists()), |depth| depth + 1, None),
    (
        "opening and closing",
        |dir| drop(File::open(dir.join("file")).unwrap()),
        |depth| depth + 1,
        Some("OPEN"),
    ),
    (
        "making a file",
        |dir| drop(File::create_new(dir.join("new")).unwrap()),
        |depth| depth + 1,
        Some("CREATE"),
    ),
    (
        "removing it",
        |dir| fs::remove_file(dir.join("new")).unwrap(),
        |depth| depth + 1,
        Some("UNLINK"),
    ),
    (
        "making a directory",
        |dir| fs::create_dir(dir.join("sub")).unwrap(),
        |depth| depth + 1,
        Some("MKDIR"),
    ),
    (
        "removing it",
        |dir| fs::remove_dir(dir.join("sub")).unwrap(),
        |depth| depth + 1,
        Some("RMDIR"),
    ),
    (
        "chmod of a file",
        |dir| fs::set_permissions(dir.join("file"), PermissionsExt::from_mode(0o640)).unwrap(),
        |depth| depth + 1,
        Some("SETATTR"),
    ),
    (
        "renaming a file",
        |dir| fs::rename(dir.join("file"), dir.join("other")).unwrap(),
        |depth| 2 * depth + 2,
        Some("RENAME"),
    ),
];

/// With several mounts, a kernel looks up each component of a path once. It asks for attributes
/// only where it must judge by them and did not get them within a jiffy. So it asks at most once
/// for each component.
#[test]
fn a_path_costs_a_request_for_each_component_where_there_are_several_mounts() {
    let mut site = Site::new(&["all"], &[]);
    // With grants of its own, the kernel of the first one would remember.
    site.mount(&["--sync-metadata"]);
    site.mount(&[]);
    let root = &site.mounts[0];
    fs::create_dir_all(root.join(deep(10))).unwrap();
    for depth in [1_u64, 10] {
        let dir = root.join(deep(depth as usize));
        fs::write(dir.join("file"), "text").unwrap();
        for (what, work, lookups, own) in &COSTS {
            // The other mount writes. So this one's kernel may remember nothing.
            fs::write(site.at(1, "other"), what).unwrap();
            let (requests, _) = cost(root, || work(&dir));
            let told = format!("{what} at depth {depth}: {requests:?}");
            let count = |name: &str| requests.get(name).copied().unwrap_or(0);
            assert_eq!(count("LOOKUP"), lookups(depth), "{told}");
            assert!(count("GETATTR") <= lookups(depth) + 2, "{told}");
            let others = requests
                .keys()
                .filter(|name| !["LOOKUP", "GETATTR", "FLUSH"].contains(&name.as_str()));
            assert!(others.eq(own.iter()), "{told}");
            assert!(own.is_none_or(|own| count(own) == 1), "{told}");
        }
    }
}

/// What `--attr-timeout` and `--entry-timeout` save, and what they allow to be old.
#[test]
fn a_fast_mount_may_have_old_attributes_and_old_files_but_no_old_directories() {
    let mut site = Site::new(&["all"], &[]);
    site.mount(&["--attr-timeout", "3600", "--entry-timeout", "3600"]);
    site.mount(&[]);
    plant(&site.mounts[1], "a", "old");
    let file = site.at(0, "a/b/c/file");
    let mode = || file.metadata().unwrap().mode() & 0o777;
    let first = mode();
    let (requests, _) = cost(&site.mounts[0], || assert_eq!(mode(), first));
    assert_eq!(requests["LOOKUP"], 3, "for directories alone: {requests:?}");
    fs::set_permissions(site.at(1, "a/b/c/file"), PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(mode(), first, "an hour later");
    // A mount sees its own changes at once.
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(mode(), 0o640);
    let other = site.at(0, "a/b/c/doomed");
    other.metadata().unwrap();
    fs::rename(site.at(1, "a"), site.at(1, "z")).unwrap();
    let made = File::create_new(site.at(0, "a/b/c/new")).map(drop);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!site.at(1, "z/b/c/new").exists());
}
