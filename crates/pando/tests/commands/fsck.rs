//! `pando fsck`: exit codes and messages, on volumes of the real program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Scratch, TINY, Volume, all, pando, shell};
use pando_core::contract::{GroupMeta, Rows as _};
use pando_core::keys::{self, Kind, Table};
use pando_core::record::{Content, Record, SessionRecord, Stat};
use pando_fsck::Write;
use pando_server::store::{Store, StoreOptions};
use pando_server::{Folder, Superblock};
use pando_types::{DirId, DirRef, KeyId, SessionId};
use serde_json::Value;

fn fsck(folder: &Path, options: &[&str]) -> Output {
    pando().arg("fsck").arg(folder).args(options).output().unwrap()
}

fn is(output: &Output, code: i32, said: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", all(output));
    for said in said {
        assert!(all(output).contains(said), "no `{said}`: {}", all(output));
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", all(output)))
}

/// A volume that was formatted and never started.
fn formatted(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("volume");
    let output = pando().arg("format").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    folder
}

/// Opens the store of one shard.
fn store(folder: &Path, shard: u16) -> Store {
    let superblock: Superblock = Folder::new(folder).unwrap().read().unwrap();
    let path = Folder::new(folder).unwrap().shard(shard);
    let id = superblock.database_id(shard);
    Store::open(&path, id, &StoreOptions::default()).unwrap().0
}

fn write(store: &mut Store, write: Write) {
    store.apply(&[write], &GroupMeta::default());
    store.write().unwrap();
    store.syncer().sync().unwrap();
}

#[test]
fn a_whole_volume_is_said_to_be_whole() {
    let scratch = Scratch::new();
    let folder = formatted(&scratch);
    is(&fsck(&folder, &[]), 0, &["is whole: 1 directory, 0 files, 0 objects"]);
    is(&fsck(&folder, &["--repair"]), 0, &["is whole"]);
    let said = json(&fsck(&folder, &["--json"]));
    assert_eq!((&said["clean"], &said["directories"]), (&Value::Bool(true), &1.into()));
    assert_eq!(said["findings"], Value::Array(Vec::new()));
}

#[test]
fn damage_is_named_and_mended_only_if_that_is_wanted() {
    let scratch = Scratch::new();
    let folder = formatted(&scratch);
    let session =
        SessionRecord { root: DirRef::ROOT, key: Some(KeyId::OWNER), over: None }.encode();
    write(&mut store(&folder, 2), Write::Put(keys::session(SessionId(0)), session));
    for _ in 0..2 {
        let output = fsck(&folder, &[]);
        let said = ["1 thing is wrong", "session-not-everywhere", "can be mended", "--repair"];
        is(&output, 5, &said);
    }
    let output = fsck(&folder, &["--json"]);
    let said = json(&output);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(said["findings"][0]["code"], "session-not-everywhere");
    assert_eq!(said["findings"][0]["repairable"], true);
    is(&fsck(&folder, &["--repair"]), 0, &["mended", "session-not-everywhere", "is now whole"]);
    is(&fsck(&folder, &[]), 0, &["is whole"]);
}

#[test]
fn what_cannot_be_mended_is_left_and_said_so() {
    let scratch = Scratch::new();
    let folder = formatted(&scratch);
    {
        let mut store = store(&folder, 0);
        let stat = Stat { inodes: 9, bytes: 9 }.encode();
        write(&mut store, Write::Put(keys::table(Table::Stat), stat));
        let key = keys::dir(DirId::ROOT, Kind::Content, 0);
        let mut root = Content::decode(&store.get(&key).unwrap().unwrap()).unwrap();
        root.base.nlink = 3;
        write(&mut store, Write::Put(key, root.encode()));
        write(&mut store, Write::Put(b"strange".to_vec(), b"?".to_vec()));
    }
    let said = ["unknown-key", "mended in", "wrong-directory-attributes", "without guessing"];
    is(&fsck(&folder, &["--repair"]), 5, &said);
    let said = json(&fsck(&folder, &["--repair", "--json"]));
    assert_eq!(said["findings"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&said["findings"][0]["code"], &said["clean"]),
        (&"unknown-key".into(), &false.into())
    );
}

#[test]
fn an_object_that_no_file_needs_goes() {
    let scratch = Scratch::new();
    let folder = formatted(&scratch);
    let objects = folder.join("objects/0000000000000007/0");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join("02f"), "left behind").unwrap();
    is(&fsck(&folder, &[]), 5, &["object-unnamed", "session 7"]);
    is(&fsck(&folder, &["--repair"]), 0, &["object-unnamed", "is now whole"]);
    assert!(!objects.join("02f").exists());
}

