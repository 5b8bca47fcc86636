//! `pando gc`: deletes objects that no file names while the volume is in use, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::site::{Site, until};
use crate::common::{Volume, all, pando};
use serde_json::Value;

fn gc(target: &Path, options: &[&str]) -> Output {
    pando().arg("gc").arg(target).args(options).output().unwrap()
}

fn counts(target: &Path, options: &[&str]) -> [u64; 3] {
    let output = gc(target, &[options, &["--json"]].concat());
    assert!(output.status.success(), "{}", all(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    ["objects", "of_sessions_that_live", "unneeded"].map(|name| said[name].as_u64().unwrap())
}

/// Files that are objects, below a folder of objects.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false if entry.file_name().len() == 3 => found.push(entry.path()),
                false => {}
            }
        }
    }
    found.sort();
    found
}

fn content(n: usize) -> Vec<u8> {
    (0..20_000).map(|at| (at * 7 + n) as u8).collect()
}

/// Leaves an object beside another one of its session. A mount leaves one if it dies after it has
/// stored the object, and before a file names it.
fn lose_one(objects: &[PathBuf]) -> PathBuf {
    let lost = objects[0].with_file_name("ff0");
    fs::copy(&objects[0], &lost).unwrap();
    lost
}

#[test]
fn what_a_mount_left_that_died_is_deleted_and_files_are_not() {
    let mut volume = Volume::up(&[]);
    for n in 0..10 {
        fs::write(volume.mount.join(format!("file{n}")), content(n)).unwrap();
    }
    volume.kill();
    volume.start(&[]);
    let there = objects(&volume.folder.join("objects"));
    assert_eq!(there.len(), 10);
    let lost = lose_one(&there);
    // The session that makes this object is alive.
    fs::write(volume.mount.join("new"), content(10)).unwrap();
    assert_eq!(counts(&volume.folder, &["--dry-run"]), [12, 1, 1]);
    assert!(lost.exists());
    assert_eq!(counts(&volume.folder, &[]), [12, 1, 1]);
    assert!(!lost.exists());
    assert_eq!(counts(&volume.folder, &[]), [11, 1, 0]);
    volume.kill();
    volume.start(&[]);
    for n in 0..10 {
        assert_eq!(fs::read(volume.mount.join(format!("file{n}"))).unwrap(), content(n));
    }
    let output = gc(&volume.folder, &[]);
    let said = "0 objects that no file names deleted (0 B), of 11; 0 of open sessions were kept";
    assert!(all(&output).contains(said), "{}", all(&output));
}

#[test]
fn the_server_of_shard_0_does_it_by_itself() {
    let mut volume = Volume::up(&[]);
    fs::write(volume.mount.join("file"), content(1)).unwrap();
    volume.kill();
    volume.start(&["--gc-seconds", "24"]);
    let lost = lose_one(&objects(&volume.folder.join("objects")));
    until("what no file names is deleted", || !lost.exists());
    assert_eq!(fs::read(volume.mount.join("file")).unwrap(), content(1));
    until("it is told", || volume.log().contains("deleted 1 object that no file names"));
}

/// Sets the flag when it is dropped. A thread works until the flag is true.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn files_that_two_mounts_move_about_meanwhile_are_kept() {
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    site.mount(&[]);
    for dir in 0..8 {
        fs::create_dir(site.at(0, &format!("d{dir}"))).unwrap();
    }
    for n in 0..20 {
        fs::write(site.at(0, &format!("d0/f{n}")), content(n)).unwrap();
    }
    let folder = site.scratch().join("volume");
    // The session that stored the objects ends.
    let output = pando().arg("umount").arg(site.at(0, "")).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    site.mount(&[]);
    site.mount(&[]);
    let mut at = [0; 20];
    let lost = lose_one(&objects(&folder.join("objects")));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (site, at, end) = (&site, &mut at, End(&done));
        scope.spawn(|| {
            let mut turn = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let (n, to) = (turn % 20, (turn / 20 + turn * 3) % 8);
                let (from, to_path) = (format!("d{}/f{n}", at[n]), format!("d{to}/f{n}"));
                let mount = 1 + turn % 2;
                fs::rename(site.at(mount, &from), site.at(mount, &to_path)).unwrap();
                at[n] = to;
                turn += 1;
            }
        });
        for round in 0..10 {
            let [objects, _, unneeded] = counts(&folder, &[]);
            assert_eq!((objects, unneeded), if round == 0 { (21, 1) } else { (20, 0) });
        }
        drop(end);
    });
    assert!(!lost.exists());
    for (n, dir) in at.iter().enumerate() {
        assert_eq!(fs::read(site.at(1, &format!("d{dir}/f{n}"))).unwrap(), content(n));
    }
}

#[test]
fn a_volume_that_does_not_run_is_told() {
    let mut volume = Volume::up(&[]);
    volume.stop();
    let output = gc(&volume.folder, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", all(&output));
}
