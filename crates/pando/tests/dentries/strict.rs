//! After a change through one mount, the first call through another one sees it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::acts::{ACTS, At, Held, as_nobody, open_dir, picture, plant};
use crate::common::shell;
use crate::common::site::Site;

/// The first call after another mount has renamed an ancestor, of any kind, goes where the path
/// leads now.
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
            let held = Held { at: At::Fd(open_dir(&site.at(0, &tree))), front: "a/b/c/" };
            // The kernel of the first mount knows the path.
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
                "rename into another directory" | "rename of a directory into another" => "new-one",
                "link from another directory" | "readlink" => "new-one",
                "truncate" => "n",
                "utimensat" => "5",
                "chown" => "12345",
                "setxattr and getxattr" => "y",
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

/// Linux does not repeat the lookup of a name that is about to be made. If a name is twice in a
/// path, it does not tell which lookup is the last. Source trees have such paths
/// (`tools/power/acpi/tools`).
#[test]
fn a_name_that_comes_twice_in_a_path_is_made_whatever_another_mount_did_on_the_way() {
    let site = Site::pair();
    let there = |name: &str| site.at(1, name);
    fs::create_dir_all(there("tools/power")).unwrap();
    let power = || site.at(0, "tools/power/tools");
    type Make = (&'static str, fn(&Path));
    let make: [Make; 3] = [
        ("mkdir", |at| fs::create_dir(at).unwrap()),
        ("symlink", |at| std::os::unix::fs::symlink("x", at).unwrap()),
        ("link", |at| fs::hard_link(at.parent().unwrap().join("file"), at).unwrap()),
    ];
    for (number, (what, make)) in make.into_iter().enumerate() {
        fs::write(there("tools/power/file"), "").unwrap();
        // The kernel of the first mount knows that the name is missing.
        assert!(!power().exists());
        let mode = 0o700 + number as u32;
        fs::set_permissions(there("tools"), fs::Permissions::from_mode(mode)).unwrap();
        make(&power());
        assert!(there("tools/power/tools").symlink_metadata().is_ok(), "{what}: after a chmod");

        let away = format!("away{number}");
        fs::rename(there("tools"), there(&away)).unwrap();
        fs::create_dir_all(there("tools/power")).unwrap();
        fs::write(there("tools/power/file"), "").unwrap();
        make(&power());
        assert!(there("tools/power/tools").symlink_metadata().is_ok(), "{what}: in the new tree");

        fs::rename(there("tools"), there(&format!("{away}-too"))).unwrap();
        fs::create_dir_all(there("tools/power")).unwrap();
    }
}

/// A process that holds a directory, as its working directory or by a descriptor, goes on in it
/// wherever the directory was moved.
#[test]
fn a_program_in_a_directory_that_another_mount_moves_goes_on_there() {
    let site = Site::pair();
    for (number, (what, act)) in ACTS.iter().enumerate() {
        let tree = format!("t{number}");
        fs::create_dir(site.at(0, &tree)).unwrap();
        for name in ["a", "gone"] {
            // The second tree only shows what the act would have found.
            plant(&site.at(0, &tree), name, "old");
        }
        let expected =
            act(&Held { at: At::Fd(open_dir(&site.at(0, &tree).join("gone/b/c"))), front: "" });
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
            let held = Held { at: At::Fd(at), front: "" };
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
            // Later calls work as well.
            drop(held.make("later", OFlags::WRONLY).unwrap());
            assert!(gone.join("b/c/later").exists(), "{what}");
        }
    }
}

/// Linux does not repeat these calls when they are refused, so they must not be refused.
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
    // A script has another mount rename the tree in the middle.
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

/// After `rmdir` and `mkdir` under one name, the directory is another one, though its predicted id
/// is equal.
#[test]
fn a_directory_made_anew_under_its_old_name_is_another_one() {
    let site = Site::pair();
    for (what, act) in &ACTS {
        let _ = fs::remove_dir_all(site.at(1, "a"));
        plant(&site.mounts[0], "a", "old");
        let by_path = Held { at: At::Fd(open_dir(&site.mounts[0])), front: "a/b/c/" };
        let within = Held { at: At::Fd(open_dir(&site.at(0, "a/b/c"))), front: "" };
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

/// Paths that root has made the kernel remember do not let others through. A lost permission is
/// lost for the next call.
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
        let by_path = Held { at: At::Fd(open_dir(&site.mounts[0])), front };
        let within = Held { at: At::Fd(open_dir(&dir)), front: "" };
        // The kernel knows the path from both users.
        assert_eq!(by_path.read("file").unwrap(), "old");
        as_nobody(|| assert_eq!(by_path.read("file").unwrap(), "old"));
        let before = picture(&site.at(1, &name));
        fs::set_permissions(site.at(1, &name), closed()).unwrap();
        let found = as_nobody(|| act(&by_path));
        assert_eq!(found, Err(Errno::ACCESS), "{what}");
        fs::set_permissions(site.at(1, &name), open()).unwrap();
        assert_eq!(picture(&site.at(1, &name)), before, "{what}: nothing was done");
        fs::set_permissions(site.at(1, &name), closed()).unwrap();
        // Root may go on, and so may a process that is inside.
        assert_eq!(by_path.read("file").unwrap(), "old");
        let above = *what == "and back up";
        let found = as_nobody(|| act(&within));
        assert!(found.is_ok() || above && found.is_err(), "{what}: {found:?}");
        as_nobody(|| assert!(within.read("only-old").is_ok()));
        // When the permission is given back, the next call has it.
        fs::set_permissions(site.at(1, &name), open()).unwrap();
        as_nobody(|| assert!(by_path.read("only-old").is_ok()));
    }
}

/// One thread renames an ancestor to and fro all the time. A call finds the path, or fails with
/// `ENOENT`. It has no other result.
#[test]
fn under_renames_without_end_calls_succeed_or_find_nothing() {
    let site = Site::pair();
    plant(&site.mounts[0], "a", "old");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let is_over = || stop.load(std::sync::atomic::Ordering::SeqCst);
    let within = Held { at: At::Fd(open_dir(&site.at(0, "a/b/c"))), front: "" };
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
                    let by_path = Held { at: At::Fd(root.try_clone().unwrap()), front: "a/b/c/" };
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
