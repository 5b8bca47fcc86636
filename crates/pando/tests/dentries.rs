//! The kernel remembers directories for long, and never leads astray: what one mount has renamed, closed or removed, no call on
//! another takes for what it was, once it has returned. Nor do many directories on a path cost more than one.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use common::site::{Site, until};
use common::{all, pando, shell};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use serde_json::Value;

type Counts = BTreeMap<String, u64>;

/// What a mount was asked, and what it asked; without what happens at any time.
fn counts(mount: &Path) -> (Counts, Counts) {
    const ANY_TIME: [&str; 9] = [
        "FORGET",
        "BATCH_FORGET",
        "RELEASE",
        "RELEASEDIR",
        "Release",
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
        |dir| drop(dir.join("file").metadata().unwrap()),
        &[("LOOKUP", 1), ("GETATTR", 1)],
        &[("Lookup", 1), ("GetAttr", 1)],
    ),
    (
        "stat of a directory",
        |dir| drop(dir.metadata().unwrap()),
        &[("GETATTR", 1)],
        &[("DirGetAttr", 1)],
    ),
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
    let stat = || drop(file.metadata().unwrap());
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
    // What the kernel is told meanwhile may make it ask for a name once more.
    let known = named(&[("LOOKUP", 1), ("GETATTR", 1)]);
    until("the path is known again", || cost(&site.mounts[1], stat).0 == known);
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
    let (requests, _) = cost(root, || drop(root.join("q/z/e/c/file").metadata().unwrap()));
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

/// Two trees that differ in what is in them, and what a call makes of one, by a path or within a directory that is held.
type Act = (&'static str, fn(&Held) -> Result<String, Errno>);

/// Where a call goes: relative to this descriptor, with this in front of each name.
struct Held {
    at: OwnedFd,
    front: &'static str,
}

impl Held {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.front)
    }

    /// The directory itself.
    fn dir(&self) -> &str {
        if self.front.is_empty() { "." } else { self.front }
    }

    fn read(&self, name: &str) -> Result<String, Errno> {
        let fd = rustix::fs::openat(&self.at, self.path(name), OFlags::RDONLY, Mode::empty())?;
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn make(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.at, self.path(name), flags | OFlags::CREATE, Mode::RWXU)
    }
}

/// Each tells what it has found, or makes something that can be found.
const ACTS: [Act; 19] = [
    ("read", |held| held.read("file")),
    ("stat", |held| {
        let stat = rustix::fs::statat(&held.at, held.path("file"), AtFlags::empty())?;
        Ok(stat.st_size.to_string())
    }),
    ("stat of the directory", |held| {
        let stat = rustix::fs::statat(&held.at, held.dir(), AtFlags::empty())?;
        Ok(stat.st_ino.to_string())
    }),
    ("access to the directory", |held| {
        rustix::fs::accessat(&held.at, held.dir(), rustix::fs::Access::EXEC_OK, AtFlags::empty())?;
        Ok(String::new())
    }),
    ("listing", |held| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = rustix::fs::openat(&held.at, held.dir(), flags, Mode::empty())?;
        let mut names: Vec<_> = rustix::fs::Dir::read_from(fd)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| name.starts_with("only"));
        Ok(names.concat())
    }),
    ("create", |held| {
        File::from(held.make("made", OFlags::WRONLY)?).write_all(b"made").unwrap();
        Ok(String::new())
    }),
    ("create, or else fail", |held| {
        drop(held.make("new", OFlags::WRONLY | OFlags::EXCL)?);
        Ok(String::new())
    }),
    ("overwrite", |held| {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let fd = rustix::fs::openat(&held.at, held.path("file"), flags, Mode::empty())?;
        File::from(fd).write_all(b"over").unwrap();
        held.read("file")
    }),
    ("mkdir", |held| {
        rustix::fs::mkdirat(&held.at, held.path("sub"), Mode::RWXU)?;
        Ok(String::new())
    }),
    ("mkdir of what is there", |held| {
        match rustix::fs::mkdirat(&held.at, held.path("kept"), Mode::RWXU) {
            Err(Errno::EXIST) => Ok("kept".to_owned()),
            other => other.map(|()| "made".to_owned()),
        }
    }),
    ("symlink", |held| {
        rustix::fs::symlinkat("target", &held.at, held.path("symlink"))?;
        Ok(String::new())
    }),
    ("mknod", |held| {
        rustix::fs::mknodat(&held.at, held.path("pipe"), FileType::Fifo, Mode::RWXU, 0)?;
        Ok(String::new())
    }),
    ("link", |held| {
        let (old, new) = (held.path("file"), held.path("link"));
        rustix::fs::linkat(&held.at, old, &held.at, new, AtFlags::empty())?;
        held.read("link")
    }),
    ("rename", |held| {
        rustix::fs::renameat(&held.at, held.path("movable"), &held.at, held.path("moved"))?;
        held.read("moved")
    }),
    ("unlink", |held| {
        rustix::fs::unlinkat(&held.at, held.path("doomed"), AtFlags::empty())?;
        Ok(String::new())
    }),
    ("rmdir", |held| {
        rustix::fs::unlinkat(&held.at, held.path("hollow"), AtFlags::REMOVEDIR)?;
        Ok(String::new())
    }),
    ("chmod of the directory", |held| {
        rustix::fs::chmodat(&held.at, held.dir(), Mode::from_raw_mode(0o711), AtFlags::empty())?;
        let stat = rustix::fs::statat(&held.at, held.dir(), AtFlags::empty())?;
        Ok(format!("{:o}", stat.st_mode & 0o777))
    }),
    ("through a subdirectory", |held| held.read("kept/../kept/within")),
    ("and back up", |held| held.read("../c/file")),
];

