//! `pando store`: reads the stores of a stopped volume.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::site::Site;
use crate::common::{TINY, Volume, all, pando, shell};
use serde_json::Value;

fn store(command: &str, folder: &std::path::Path, extra: &[&str]) -> Output {
    pando().args(["store", command]).arg(folder).args(extra).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", all(output)))
}

/// A volume with 3,000 names. Each shard has some of them in index files.
fn filled() -> Volume {
    let volume = Volume::up(&TINY);
    shell(&volume.mount, "mkdir d && cd d && seq -f 'file-%g' 3000 | xargs touch");
    let deadline = Instant::now() + Duration::from_secs(100);
    loop {
        let status =
            json(&pando().arg("status").arg(&volume.folder).arg("--json").output().unwrap());
        let checkpoints = |shard: &Value| shard["counters"]["checkpoints"].as_u64().unwrap();
        if status["shards"].as_array().unwrap().iter().all(|shard| checkpoints(shard) > 0) {
            return volume;
        }
        assert!(Instant::now() < deadline, "no checkpoint: {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn check_stats_and_dump_tell_of_every_shard_of_a_stopped_volume() {
    let mut volume = filled();
    let output = store("check", &volume.folder, &[]);
    assert_eq!(output.status.code(), Some(4), "it is running: {}", all(&output));
    assert!(all(&output).contains("pando down"), "{}", all(&output));
    volume.stop();

    let output = store("check", &volume.folder, &["--json"]);
    assert!(output.status.success(), "{}", all(&output));
    let found = json(&output);
    let stores = found["stores"].as_array().unwrap();
    assert_eq!(stores.len(), 4);
    assert!(stores.iter().all(|store| store["is_clean"] == true), "{found}");
    let output = store("check", &volume.folder, &[]);
    assert_eq!(all(&output).matches("intact").count(), 4, "{}", all(&output));

    let found = json(&store("stats", &volume.folder, &["--json"]));
    let entries = |store: &Value| {
        let levels = store["levels_from_bottom"].as_array().unwrap();
        levels.iter().map(|level| level["entries"].as_u64().unwrap()).sum::<u64>()
    };
    let stores = found["stores"].as_array().unwrap();
    assert!(stores.iter().map(entries).sum::<u64>() > 100, "{found}");
    let output = store("stats", &volume.folder, &[]);
    assert!(all(&output).contains("bottom"), "{}", all(&output));

    // One shard's folder works as well, and each name is in some dump.
    let shard = volume.folder.join("shard-0002");
    let lines = |output: Output| String::from_utf8(output.stdout).unwrap().lines().count();
    let one = lines(store("dump", &shard, &["--json"]));
    assert!(one > 100);
    assert_eq!(lines(store("dump", &shard, &[])), one);
    let dump = String::from_utf8(store("dump", &volume.folder, &[]).stdout).unwrap();
    for number in [1, 1500, 3000] {
        assert!(dump.contains(&format!("file-{number}")), "{number}");
    }
    let output = store("dump", &shard, &["--snapshot", "none"]);
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    // The commands have changed nothing that matters.
    volume.start(&TINY);
    assert_eq!(shell(&volume.mount, "ls d | wc -l").trim(), "3000");
}

#[test]
fn a_shard_that_was_added_is_looked_at_too() {
    let mut site = Site::new(&["all"], &[]);
    let added = pando().args(["shard", "add"]).arg(&site.folder).output().unwrap();
    assert!(added.status.success(), "{}", all(&added));
    let output = store("check", &site.folder, &[]);
    assert_eq!(output.status.code(), Some(4), "servers have it: {}", all(&output));
    assert!(all(&output).contains("pando down"), "{}", all(&output));
    let down = pando().arg("down").arg(&site.folder).output().unwrap();
    assert!(down.status.success(), "{}", all(&down));
    site.processes.clear();
    for command in ["check", "stats"] {
        let found = json(&store(command, &site.folder, &["--json"]));
        assert_eq!(found["stores"].as_array().unwrap().len(), 5, "{found}");
    }
    // The dump has what only the new shard has.
    let lines =
        |folder: &Path| store("dump", folder, &[]).stdout.iter().filter(|b| **b == b'\n').count();
    let each = (0..5).map(|shard| lines(&site.folder.join(format!("shard-{shard:04}"))));
    let each: Vec<_> = each.collect();
    assert!(each.iter().all(|lines| *lines > 0), "{each:?}");
    assert_eq!(lines(&site.folder), each.iter().sum::<usize>());
    // A missing shard is reported.
    fs::remove_dir_all(site.folder.join("shard-0001")).unwrap();
    let output = store("check", &site.folder, &[]);
    assert_eq!(output.status.code(), Some(5), "{}", all(&output));
    assert!(all(&output).contains("shard-0001: the folder of a shard is missing"));
}

#[test]
fn damage_is_listed_with_file_and_offset() {
    let mut volume = filled();
    volume.stop();
    let shard = volume.folder.join("shard-0001");
    let files = fs::read_dir(&shard).unwrap().map(|entry| entry.unwrap().path());
    let index = files
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("idx-"))
        .max()
        .expect("a checkpoint has been made");
    let mut bytes = fs::read(&index).unwrap();
    bytes[100] ^= 1;
    fs::write(&index, bytes).unwrap();
    let output = store("check", &volume.folder, &["--json"]);
    assert_eq!(output.status.code(), Some(5), "{}", all(&output));
    let found = json(&output);
    let damage = &found["stores"][1]["damage"][0];
    assert_eq!(damage["file"], index.file_name().unwrap().to_str().unwrap());
    assert_eq!(damage["offset"], 32);
    let output = store("check", &shard, &[]);
    assert!(all(&output).contains("DAMAGED") && all(&output).contains("offset 32"));
}

#[test]
fn a_folder_that_is_no_store_is_refused() {
    let volume = Volume::down();
    fs::create_dir_all(&volume.folder).unwrap();
    for command in ["check", "stats", "dump"] {
        let output = store(command, &volume.folder, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", all(&output));
        assert!(fs::read_dir(&volume.folder).unwrap().next().is_none(), "nothing was made");
    }
}

#[test]
fn a_store_is_exported_into_a_folder_of_its_own() {
    let mut volume = filled();
    let to = volume.folder.with_extension("export");
    let path = to.to_str().unwrap().to_owned();
    let refused = |folder: &Path, extra: &[&str], code: i32, words: &str| {
        let output = store("export", folder, extra);
        assert_eq!(output.status.code(), Some(code), "{}", all(&output));
        assert!(all(&output).contains(words), "{}", all(&output));
    };
    refused(&volume.folder, &["--shard", "2", "--to", &path], 4, "pando down");
    volume.stop();
    let shard = volume.folder.join("shard-0002");
    refused(&volume.folder, &["--to", &path], 1, "--shard");
    refused(&volume.folder, &["--shard", "9", "--to", &path], 1, "has no shard 9");
    refused(&shard, &["--shard", "2", "--to", &path], 1, "omit --shard");
    refused(&shard, &["--to", &path, "--snapshot", "none"], 1, "has no snapshot");
    assert!(!to.exists(), "nothing was made");
    refused(&shard, &["--to", volume.folder.to_str().unwrap()], 1, "not empty");

    let output = store("export", &volume.folder, &["--shard", "2", "--to", &path, "--json"]);
    assert!(output.status.success(), "{}", all(&output));
    let found = json(&output);
    assert!(found["linked_bytes"].as_u64().unwrap() > 0, "{found}");
    let lines = |folder: &Path| store("dump", folder, &[]).stdout;
    assert_eq!(lines(&to), lines(&shard));
    assert!(lines(&to).len() > 1000);
    let output = store("check", &to, &["--deep"]);
    assert!(output.status.success(), "{}", all(&output));
    refused(&shard, &["--to", &path], 1, "not empty");

    // One that was interrupted.
    fs::rename(to.join("MANIFEST"), to.join(babu::UNFINISHED_EXPORT)).unwrap();
    refused(&shard, &["--to", &path], 1, "was not finished");
    let output = store("check", &to, &[]);
    assert_eq!(output.status.code(), Some(5), "{}", all(&output));
    assert!(all(&output).contains("export again"), "{}", all(&output));
    fs::remove_dir_all(&to).unwrap();
}