#[test]
fn a_store_that_cannot_be_read_is_damage_that_names_the_file() {
    let scratch = Scratch::new();
    let folder = formatted(&scratch);
    fs::write(folder.join("shard-0001/MANIFEST"), "nonsense").unwrap();
    is(&fsck(&folder, &[]), 5, &["shard-0001", "MANIFEST"]);
    is(&fsck(&scratch.path().join("none"), &[]), 1, &["holds no Pando volume"]);
}

#[test]
fn a_running_volume_is_checked_and_one_that_was_killed_is_whole() {
    let mut volume = Volume::up(&TINY);
    shell(
        &volume.mount,
        "mkdir -p a/b c && seq -f 'a/f%g' 200 | xargs touch && ln a/f1 c/hard && ln -s x c/soft
         head -c 100000 /dev/zero > c/data && echo small > c/small && mv a/b c/moved && rm a/f2",
    );
    is(&fsck(&volume.folder, &[]), 0, &["is whole", "not ended: 1 session"]);
    is(&fsck(&volume.folder, &["--repair"]), 4, &["pando down", "stopped"]);
    assert!(json(&fsck(&volume.folder, &["--json"]))["running"].as_bool().unwrap());
    volume.kill();
    shell(volume.scratch(), "umount -l mnt");
    is(&fsck(&volume.folder, &[]), 0, &["is whole", "not ended: 1 session"]);
    volume.start(&TINY);
    assert_eq!(shell(&volume.mount, "cat c/small && ls a | wc -l"), "small\n199\n");
    volume.stop();
    let output = fsck(&volume.folder, &["--json"]);
    let said = json(&output);
    assert_eq!((&said["clean"], &said["directories"]), (&true.into(), &4.into()), "{said}");
    assert_eq!((&said["files"], &said["objects"]), (&202.into(), &1.into()), "{said}");
    // The file needs the one object: without it, that file and no other is named.
    fs::remove_dir_all(volume.folder.join("objects")).unwrap();
    is(&fsck(&volume.folder, &["--repair"]), 5, &["object-missing", "/c/data"]);
}

/// Flips a bit in the middle of the largest index file, and returns the file's name.
fn damage_a_block(folder: &Path) -> String {
    let mut files = Vec::new();
    for shard in 0..4 {
        let shard = Folder::new(folder).unwrap().shard(shard);
        files.extend(fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path()));
    }
    let is_index = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("idx-");
    let largest =
        files.into_iter().filter(is_index).max_by_key(|path| fs::metadata(path).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, bytes).unwrap();
    largest.file_name().unwrap().to_string_lossy().into_owned()
}

fn codes(said: &Value) -> Vec<&str> {
    let findings = said["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn records_that_cannot_be_read_are_named_and_nothing_is_mended_for_want_of_them() {
    let small = ["--checkpoint-bytes", "60000"];
    let mut volume = Volume::up(&small);
    shell(&volume.mount, "mkdir d && cd d && seq -f 'file-%g' 3000 | xargs touch");
    volume.stop();
    let file = damage_a_block(&volume.folder);
    let said = [
        "unreadable-block",
        &file,
        "affected are the keys from",
        "/d",
        "restore",
        "nothing is mended",
    ];
    for options in [&[][..], &["--repair"]] {
        is(&fsck(&volume.folder, options), 5, &said);
        let said = json(&fsck(&volume.folder, &[options, &["--json"]].concat()));
        assert_eq!(
            (codes(&said), &said["mended"]),
            (vec!["unreadable-block"], &Value::Array(vec![]))
        );
    }
    volume.start(&small);
    is(&fsck(&volume.folder, &[]), 5, &said[..5]);
    assert_eq!(codes(&json(&fsck(&volume.folder, &["--json"]))), ["unreadable-block"]);
    // All names outside of that block exist, and checkpoints are made without it.
    shell(&volume.mount, "cd d && seq -f 'new-%g' 3000 | xargs touch 2> /dev/null || true");
    let status = || {
        let output = pando().arg("status").arg(&volume.folder).arg("--json").output().unwrap();
        json(&output)
    };
    let shard = status()["shards"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["unreadable"] != Value::Array(vec![]))
        .cloned();
    let shard = shard.unwrap();
    assert!(shard["unreadable"][0].as_str().unwrap().contains(&file), "{shard}");
    let counter = |name: &str| shard["counters"].get(name).and_then(Value::as_u64).unwrap_or(0);
    assert!(counter("checkpoints") > 1, "{shard}");
    assert_eq!(counter("checkpoint_failures"), 0, "{shard}");
    assert_eq!(shard["failed"], Value::Null);
}
