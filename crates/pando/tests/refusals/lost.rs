//! Programs' bytes that could not be stored are reported with the names of their files.

use std::fs::{self, File};
use std::io::Write;

use rustix::mount::MountFlags;

use crate::common::site::until;
use crate::common::{Volume, all, mount_tmpfs, pando};

/// A volume with little room for objects, and enough for names.
fn without_room() -> Volume {
    let mut volume = Volume::down();
    volume.start(&[]);
    volume.stop();
    mount_tmpfs(&volume.folder.join("objects"), 1, MountFlags::empty());
    volume.start(&[]);
    volume
}

#[test]
fn files_of_which_bytes_were_lost_are_named() {
    let volume = without_room();
    let folder = volume.mount.join("some folder");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("small"), "text").unwrap();
    let path = folder.join("large");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&[1; 2 << 20]).unwrap();
    assert!(file.sync_all().is_err());
    assert_eq!(volume.mount_status()["lost_bytes"], 0, "there may yet be room");
    drop(file);
    let lost = || volume.mount_status()["losses"][0].clone();
    let shown = path.display().to_string();
    until("its names are asked for", || lost()["path"] == shown.as_str());
    assert_eq!(lost()["bytes"], 2 << 20);
    assert!(lost()["since"].as_u64().unwrap() > 1_700_000_000);
    for target in [&volume.mount, &volume.folder] {
        let output = pando().arg("status").arg(target).output().unwrap();
        let text = all(&output);
        assert!(text.contains("LOST: 2.0 MiB"), "{text}");
        let line = text.lines().find(|line| line.contains(&shown)).expect("the file is named");
        assert!(line.contains("2.0 MiB, since 2") && !text.contains("small"), "{text}");
    }
    let output = pando().arg("umount").arg(&volume.mount).output().unwrap();
    assert!(all(&output).contains(&shown) || volume.log().contains(&shown), "{}", all(&output));
}
