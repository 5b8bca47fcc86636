//! Mistakes of people who are new to Pando. Each message says what is wrong, where, and what to do.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use crate::common::site::Site;
use crate::common::{Scratch, USER, Volume, all, as_user, is_mounted, pando_within};

/// Checks that the process ended with this code, and printed `words` but none of `no`.
fn assert_words(output: &Output, code: i32, words: &[&str], no: &[&str]) {
    let said = all(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
    for word in no {
        assert!(!said.contains(word), "`{word}` in: {said}");
    }
}

fn run(arguments: &[&str]) -> Output {
    pando_within(60).args(arguments).output().unwrap()
}

#[test]
fn numbers_out_of_range_are_told_the_range_and_help_says_what_may_be_changed() {
    let help = run(&["format", "--help"]);
    assert_words(&help, 0, &["`pando shard add` adds more later"], &["cannot be changed later"]);
    let scratch = Scratch::new();
    let folder = scratch.path().join("v");
    let folder = folder.to_str().unwrap();
    for shards in ["abc", "0", "257", "70000"] {
        let output = run(&["format", folder, "--shards", shards]);
        assert_words(&output, 2, &["--shards", "write a number from 1 to 256"], &["invalid digit"]);
    }
    let output = run(&["shard", "move", "nine", "--to", "127.0.0.1:7400"]);
    assert_words(&output, 2, &["write a number from 0 to 255"], &["invalid digit"]);
}

#[test]
fn what_is_no_volume_or_no_address_is_named_as_what_it_is() {
    let scratch = Scratch::new();
    let [volume, other, file, mount] =
        ["volume", "other", "file", "mount"].map(|name| scratch.path().join(name));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "x").unwrap();
    fs::write(&file, "x").unwrap();
    let [volume, other, file, mount] =
        [&volume, &other, &file, &mount].map(|path| path.to_str().unwrap());
    assert!(run(&["format", volume]).status.success());

    let no = ["empty or a new folder"];
    let words = [other, "is no Pando volume (it holds `thesis.tex`", "name the folder of a volume"];
    for command in
        [&["status", other][..], &["down", other], &["fsck", other], &["mount", other, mount]]
    {
        assert_words(&run(command), 1, &words, &no);
    }
    let up = ["up", other, "--mount", mount];
    assert_words(&run(&up), 1, &["thesis.tex", "name an empty or a new folder"], &[]);

    let below = format!("{file}/below");
    for folder in [file, &below] {
        let up = ["up", folder, "--mount", mount];
        for command in [&["status", folder][..], &["down", folder], &["format", folder], &up] {
            let words = [file, "is not a folder: name a folder"];
            assert_words(&run(command), 1, &words, &["os error"]);
        }
    }

    let up = ["up", volume, "--mount", mount, "--shards", "2"];
    let words = ["was made with 4 shards", "leave out --shards", "pando shard add"];
    assert_words(&run(&up), 1, &words, &["cannot be changed"]);

    for host in ["127.0.0.1", "localhost", "storage.example.org"] {
        let words = [&format!("write {host}:PORT"), "neither a folder nor an address", "./"];
        let words = words.map(|word: &str| word);
        assert_words(&run(&["mount", host, mount]), 1, &words, &["pando format"]);
    }
    assert!(!is_mounted(Path::new(mount)));
}

#[test]
fn a_shard_that_is_not_there_is_told_from_those_that_are() {
    let mut site = Site::new(&["all"], &[]);
    let to = format!("unix:{}", site.folder.join("run/server-0000.sock").display());
    let mut command = pando_within(60);
    let output = command.args(["shard", "move", "9", "--to", &to]).output().unwrap();
    let words = ["there is no shard 9", "shards 0 to 3", "pando shard list", "pando shard add"];
    assert_words(&output, 1, &words, &["nobody has said"]);
    // The folder where a volume is mounted is not the volume.
    site.mount(&[]);
    let output = pando_within(60).arg("down").arg(&site.mounts[0]).output().unwrap();
    let words = ["is mounted: name", site.folder.to_str().unwrap()];
    assert_words(&output, 1, &words, &["pando format"]);
}

/// If another user may not run the program here, nothing is tested.
#[test]
fn another_user_is_told_whose_it_is() {
    let volume = Volume::up(&[]);
    let run_folder = volume.scratch().join("run-of-user");
    fs::create_dir(&run_folder).unwrap();
    fs::set_permissions(&run_folder, Permissions::from_mode(0o700)).unwrap();
    chown(&run_folder, Some(USER), Some(USER)).unwrap();
    fs::set_permissions(volume.scratch(), Permissions::from_mode(0o755)).unwrap();
    let Some(as_user) = as_user(&run_folder) else { return };
    // No helper that mounts for users is found, on any machine.
    let as_user = |arguments: &[&str]| as_user("/nonexistent", arguments);
    let (folder, mount) = (volume.folder.to_str().unwrap(), volume.mount.to_str().unwrap());
    for command in [["status", folder], ["down", folder], ["fsck", folder]] {
        let words = [folder, "belongs to user 0", "--key"];
        assert_words(&as_user(&command), 1, &words, &["you may write"]);
    }
    for command in [["status", mount], ["info", mount]] {
        let words = [mount, "is another user's", "as root"];
        assert_words(&as_user(&command), 1, &words, &["unknown"]);
    }
    // Nothing is created that could not be mounted.
    let [new, at] = ["new", "at"].map(|name| run_folder.join(name).to_str().unwrap().to_owned());
    let (new, at) = (&new[..], &at[..]);
    let is_open_to_all = fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o006 == 0o006;
    let words = if is_open_to_all {
        ["fusermount3 is not installed", "mount as root"]
    } else {
        ["/dev/fuse may not be opened by user 1234", "chmod 666 /dev/fuse"]
    };
    for command in [&["up", new, "--mount", at][..], &["up", new, "--mount", at, "-d"]] {
        assert_words(&as_user(command), 1, &words, &["made volume"]);
        assert!(!Path::new(new).exists() && !Path::new(at).exists());
    }
}