/// A tree `NAME/b/c` with things in it that tell which one it is.
fn plant(root: &Path, name: &str, which: &str) {
    let dir = root.join(name).join("b/c");
    fs::create_dir_all(dir.join("kept")).unwrap();
    for file in ["file", "movable", "doomed"] {
        fs::write(dir.join(file), which).unwrap();
    }
    fs::create_dir(dir.join("hollow")).unwrap();
    fs::write(dir.join("kept/within"), which).unwrap();
    fs::write(dir.join(format!("only-{which}")), "").unwrap();
}

/// All that is in a directory, without its times and numbers.
fn picture(dir: &Path) -> String {
    shell(dir, "find . -printf '%p %y %m %s\\n' | sort; cat $(find . -type f | sort)")
}

fn open_dir(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// The first call after another mount has renamed an ancestor: whichever it is, it goes where the path leads now.
#[test]
fn no_call_by_path_acts_on_what_another_mount_has_moved_away() {
    let site = Site::pair();
    for (number, (what, act)) in ACTS.iter().enumerate() {
        let tree = format!("t{number}");
        for is_replaced in [false, true] {
            let _ = fs::remove_dir_all(site.at(0, &tree));
            fs::create_dir(site.at(0, &tree)).unwrap();
            plant(&site.at(0, &tree), "a", "old");
            plant(&site.at(0, &tree), "new", "new-one");
            let held = Held { at: open_dir(&site.at(0, &tree)), front: "a/b/c/" };
            // Known to the kernel of the first mount.
            assert_eq!(held.read("file").unwrap(), "old");
            let there = |name: &str| site.at(1, &tree).join(name);
            fs::rename(there("a"), there("gone")).unwrap();
            if is_replaced {
                fs::rename(there("new"), there("a")).unwrap();
            }
            let before = picture(&there("gone"));
            let found = act(&held);
            assert_eq!(picture(&there("gone")), before, "{what}: the old tree is as it was");
            if !is_replaced {
                assert_eq!(found, Err(Errno::NOENT), "{what}: there is no such path");
                continue;
            }
            let told = found.unwrap_or_else(|errno| panic!("{what}: {errno}"));
            let expected = match *what {
                "read" | "link" | "rename" | "through a subdirectory" | "and back up" => "new-one",
                "stat" => "7",
                "listing" => "only-new-one",
                "overwrite" => "over",
                "mkdir of what is there" => "kept",
                "chmod of the directory" => "711",
                "stat of the directory" => {
                    assert_eq!(told, there("a/b/c").metadata().unwrap().ino().to_string());
                    &told
                }
                _ => "",
            };
            assert_eq!(told, expected, "{what}");
            let made = ["create", "create, or else fail", "mkdir", "symlink", "mknod"];
            let names = ["made", "new", "sub", "symlink", "pipe"];
            if let Some(nth) = made.iter().position(|made| made == what) {
                let path = there("a/b/c").join(names[nth]);
                assert!(path.symlink_metadata().is_ok(), "{what}: it is in the new tree");
            }
        }
    }
}

/// Who holds a directory, as his working directory or by a descriptor, goes on in it, wherever it was moved to.
#[test]
fn who_is_in_a_directory_that_another_mount_moves_goes_on_there() {
    let site = Site::pair();
    for (number, (what, act)) in ACTS.iter().enumerate() {
        let tree = format!("t{number}");
        fs::create_dir(site.at(0, &tree)).unwrap();
        for name in ["a", "gone"] {
            // The second one is only there to know what the act would have found.
            plant(&site.at(0, &tree), name, "old");
        }
        let expected = act(&Held { at: open_dir(&site.at(0, &tree).join("gone/b/c")), front: "" });
        fs::remove_dir_all(site.at(0, &tree).join("gone")).unwrap();
        plant(&site.at(0, &tree), "new", "new-one");
        for flags in [OFlags::RDONLY, OFlags::PATH] {
            let (a, gone) = (site.at(1, &tree).join("a"), site.at(1, &tree).join("gone"));
            if flags == OFlags::PATH {
                fs::remove_dir_all(&gone).unwrap();
                fs::remove_dir_all(&a).unwrap();
                plant(&site.at(0, &tree), "a", "old");
                plant(&site.at(0, &tree), "new", "new-one");
            }
            let at = site.at(0, &tree).join("a/b/c");
            let at = rustix::fs::open(at, flags | OFlags::DIRECTORY, Mode::empty()).unwrap();
            let held = Held { at, front: "" };
            assert_eq!(held.read("file").unwrap(), "old");
            let ino = rustix::fs::fstat(&held.at).unwrap().st_ino;
            fs::rename(&a, &gone).unwrap();
            fs::rename(site.at(1, &tree).join("new"), &a).unwrap();
            let before = picture(&a);
            let found = act(&held);
            if *what == "stat of the directory" {
                assert_eq!(found, Ok(ino.to_string()), "{what}");
            } else {
                assert_eq!(found, expected, "{what}");
            }
            assert_eq!(picture(&a), before, "{what}: the tree that is there now is as it was");
            // And on, as long as he likes.
            drop(held.make("later", OFlags::WRONLY).unwrap());
            assert!(gone.join("b/c/later").exists(), "{what}");
        }
    }
}

/// Calls that Linux does not repeat when they are refused must not be.
#[test]
fn calls_by_descriptor_do_not_notice_that_a_directory_was_moved() {
    let site = Site::pair();
    type ByFd = (&'static str, fn(&OwnedFd) -> Result<(), Errno>);
    let acts: [ByFd; 9] = [
        ("fstat", |fd| rustix::fs::fstat(fd).map(drop)),
        ("fstatat with no path", |fd| rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).map(drop)),
        ("statx with no path", |fd| {
            let mask = rustix::fs::StatxFlags::BASIC_STATS;
            rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, mask).map(drop)
        }),
        ("fchmod", |fd| rustix::fs::fchmod(fd, Mode::from_raw_mode(0o755))),
        ("fchown", |fd| rustix::fs::fchown(fd, None, Some(rustix::fs::Gid::from_raw(7)))),
        ("futimens", |fd| {
            let now = rustix::fs::Timespec { tv_sec: 5, tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
            rustix::fs::futimens(fd, &times)
        }),
        ("fsetxattr", |fd| rustix::fs::fsetxattr(fd, "user.x", b"y", XattrFlags::empty())),
        ("getdents", |fd| {
            let mut names = rustix::fs::Dir::new(fd.try_clone().unwrap())?;
            names.rewind();
            assert!(names.count() > 2);
            Ok(())
        }),
        ("fsync", |fd| rustix::fs::fsync(fd)),
    ];
    for (number, (what, act)) in acts.iter().enumerate() {
        let (from, to) = (format!("from-{number}"), format!("to-{number}"));
        plant(&site.mounts[0], &from, "old");
        let fd = open_dir(&site.at(0, &from).join("b/c"));
        fs::rename(site.at(1, &from), site.at(1, &to)).unwrap();
        act(&fd).unwrap_or_else(|errno| panic!("{what}: {errno}"));
        act(&fd).unwrap_or_else(|errno| panic!("{what} again: {errno}"));
        let moved = site.at(1, &to).join("b/c").metadata().unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_ino, moved.ino());
        if *what == "futimens" {
            assert_eq!(moved.mtime(), 5);
        }
    }
}

