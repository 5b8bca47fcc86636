//! A directory that grows over all shards, is emptied, and grows again, under a real mount.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::site::until;
use common::{Volume, pando, shell};
use serde_json::Value;

/// Partitions as `pando info` shows them: index, depth, shard.
fn partitions(volume: &Volume, dir: &Path) -> Vec<(u64, u64, u64)> {
    let info = volume.info(dir);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let list = info["partitions"].as_array().unwrap().iter();
    list.map(|p| (number(&p["index"]), number(&p["depth"]), number(&p["shard"]))).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let list = fs::read_dir(dir).unwrap();
    list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Waits until the directory has only its first partition.
fn until_whole(volume: &Volume, dir: &Path) {
    until("one partition again", || matches!(partitions(volume, dir)[..], [(0, 0, _)]));
}

/// The sum of a figure over all shards of a status.
fn sum(status: &Value, what: &str) -> u64 {
    let shards = status["shards"].as_array().unwrap().iter();
    shards.map(|shard| shard[what].as_u64().unwrap()).sum()
}

#[test]
fn a_directory_that_is_emptied_is_one_partition_again_and_grows_again() {
    let mut volume = Volume::up(&["--split-threshold", "64"]);
    let dir = volume.mount.join("d");
    shell(&volume.mount, "mkdir d");
    for _ in 0..2 {
        shell(&dir, "seq -f 'f%g' 2000 | xargs touch; mkdir sub; echo data > kept");
        let grown = partitions(&volume, &dir);
        let shards: BTreeSet<_> = grown.iter().map(|(.., shard)| *shard).collect();
        assert!(grown.len() >= 4 && shards.len() == 4, "{grown:?}");
        // Half of the names are removed while they are listed, the rest by a program that lists and
        // removes in turn.
        shell(&dir, "seq -f 'f%g' 1 2 2000 | xargs rm & ls > /dev/null; wait");
        assert_eq!(names(&dir).len(), 1002);
        shell(&dir, "find . -name 'f*' -delete");
        let left: BTreeSet<_> = names(&dir).into_iter().collect();
        assert!(left.iter().eq(["kept", "sub"]), "{left:?}");
        until_whole(&volume, &dir);
        assert_eq!(fs::read_to_string(dir.join("kept")).unwrap(), "data\n");
        assert_eq!(fs::metadata(&dir).unwrap().nlink(), 3);
        shell(&dir, "rmdir sub");
    }
    shell(&dir, "rm kept; cd ..; rmdir d");
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", common::all(&output));
}

/// Number of files that the huge directory has for a while.
const FILES: u64 = 20_000;
/// Memory of a shard's trees at which it begins a checkpoint, bytes. There are many while the
/// directory grows.
const TREE_BYTES: u64 = 200_000;
/// The limit at the end, bytes, so that everything is in index files. It is somewhat more than a
/// nearly empty tree takes.
const LEAST_TREE_BYTES: u64 = 16_000;
/// By how much a log may be longer than it must be, bytes.
const LOG_CHUNK_BYTES: u64 = 2 << 20;

/// Waits until no shard has a checkpoint to make. A status request is enough for a shard to begin a
/// checkpoint that is due.
fn settled(volume: &Volume, tree_bytes: u64) -> Value {
    let mut status = volume.status();
    until("checkpoints are made", || {
        status = volume.status();
        let shards = status["shards"].as_array().unwrap().iter();
        let mut figures = shards.map(|shard| (&shard["frozen_bytes"], &shard["tree_bytes"]));
        figures.all(|(frozen, tree)| *frozen == 0 && tree.as_u64().unwrap() < tree_bytes)
    });
    status
}

/// Bytes of all files of the stores with names that begin with `prefix`.
fn on_disk(volume: &Volume, prefix: &str) -> u64 {
    let folders = (0..4).map(|shard| volume.folder.join(format!("shard-{shard:04}")));
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(Result::unwrap);
    let named = files.filter(|file| file.file_name().to_string_lossy().starts_with(prefix));
    // A file that is removed meanwhile takes no space.
    named.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}

/// An empty huge directory gives back what it took: partitions and memory at once, and disk space
/// with the next checkpoint. Its files may be removed one by one, or with the directory.
#[test]
fn a_huge_directory_that_is_emptied_gives_back_partitions_memory_and_disk() {
    let mut volume = Volume::down();
    let start = |volume: &mut Volume, tree_bytes: u64| {
        let tree_bytes = tree_bytes.to_string();
        volume.start(&["--split-threshold", "2000", "--checkpoint-bytes", &tree_bytes]);
    };
    let dir = volume.mount.join("d");
    let fill = |count: u64| {
        let output = pando().arg("fill").arg(&dir).arg(count.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", common::all(&output));
    };
    start(&mut volume, TREE_BYTES);
    let logs = on_disk(&volume, "log-");
    fill(FILES);
    assert!(partitions(&volume, &dir).len() >= 4);
    let full = settled(&volume, TREE_BYTES);
    let full_files = on_disk(&volume, "idx-");
    assert_eq!(sum(&full, "inodes"), FILES + 2);
    // Everything except what the trees hold is in index files.
    assert!(sum(&full, "index_entries") > FILES / 2 && full_files > FILES * 15, "{full:#}");

    for removal in ["find d -type f -delete", "rm -rf d; mkdir d"] {
        shell(&volume.mount, removal);
        until_whole(&volume, &dir);
        assert_eq!(sum(&settled(&volume, TREE_BYTES), "inodes"), 2);
        until("the kernel and the mount have forgotten the files", || {
            volume.status()["mount"]["known_inodes"].as_u64().unwrap() <= 2
        });
        // The trees held less than a checkpoint needs. A restart reads it from the log, and it
        // becomes due.
        volume.stop();
        start(&mut volume, LEAST_TREE_BYTES);
        settled(&volume, LEAST_TREE_BYTES);
        // The entries that are left are hidden by tombstones in the trees: 100 per shard or less.
        // The others are merged away beside checkpoints.
        until("index files have little left", || sum(&volume.status(), "index_entries") < 600);
        // A checkpoint counts as done a moment before the files that it replaces are removed.
        until("old files are gone", || {
            on_disk(&volume, "idx-") < full_files / 20
                && on_disk(&volume, "log-") <= logs + 4 * LOG_CHUNK_BYTES
        });
        fill(3000);
        assert_eq!(names(&dir).len(), 3000);
    }
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", common::all(&output));
}
