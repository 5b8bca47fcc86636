//! Real programs on a real mount.

mod common;

use std::fs;

use common::programs::{self, Program};
use common::{TINY, Volume, all, differences};

/// Runs a program in a folder of a new volume, and leaves the folder there.
fn run(program: Program) -> Volume {
    let volume = Volume::up(&TINY);
    let [local, back] = ["local", "back"].map(|name| volume.scratch().join(name));
    programs::prepare(&local, 1);
    let folder = volume.mount.join(program.name);
    for folder in [&back, &folder] {
        fs::create_dir(folder).unwrap();
    }
    let output = program.command(&folder, &local, &back, 1).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.name, all(&output));
    volume
}

#[test]
fn git_clones_commits_checks_and_packs() {
    run(programs::GIT);
}

#[test]
fn a_c_project_is_built_with_make() {
    run(programs::MAKE);
}

#[test]
fn sqlite_is_written_by_two_processes_in_both_journal_modes() {
    run(programs::SQLITE_ROLLBACK);
    run(programs::SQLITE_WAL);
}

#[test]
fn rsync_goes_there_and_back_and_a_second_run_has_nothing_to_do() {
    run(programs::RSYNC);
}

#[test]
fn tar_goes_there_and_back_and_a_restart_changes_nothing() {
    let mut volume = run(programs::TAR);
    let (source, there) = (volume.scratch().join("local/src"), volume.mount.join("tar/src"));
    volume.stop();
    volume.start(&TINY);
    assert_eq!(differences(&source, &there), [""; 0]);
    volume.kill();
    volume.start(&TINY);
    assert_eq!(differences(&source, &there), [""; 0]);
}

#[test]
fn an_unlinked_file_stays_open_and_is_gone_after_a_crash() {
    use std::io::{Read, Seek, Write};
    let mut volume = Volume::up(&TINY);
    let path = volume.mount.join("f");
    let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [7; 100_000]);
    let inodes = |volume: &Volume| -> u64 {
        let status = volume.status();
        status["shards"].as_array().unwrap().iter().map(|s| s["inodes"].as_u64().unwrap()).sum()
    };
    assert_eq!(inodes(&volume), 2);
    volume.kill();
    drop(file);
    volume.start(&TINY);
    assert_eq!(inodes(&volume), 1, "the dead session's file is still there");
}