#[test]
fn open_files_and_a_working_directory_in_a_moved_tree_go_on() {
    let site = Site::pair();
    plant(&site.mounts[0], "a", "old");
    let file = File::options().read(true).write(true).open(site.at(0, "a/b/c/file")).unwrap();
    // Each in the middle of a script: before and after the other mount's rename.
    let moved = site.at(1, "z");
    let script = format!(
        "cd a/b/c; before=$(pwd -P); mv {} {}; [ $(cat file) = old ]; echo more > more; mkdir -p x/y; mv more x/y/more; \
         [ $(cat x/../x/y/more) = more ]; cd ..; [ -d c ]; cd c; ls . | grep -q only-old; \
         [ $before = $(pwd -P) ] || [ $(pwd -P) = {} ]",
        site.at(1, "a").display(),
        moved.display(),
        site.at(0, "z/b/c").display()
    );
    shell(&site.mounts[0], &script);
    assert_eq!(fs::read_to_string(moved.join("b/c/x/y/more")).unwrap(), "more\n");
    file.write_all_at(b"OLD", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read_to_string(moved.join("b/c/file")).unwrap(), "OLD");
    assert_eq!(fs::read_to_string(site.at(0, "z/b/c/file")).unwrap(), "OLD");
    assert_eq!(site.at(0, "a").metadata().unwrap_err().kind(), ErrorKind::NotFound);
}

