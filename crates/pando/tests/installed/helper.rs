//! `mount -t pando` and umount(8), through their helpers.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Signal, kill_process};

use crate::common::site::until;
use crate::common::{all, is_mounted, pando};
use crate::stage::Stage;

/// Checks a failure: its exit code, and the words that it says.
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    assert_eq!(output.status.code(), Some(code), "{}", all(output));
    let said = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}

fn mount(stage: &Stage, options: &str) {
    let (folder, dir) = (stage.site.folder.as_os_str(), stage.dir.as_os_str());
    stage.quietly(
        "mount",
        &["-t".as_ref(), "pando".as_ref(), "-o".as_ref(), options.as_ref(), folder, dir],
    );
}

#[test]
fn a_mount_is_usable_once_mount_returns_and_stored_once_umount_returns() {
    let mut stage = Stage::new();
    stage.site.mount(&[]);
    for round in 0..3 {
        mount(&stage, "rw,nosuid,nodev,_netdev,nofail");
        let listed = stage.listed().unwrap();
        assert!(listed.starts_with("rw,nosuid,nodev"), "{listed}");
        let name = format!("file-{round}");
        stage.shell(&format!("yes {name} | head -c 3000000 > \"$1/{name}\""));
        // Because of `_netdev`, umount(8) asks its helper.
        stage.quietly("umount", &[&stage.dir]);
        // Nothing is waited for: the process of the mount had ended before umount(8) did.
        assert_eq!(stage.listed(), None);
        assert_eq!(stage.processes(), []);
        let stored = fs::read(stage.site.at(0, &name)).unwrap();
        let line = format!("{name}\n");
        let expected = line.bytes().cycle().take(3_000_000);
        assert!(stored.len() == 3_000_000 && stored.into_iter().eq(expected));
    }
}

#[test]
fn without_the_helper_of_umount_all_is_stored_a_moment_later() {
    let mut stage = Stage::new();
    mount(&stage, "sync-metadata");
    stage.shell("yes | head -c 3000000 > \"$1/file\"; mkdir \"$1/dir\"");
    // `-i` runs no helper. Without an option such as `_netdev`, umount(8) looks for none.
    stage.quietly("umount", &["-i".as_ref(), stage.dir.as_os_str()]);
    assert_eq!(stage.listed(), None);
    until("the mount's process ends", || stage.processes().is_empty());
    stage.site.mount(&[]);
    assert_eq!(fs::read(stage.site.at(0, "file")).unwrap(), b"y\n".repeat(1_500_000));
    assert!(stage.site.at(0, "dir").is_dir());
}

