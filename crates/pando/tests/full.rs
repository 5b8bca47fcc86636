//! A volume on a disk that is full to the last byte, killed there: it comes up again, and deletions make room.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Volume, all, pando};
use rustix::io::Errno;

const SIZES: [&str; 8] = [
    "--log-chunk-bytes",
    "262144",
    "--reserve-bytes",
    "131072",
    "--ballast-bytes",
    "1048576",
    "--checkpoint-bytes",
    "1048576",
];

fn is_full<T>(result: &std::io::Result<T>) -> bool {
    let Err(error) = result else { return false };
    let is_full = error.raw_os_error() == Some(Errno::NOSPC.raw_os_error());
    assert!(is_full, "{error}");
    true
}

/// Something else on the disk takes what is left of it.
fn take_the_rest(disk: &Path) {
    let mut file = File::options().append(true).create(true).open(disk.join("other")).unwrap();
    for piece in [64 << 10, 4096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
}

/// Tries again until it is done, for ten seconds.
fn at_last(what: &str, mut is_done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(10), "still refused: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Killed with its disk full, a volume with these files comes up, loses none of them, and has room again when half are gone.
fn comes_back(mut volume: Volume, mut paths: Vec<PathBuf>) {
    let disk = volume.folder.parent().unwrap().to_owned();
    for _ in 0..3 {
        take_the_rest(&disk);
        volume.kill();
        take_the_rest(&disk);
        volume.start(&SIZES);
    }
    assert!(paths.iter().all(|path| path.exists()));
    for path in paths.split_off(paths.len() / 2) {
        at_last("a deletion", || !is_full(&fs::remove_file(&path)));
    }
    let new = volume.mount.join("new");
    at_last("a new file", || !is_full(&fs::write(&new, "")));
    assert!(paths.iter().all(|path| path.exists()));
    let status = volume.status()["shards"].to_string();
    assert!(!status.contains("FAILED"), "{status}");
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    volume.start(&SIZES);
    assert!(new.exists() && paths.iter().all(|path| path.exists()));
}

#[test]
fn a_volume_whose_disk_data_has_filled_comes_back() {
    let mut volume = Volume::on_small_disk(32);
    volume.start(&SIZES);
    let mut paths = Vec::new();
    loop {
        let path = volume.mount.join(format!("data-{}", paths.len()));
        let stored = File::create(&path).and_then(|mut file| {
            file.write_all(&[7; 300_000])?;
            file.sync_all()
        });
        if is_full(&stored) {
            break;
        }
        paths.push(path);
        assert!(paths.len() < 1_000);
    }
    comes_back(volume, paths);
}

#[test]
fn a_volume_whose_disk_names_have_filled_comes_back() {
    let mut volume = Volume::on_small_disk(24);
    volume.start(&SIZES);
    let mut paths = Vec::new();
    let mut refused = 0;
    // The first refusal may be one that a checkpoint is about to make up for.
    while refused < 20 {
        let path = volume.mount.join(format!("name-{:0>100}", paths.len()));
        if is_full(&File::create(&path)) {
            refused += 1;
            std::thread::sleep(Duration::from_millis(100));
        } else {
            paths.push(path);
        }
        assert!(paths.len() < 500_000);
    }
    assert!(paths.len() > 1_000, "{}", paths.len());
    comes_back(volume, paths);
}