/// `rmdir` and `mkdir` under the old name make another directory of it, though its predicted id is the same.
#[test]
fn a_directory_made_anew_under_its_old_name_is_another_one() {
    let site = Site::pair();
    for (what, act) in &ACTS {
        let _ = fs::remove_dir_all(site.at(1, "a"));
        plant(&site.mounts[0], "a", "old");
        let by_path = Held { at: open_dir(&site.mounts[0]), front: "a/b/c/" };
        let within = Held { at: open_dir(&site.at(0, "a/b/c")), front: "" };
        assert_eq!(by_path.read("file").unwrap(), "old");
        fs::remove_dir_all(site.at(1, "a")).unwrap();
        plant(&site.mounts[1], "a", "new-one");
        let found = act(&by_path);
        assert!(found.is_ok(), "{what}: {found:?}");
        assert!(!matches!(found.as_deref(), Ok("old" | "3" | "only-old")), "{what}: {found:?}");
        let before = picture(&site.at(1, "a"));
        let made = within.make("new-file", OFlags::WRONLY);
        assert!(matches!(made, Err(Errno::NOENT | Errno::STALE)), "{what}: {made:?}");
        assert_eq!(picture(&site.at(1, "a")), before, "{what}: nothing is made in the new one");
    }
}

/// Runs `work` in a thread of its own, as a user who owns nothing.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(12_345), Gid::from_raw(12_345));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        user.join().unwrap()
    })
}