#[test]
fn options_of_the_kernel_hold() {
    let stage = Stage::new();
    mount(&stage, "noexec");
    stage
        .shell("printf '#!/bin/sh\\n' > \"$1/program\"; chmod +x \"$1/program\"; ! \"$1/program\"");
    stage.quietly("umount", &[&stage.dir]);
    mount(&stage, "ro,allow-suid,allow-dev");
    let listed = stage.listed().unwrap();
    assert_eq!(listed, "ro,noatime");
    stage.shell(
        "\"$1/program\"; if touch \"$1/file\" 2> /dev/null; then exit 1; fi; test ! -e \"$1/file\"",
    );
    let refused = File::create(stage.through("file")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn a_busy_mount_is_kept_and_a_lazy_umount_serves_who_has_files_open() {
    let mut stage = Stage::new();
    mount(&stage, "uhelper=fuse.pando");
    let mut file = File::create(stage.through("file")).unwrap();
    assert_refused(&stage.run("umount", &[&stage.dir]), 32, &["busy", "fuser -m"]);
    assert!(stage.listed().is_some());
    stage.quietly("umount", &["-l".as_ref(), stage.dir.as_os_str()]);
    assert_eq!(stage.listed(), None);
    file.write_all(b"written after it was detached").unwrap();
    assert_ne!(stage.processes(), []);
    drop(file);
    until("the mount's process ends", || stage.processes().is_empty());
    stage.site.mount(&[]);
    let stored = fs::read_to_string(stage.site.at(0, "file")).unwrap();
    assert_eq!(stored, "written after it was detached");
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_codes_of_mount() {
    let stage = Stage::new();
    let (folder, dir) = (stage.site.folder.to_str().unwrap(), stage.dir.to_str().unwrap());
    let refused = |options: &str, source: &str, code, words: &[&str]| {
        let output = stage.run("mount", &["-t", "pando", "-o", options, source, dir]);
        assert_refused(&output, code, words);
        assert_eq!(stage.listed(), None, "{options}");
        until("its process ends", || stage.processes().is_empty());
    };
    refused("ro,kee=/a", folder, 1, &["`kee`", "key=FILE", "sync-metadata"]);
    refused("key", folder, 1, &["key=FILE"]);
    refused("timeout=soon", folder, 1, &["--timeout", "soon", "never"]);
    refused("threads=65", folder, 1, &["--threads", "64"]);
    let missing = format!("{folder}-missing");
    refused("rw", &missing, 32, &[&missing]);
    refused("key=/missing.pem", &stage.site.tcp(), 32, &["/missing.pem"]);
    // Options of other programs are no hindrance with `-s`, nor is anything mounted with `-f`.
    let sloppy = |flags: &[&str]| {
        let rest = ["-t", "pando", "-o", "of-another-system=1", folder, dir];
        stage.run("mount", &[flags, &rest[..]].concat())
    };
    assert_refused(&sloppy(&[]), 1, &["of-another-system"]);
    assert!(sloppy(&["-s", "-f"]).status.success());
    assert_eq!(stage.listed(), None);
    assert!(sloppy(&["-s"]).status.success());
    assert!(stage.listed().is_some());
    let again = stage.run("mount", &["-t", "pando", folder, dir]);
    assert_refused(&again, 32, &["is mounted at", "already"]);
}

#[test]
fn a_mount_of_another_namespace_is_made_and_ended_there() {
    let stage = Stage::new();
    let namespace = format!("/proc/{}/ns/mnt", stage.holder());
    let helper = |name: &str, arguments: &[&Path]| {
        let mut command = Command::new(stage.site.scratch().join("sbin").join(name));
        for (name, value) in pando().get_envs() {
            command.env(name, value.unwrap());
        }
        let output = command.args(["-N", &namespace, "-v"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", all(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = helper("mount.pando", &[&stage.site.folder, &stage.dir]);
    assert!(told.contains("is mounted at"), "{told}");
    assert!(stage.listed().is_some() && !is_mounted(&stage.dir));
    let told = helper("umount.fuse.pando", &[&stage.dir]);
    assert!(told.contains("all is stored"), "{told}");
    assert_eq!(stage.listed(), None);
}

#[test]
fn a_dead_mount_is_cleared_by_umount() {
    let stage = Stage::new();
    mount(&stage, "_netdev");
    for process in stage.processes() {
        kill_process(process, Signal::KILL).unwrap();
    }
    until("the process is gone", || stage.processes().is_empty());
    assert!(stage.listed().is_some());
    stage.quietly("umount", &[&stage.dir]);
    assert_eq!(stage.listed(), None);
}

#[test]
fn a_forced_umount_detaches_a_busy_mount() {
    let stage = Stage::new();
    mount(&stage, "_netdev");
    let mut file = File::create(stage.through("file")).unwrap();
    file.write_all(b"text").unwrap();
    stage.quietly("umount", &["-f".as_ref(), stage.dir.as_os_str()]);
    assert_eq!(stage.listed(), None);
    assert_eq!(stage.processes(), []);
    drop(file);
    mount(&stage, "_netdev");
    assert_eq!(stage.shell("cat \"$1/file\""), "text");
}
