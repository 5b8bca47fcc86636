//! A directory that grows over all shards, is emptied, and grows again, under a real mount.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Volume, pando, shell};

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

#[test]
fn a_directory_that_is_emptied_is_one_partition_again_and_grows_again() {
    let mut volume = Volume::up(&["--split-threshold", "64"]);
    let dir = volume.mount.join("d");
    shell(&volume.mount, "mkdir d");
    for round in 0..2 {
        shell(&dir, "seq -f 'f%g' 2000 | xargs touch; mkdir sub; echo data > kept");
        let grown = partitions(&volume, &dir);
        let shards: BTreeSet<_> = grown.iter().map(|(.., shard)| *shard).collect();
        assert!(grown.len() >= 4 && shards.len() == 4, "{grown:?}");
        // Half of it by name, while it is listed; the rest by who lists and removes in turn.
        shell(&dir, "seq -f 'f%g' 1 2 2000 | xargs rm & ls > /dev/null; wait");
        assert_eq!(names(&dir).len(), 1002);
        shell(&dir, "find . -name 'f*' -delete");
        let left: BTreeSet<_> = names(&dir).into_iter().collect();
        assert!(left.iter().eq(["kept", "sub"]), "{left:?}");
        let begun = Instant::now();
        loop {
            let now = partitions(&volume, &dir);
            if let [(0, 0, _)] = now[..] {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "round {round}: {now:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(fs::read_to_string(dir.join("kept")).unwrap(), "data\n");
        assert_eq!(fs::metadata(&dir).unwrap().nlink(), 3);
        shell(&dir, "rmdir sub");
    }
    shell(&dir, "rm kept; cd ..; rmdir d");
    volume.stop();
    let output = pando().arg("fsck").arg(&volume.folder).output().unwrap();
    assert!(output.status.success(), "{}", common::all(&output));
}
