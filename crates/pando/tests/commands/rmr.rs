//! `pando rmr`: what it removes, what it leaves, and its messages.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use crate::common::site::Site;
use crate::common::{TINY, USER, Volume, all, as_user, pando, shell};

fn rmr(path: &Path) -> Output {
    pando().arg("rmr").arg(path).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_sound(volume: &mut Volume) {
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

/// A script that makes a large directory, deep and small ones, and all kinds of files.
const TREE: &str = r#"
mkdir -p d/many d/a/b/c/d/e/f/g/h 'd/odd
name' && cd d
seq -f 'many/f%g' 1500 | xargs touch
for i in $(seq 60); do mkdir -p small/$i/x && touch small/$i/one small/$i/x/two; done
echo data > a/b/c/file && ln a/b/c/file linked && ln a/b/c/file ../outside
ln -s ../outside link && mkfifo pipe && head -c 300000 /dev/zero > large
touch 'odd
name/'$'\xff\xfe'
"#;

#[test]
fn a_tree_is_removed_with_all_that_is_in_it_and_nothing_else() {
    let mut volume = Volume::up(&TINY);
    shell(&volume.mount, TREE);
    let output = rmr(&volume.mount.join("d"));
    assert!(output.status.success(), "{}", all(&output));
    assert!(said(&output).contains(" files and "), "{}", said(&output));
    assert_eq!(
        shell(&volume.mount, "ls -A; cat outside; stat -c %h outside"),
        "outside\ndata\n1\n"
    );
    is_sound(&mut volume);
}

#[test]
fn through_servers_a_link_and_a_file_are_removed_themselves() {
    let site = Site::pair();
    shell(&site.mounts[0], TREE);
    shell(&site.mounts[0], "ln -s d link-to-d");
    for name in ["link-to-d", "outside"] {
        let output = rmr(&site.at(1, name));
        assert!(output.status.success(), "{}", all(&output));
    }
    assert_eq!(shell(&site.mounts[0], "ls -A; ls d/many | wc -l"), "d\n1500\n");
    let output = rmr(&site.at(1, "d"));
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(fs::read_dir(&site.mounts[0]).unwrap().count(), 0);
    assert_eq!(site.inodes(), 1);
}

#[test]
fn what_is_no_tree_on_a_mount_is_refused() {
    let volume = Volume::up(&TINY);
    shell(&volume.mount, "mkdir -p d/e/f && touch d/file");
    let mounted = volume.mount.join("d/e/f");
    crate::common::mount_tmpfs(&mounted, 1, rustix::mount::MountFlags::empty());
    for (path, words) in [
        (volume.mount.clone(), "is a mount itself"),
        (volume.mount.join("d"), "something is mounted at"),
        (volume.mount.join("none"), "No such file"),
        (volume.scratch().to_owned(), "is not on a mount of Pando"),
    ] {
        let output = rmr(&path);
        assert_eq!(output.status.code(), Some(1), "{}", all(&output));
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
    }
    assert!(volume.mount.join("d/file").exists());
    rustix::mount::unmount(&mounted, rustix::mount::UnmountFlags::DETACH).unwrap();
}

/// `rmr` has the permissions of the user who runs it. If another user may not run the program here,
/// nothing is tested.
#[test]
fn what_the_caller_may_not_remove_stays_and_is_told() {
    let mut volume = Volume::up(&TINY);
    shell(&volume.mount, "mkdir -p d/kept d/empty d/deep/er && touch d/kept/stays d/deep/er/goes");
    shell(&volume.mount, "seq -f 'd/f%g' 200 | xargs touch");
    for name in ["d", "d/deep", "d/deep/er"] {
        chown(volume.mount.join(name), Some(USER), Some(USER)).unwrap();
    }
    // The user owns the volume's folder, and so may use its socket.
    fs::set_permissions(volume.scratch(), fs::Permissions::from_mode(0o755)).unwrap();
    volume.stop();
    shell(volume.scratch(), &format!("chown {USER}:{USER} volume volume/run"));
    volume.start(&TINY);
    shell(volume.scratch(), &format!("chown -R {USER}:{USER} volume"));
    let run_folder = volume.scratch().join("run-of-user");
    fs::create_dir(&run_folder).unwrap();
    chown(&run_folder, Some(USER), Some(USER)).unwrap();
    let Some(as_user) = as_user(&run_folder) else { return };
    let removed = volume.mount.join("d");
    let output = as_user("/usr/bin:/bin", &["rmr", removed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    let lines = said(&output);
    assert!(lines.contains("d/kept/stays: "), "{lines}");
    assert_eq!(lines.matches("cannot remove").count(), 1, "told once, where it began: {lines}");
    assert_eq!(shell(&volume.mount, "find d | sort"), "d\nd/kept\nd/kept/stays\n");
    assert!(rmr(&volume.mount.join("d")).status.success(), "root may");
    assert!(!volume.mount.join("d").exists());
    is_sound(&mut volume);
}

#[test]
fn one_that_is_killed_can_be_done_again() {
    let mut volume = Volume::up(&TINY);
    shell(&volume.mount, "mkdir d && cd d && seq -f 'f%g' 3000 | xargs touch");
    let path = volume.mount.join("d");
    let mut first = pando().arg("rmr").arg(&path).spawn().unwrap();
    // The kill lands in the middle if the machine is slow enough. The rest must hold in any case.
    while first.try_wait().unwrap().is_none()
        && fs::read_dir(&path).is_ok_and(|names| names.count() > 2900)
    {}
    first.kill().unwrap();
    first.wait().unwrap();
    if path.exists() {
        let output = rmr(&path);
        assert!(output.status.success(), "{}", all(&output));
    }
    assert!(!path.exists());
    is_sound(&mut volume);
}