/// What root has made the kernel remember does not let others through, and a permission that is lost is lost at once.
#[test]
fn a_permission_that_is_lost_above_a_path_is_lost_for_the_next_call() {
    let site = Site::pair();
    let open = || PermissionsExt::from_mode(0o755);
    let closed = || PermissionsExt::from_mode(0o700);
    fs::set_permissions(&site.mounts[0], open()).unwrap();
    for (number, (what, act)) in ACTS.iter().enumerate() {
        let name = format!("a{number}");
        plant(&site.mounts[0], &name, "old");
        let dir = site.at(0, &name).join("b/c");
        shell(&dir, "chown -R 12345 .");
        let front: &'static str = Box::leak(format!("{name}/b/c/").into_boxed_str());
        let by_path = Held { at: open_dir(&site.mounts[0]), front };
        let within = Held { at: open_dir(&dir), front: "" };
        // The kernel knows the way through both users.
        assert_eq!(by_path.read("file").unwrap(), "old");
        as_nobody(|| assert_eq!(by_path.read("file").unwrap(), "old"));
        let before = picture(&site.at(1, &name));
        fs::set_permissions(site.at(1, &name), closed()).unwrap();
        let found = as_nobody(|| act(&by_path));
        assert_eq!(found, Err(Errno::ACCESS), "{what}");
        fs::set_permissions(site.at(1, &name), open()).unwrap();
        assert_eq!(picture(&site.at(1, &name)), before, "{what}: nothing was done");
        fs::set_permissions(site.at(1, &name), closed()).unwrap();
        // Root may, and who is within goes on.
        assert_eq!(by_path.read("file").unwrap(), "old");
        let above = *what == "and back up";
        let found = as_nobody(|| act(&within));
        assert!(found.is_ok() || above && found.is_err(), "{what}: {found:?}");
        as_nobody(|| assert!(within.read("only-old").is_ok()));
        // Given back, it is there for the next call, too.
        fs::set_permissions(site.at(1, &name), open()).unwrap();
        as_nobody(|| assert!(by_path.read("only-old").is_ok()));
    }
}

/// Somebody renames an ancestor to and fro all the time. A call finds it under one name or the other, or does not; nothing else.
#[test]
fn under_renames_without_end_calls_succeed_or_find_nothing() {
    let site = Site::pair();
    plant(&site.mounts[0], "a", "old");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::SeqCst);
    let within = Held { at: open_dir(&site.at(0, "a/b/c")), front: "" };
    let root = open_dir(&site.mounts[0]);
    std::thread::scope(|scope| {
        let renaming = scope.spawn(|| {
            let mut renames = 0;
            while !is_over() {
                fs::rename(site.at(1, "a"), site.at(1, "z")).unwrap();
                fs::rename(site.at(1, "z"), site.at(1, "a")).unwrap();
                renames += 2;
            }
            renames
        });
        let calls: Vec<_> = (0..2)
            .map(|who| {
                let (root, within) = (&root, &within);
                scope.spawn(move || {
                    let by_path = Held { at: root.try_clone().unwrap(), front: "a/b/c/" };
                    let mut found = 0;
                    for number in 0..400 {
                        let name = format!("file-{who}-{number}");
                        match by_path.make(&name, OFlags::WRONLY | OFlags::EXCL) {
                            Ok(_) => found += 1,
                            Err(errno) => assert_eq!(errno, Errno::NOENT, "{name}"),
                        }
                        assert_eq!(within.read("file").unwrap(), "old");
                        let name = format!("within-{who}-{number}");
                        drop(within.make(&name, OFlags::WRONLY | OFlags::EXCL).unwrap());
                        let stat = rustix::fs::fstat(&within.at);
                        assert!(stat.is_ok(), "{stat:?}");
                    }
                    found
                })
            })
            .collect();
        let found: u64 = calls.into_iter().map(|calls| calls.join().unwrap()).sum();
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(renaming.join().unwrap() > 0);
        let names = fs::read_dir(site.at(1, "a/b/c")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (by_path, within): (Vec<_>, Vec<_>) = names
            .filter(|name| name.starts_with("file-") || name.starts_with("within-"))
            .partition(|name| name.starts_with("file-"));
        assert_eq!((by_path.len() as u64, within.len()), (found, 800));
    });
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

#[test]
fn an_idle_mount_hears_of_renames_with_its_lease() {
    let mut site = Site::new(&["all"], &["--lease-ms", "3000"]);
    site.mount(&[]);
    site.mount(&[]);
    plant(&site.mounts[0], "a", "old");
    let expired = || {
        let output = pando().arg("status").arg(&site.mounts[0]).arg("--json").output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["counters"]["names_expired"].as_u64().unwrap()
    };
    site.at(0, "a/b/c").metadata().unwrap();
    let before = expired();
    fs::rename(site.at(1, "a"), site.at(1, "z")).unwrap();
    until("the kernel is told to ask for the name anew", || expired() > before);
}
