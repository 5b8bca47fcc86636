//! `pando sync`: all that any program has written is on disk.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Output;

use crate::common::site::Site;
use crate::common::{Volume, all, mount_tmpfs, pando};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::{Signal, kill_process};

fn sync(path: &Path) -> Output {
    pando().arg("sync").arg(path).output().unwrap()
}

/// Creates a file, writes to it and leaves it open.
fn written(path: &Path, len: usize) -> File {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; len]).unwrap();
    file
}

/// Kills all processes with `SIGKILL`. The next server waits for their locks.
fn kill(site: &mut Site) {
    for pid in site.processes.drain(..) {
        kill_process(pid, Signal::KILL).unwrap();
    }
    for mount in &site.mounts {
        let _ = unmount(mount, UnmountFlags::DETACH);
    }
}

#[test]
fn what_is_written_and_not_closed_outlives_mount_and_servers() {
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    site.mount(&[]);
    let files: Vec<_> = [("small", 100), ("large", 300_000)]
        .map(|(name, len)| (name, len, written(&site.at(0, name), len)))
        .into();
    // Any path on the mount may be given.
    let output = sync(&site.at(0, "small"));
    assert!(output.status.success() && all(&output).contains("is on disk"), "{}", all(&output));
    kill(&mut site);
    site.serve("all", &[]);
    site.mount(&[]);
    for (name, len, _) in files {
        assert_eq!(fs::read(site.at(1, name)).unwrap(), vec![7; len]);
    }
}

#[test]
fn the_mount_of_a_volume_that_is_up_is_synced_too() {
    let mut volume = Volume::up(&[]);
    let file = written(&volume.mount.join("file"), 300_000);
    let output = sync(&volume.mount);
    assert!(output.status.success(), "{}", all(&output));
    volume.kill();
    drop(file);
    volume.start(&[]);
    assert_eq!(fs::read(volume.mount.join("file")).unwrap(), vec![7; 300_000]);
    let elsewhere = sync(volume.scratch());
    assert_eq!(elsewhere.status.code(), Some(1), "{}", all(&elsewhere));
    assert!(all(&elsewhere).contains("is not on a mount of Pando"), "{}", all(&elsewhere));
}

#[test]
fn what_cannot_be_stored_is_told_here_and_to_the_program_that_wrote_it() {
    let mut site = Site::new(&[], &[]);
    let objects = site.folder.join("objects");
    mount_tmpfs(&objects, 1, MountFlags::empty());
    site.serve("all", &[]);
    site.mount(&[]);
    let filler = objects.join("filler");
    fs::write(&filler, vec![1; 900_000]).unwrap();
    let file = written(&site.at(0, "file"), 300_000);
    let failed = sync(&site.mounts[0]);
    assert_eq!(failed.status.code(), Some(1), "{}", all(&failed));
    assert!(all(&failed).contains("cannot store"), "{}", all(&failed));
    assert!(file.sync_all().is_err(), "the program hears of it as well");
    fs::remove_file(&filler).unwrap();
    // Bytes that could not be stored are stored once there is room.
    let output = sync(&site.mounts[0]);
    assert!(output.status.success(), "{}", all(&output));
    kill(&mut site);
    site.serve("all", &[]);
    site.mount(&[]);
    assert_eq!(fs::read(site.at(1, "file")).unwrap(), vec![7; 300_000]);
}
