//! A mount whose session holds lets the kernel remember names and attributes. A mount that joins
//! sees no effect of that.

#[path = "../common/mod.rs"]
mod common;

mod joined;
mod listings;
mod served;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use common::site::until;
use common::{all, mount_tmpfs, pando};
use joined::{Joined, holding, holds, status};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::{Signal, kill_process};

#[test]
fn what_a_kernel_has_looked_for_once_it_does_not_ask_for_again() {
    let volume = holding(&[]);
    let dir = volume.mount.join("a/b/c");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("file"), "text").unwrap();
    let look = || {
        assert_eq!(dir.join("file").metadata().unwrap().len(), 4);
        assert!(!dir.join("none").exists());
    };
    look();
    let lookups = || status(&volume.mount)["requests"]["LOOKUP"].as_u64().unwrap();
    let before = lookups();
    look();
    assert_eq!(lookups(), before);
    // The kernel sees its own changes.
    fs::rename(dir.join("file"), dir.join("none")).unwrap();
    assert_eq!(fs::read_to_string(dir.join("none")).unwrap(), "text");
    assert!(!dir.join("file").exists());
}

#[test]
fn a_mount_that_joins_and_one_that_held_see_each_other_at_once() {
    let volume = holding(&[]);
    for round in 0..3 {
        let name = |what: &str| format!("{what}-{round}");
        let here = |what: &str| volume.mount.join(name(what));
        fs::create_dir(here("dir")).unwrap();
        fs::write(here("dir").join("file"), "old").unwrap();
        fs::write(here("replaced"), "old").unwrap();
        // The kernel remembers all of it, and that one name is missing.
        assert!(here("dir").join("file").exists() && !here("missing").exists());
        fs::read_to_string(here("replaced")).unwrap();
        let joined = Joined::new(&volume);
        assert!(holds(&volume), "the other one changes nothing");
        let there = |what: &str| joined.mount.join(name(what));
        fs::write(there("missing"), "made").unwrap();
        assert!(!holds(&volume));
        fs::rename(there("dir"), there("moved")).unwrap();
        fs::write(there("new"), "newer").unwrap();
        fs::rename(there("new"), there("replaced")).unwrap();
        fs::set_permissions(there("moved").join("file"), PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(fs::read_to_string(here("missing")).unwrap(), "made");
        assert_eq!(here("dir").metadata().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(here("moved").join("file").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(here("replaced")).unwrap(), "newer");
        joined.leave();
        until("it holds again", || holds(&volume));
    }
}

#[test]
fn a_directory_that_a_program_is_in_stays_usable_when_another_mount_joins() {
    let volume = holding(&[]);
    fs::create_dir_all(volume.mount.join("in/it")).unwrap();
    let held = File::open(volume.mount.join("in/it")).unwrap();
    let joined = Joined::new(&volume);
    fs::rename(joined.mount.join("in"), joined.mount.join("out")).unwrap();
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    drop(rustix::fs::openat(&held, "made", flags, rustix::fs::Mode::RWXU).unwrap());
    assert!(joined.mount.join("out/it/made").exists());
    joined.leave();
}

/// The session of a killed mount ends with its lease. Until then it counts as one that writes.
#[test]
fn when_a_mount_that_wrote_was_killed_the_other_holds_again_after_its_lease() {
    let volume = holding(&["--lease-ms", "2000"]);
    let joined = Joined::new(&volume);
    fs::write(joined.mount.join("made"), "text").unwrap();
    kill_process(joined.pid, Signal::KILL).unwrap();
    assert!(!holds(&volume));
    until("it holds again", || holds(&volume));
}

#[test]
fn a_tree_removed_by_a_tool_of_another_session_is_gone_at_once() {
    let volume = holding(&[]);
    let tree = volume.mount.join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/file"), "text").unwrap();
    assert!(tree.join("a/b/file").exists());
    let output = pando().arg("rmr").arg(&tree).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(tree.join("a/b/file").metadata().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(tree.metadata().unwrap_err().kind(), ErrorKind::NotFound);
}

/// A kernel that forgets all names at once also unmounts what is mounted on them.
#[test]
fn what_is_mounted_on_a_directory_stays_when_another_mount_joins() {
    let volume = holding(&[]);
    let dir = volume.mount.join("a/on");
    fs::create_dir_all(&dir).unwrap();
    mount_tmpfs(&dir, 1, MountFlags::empty());
    fs::write(dir.join("within"), "text").unwrap();
    let joined = Joined::new(&volume);
    fs::write(joined.mount.join("seen"), "text").unwrap();
    let found = (fs::read_to_string(dir.join("within")), volume.mount.join("seen").exists());
    let unmounted = unmount(&dir, UnmountFlags::DETACH);
    assert_eq!(found.0.unwrap(), "text");
    assert!(found.1);
    unmounted.unwrap();
    joined.leave();
}

/// If the kernel forgets all names at once, an overlay over such a tree answers `ESTALE` from then
/// on.
#[test]
fn an_overlay_over_a_tree_of_a_mount_stays_usable_when_another_mount_joins() {
    let volume = holding(&[]);
    let lower = volume.mount.join("a/lower");
    fs::create_dir_all(&lower).unwrap();
    fs::write(lower.join("file"), "text").unwrap();
    let aside = volume.scratch().join("aside");
    fs::create_dir(&aside).unwrap();
    mount_tmpfs(&aside, 1, MountFlags::empty());
    let [upper, work, over] = ["upper", "work", "over"].map(|name| aside.join(name));
    [&upper, &work, &over].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let [l, u, w] = [&lower, &upper, &work].map(|dir| dir.to_str().unwrap());
    let options = CString::new(format!("lowerdir={l},upperdir={u},workdir={w}")).unwrap();
    rustix::mount::mount("overlay", &over, "overlay", MountFlags::empty(), options.as_c_str())
        .expect("the kernel has overlayfs");
    assert_eq!(fs::read_to_string(over.join("file")).unwrap(), "text");
    let joined = Joined::new(&volume);
    let found = fs::read_to_string(over.join("file"));
    let made = fs::write(over.join("made"), "text");
    joined.leave();
    [&over, &aside].into_iter().for_each(|at| unmount(at, UnmountFlags::DETACH).unwrap());
    assert_eq!(found.unwrap(), "text");
    made.unwrap();
}
