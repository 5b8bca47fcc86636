//! The program's commands, and their messages for people and for scripts.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{TINY, Volume, all, is_mounted, pando, shell};
use serde_json::Value;

#[test]
fn format_up_status_info_down_speak_json() {
    let mut volume = Volume::down();
    let output = pando()
        .arg("format")
        .arg(&volume.folder)
        .args(["--shards", "3", "--json"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["shards"], 3);
    let status = volume.status();
    assert_eq!((&status["running"], &status["uuid"]), (&Value::Bool(false), &made["uuid"]));
    volume.start(&[]);
    let status = volume.status();
    assert_eq!(status["running"], true);
    assert_eq!(status["shards"].as_array().unwrap().len(), 3);
    assert_eq!(status["mount"]["path"], volume.mount.to_str().unwrap());
    let root = volume.info(&volume.mount);
    assert_eq!((&root["type"], &root["ino"]), (&"directory".into(), &1.into()));
    volume.stop();
    let output = pando().arg("down").arg(&volume.folder).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", all(&output));
}

#[test]
fn info_shows_how_a_directory_spreads_and_where_a_files_data_is() {
    let volume = Volume::up(&["--split-threshold", "50"]);
    shell(&volume.mount, "mkdir d && cd d && seq -f 'f%g' 600 | xargs touch");
    let info = volume.info(&volume.mount.join("d"));
    let partitions = info["partitions"].as_array().unwrap();
    assert_eq!(info["entries"], 600);
    assert!(partitions.len() >= 4, "{info}");
    let mut shards: Vec<_> = partitions.iter().map(|p| p["shard"].as_u64().unwrap()).collect();
    shards.sort_unstable();
    shards.dedup();
    assert_eq!(shards, [0, 1, 2, 3]);
    fs::write(volume.mount.join("small"), "x").unwrap();
    let small = volume.info(&volume.mount.join("small"));
    assert_eq!((&small["size"], &small["data"]["inline"]), (&1.into(), &true.into()), "{small}");
    fs::write(volume.mount.join("large"), vec![1; 100_000]).unwrap();
    let large = volume.info(&volume.mount.join("large"));
    assert_eq!(large["data"]["inline"], false);
    let stored: u64 = large["data"]["slices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slice| slice["len"].as_u64().unwrap())
        .sum();
    assert_eq!(stored, 100_000, "{large}");
    fs::hard_link(volume.mount.join("small"), volume.mount.join("d/again")).unwrap();
    let linked = volume.info(&volume.mount.join("small"));
    assert_eq!((&linked["links"], &linked["inode_at"]), (&2.into(), &"link shard".into()));
    let text = pando().arg("info").arg(volume.mount.join("d")).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("partition") && text.contains("601 entries"), "{text}");
}

/// The policies of GIGA+ (§3.2, §5.3): one partition per shard, M per shard, or splits without a
/// limit.
#[test]
fn a_volume_is_run_with_the_policy_of_splits_that_one_chooses() {
    for (per_shard, expected) in [("1", 4..5), ("3", 12..13), ("0", 20..60)] {
        let volume = Volume::up(&["--split-threshold", "40", "--partitions-per-shard", per_shard]);
        shell(&volume.mount, "mkdir d && cd d && seq -f 'f%g' 1200 | xargs touch");
        // A split may go on after the create that began it was answered.
        let deadline = Instant::now() + Duration::from_secs(60);
        let info = loop {
            let info = volume.info(&volume.mount.join("d"));
            let partitions = info["partitions"].as_array().unwrap().len();
            if partitions >= expected.start || Instant::now() > deadline {
                break info;
            }
        };
        let partitions = info["partitions"].as_array().unwrap();
        assert!(expected.contains(&partitions.len()), "{per_shard}: {info}");
        let mut shards = [0; 4];
        partitions.iter().for_each(|p| shards[p["shard"].as_u64().unwrap() as usize] += 1);
        let (least, most) = (shards.iter().min().unwrap(), shards.iter().max().unwrap());
        assert!(*least > 0 && (expected.len() > 1 || least == most), "{per_shard}: {info}");
        assert_eq!(info["entries"], 1200);
    }
}

#[test]
fn what_is_written_and_not_yet_stored_has_its_room_in_df() {
    let mut volume = Volume::on_small_disk(64);
    volume.start(&[]);
    let free = || rustix::fs::statvfs(&volume.mount).map(|is| is.f_bfree * is.f_frsize).unwrap();
    let (before, mut files) = (free(), Vec::new());
    for name in ["one", "two", "three"] {
        let mut file = fs::File::create(volume.mount.join(name)).unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        files.push(file);
    }
    let after = free();
    assert!(before - after >= 9 << 20, "{before} {after}");
    // Bytes count only once when they are stored.
    files.iter().for_each(|file| file.sync_all().unwrap());
    let stored = free();
    assert!((9 << 20..16 << 20).contains(&(before - stored)), "{before} {stored}");
}

#[test]
fn help_has_examples_and_exit_codes() {
    for arguments in [&["--help"][..], &["up", "--help"], &["info", "--help"], &["down", "-h"]] {
        let output = pando().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("Example"), "{text}");
        assert!(!text.contains("--background") && !text.contains("--checkpoint-bytes"), "{text}");
    }
    let output = pando().arg("nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn in_the_foreground_an_interrupt_unmounts_and_says_so() {
    let volume = Volume::down();
    let mut child = pando()
        .arg("up")
        .arg(&volume.folder)
        .arg("--mount")
        .arg(&volume.mount)
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while fs::write(volume.mount.join("x"), "y").is_err() || !is_mounted(&volume.mount) {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(status.success() && said.contains("is unmounted"), "{status} {said}");
    assert!(!is_mounted(&volume.mount));
}

#[test]
fn a_busy_mount_is_not_torn_away_unless_forced() {
    let mut volume = Volume::up(&TINY);
    let file = fs::File::create(volume.mount.join("open")).unwrap();
    let output = pando().arg("down").arg(&volume.folder).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", all(&output));
    assert!(all(&output).contains("--force"), "{}", all(&output));
    assert!(is_mounted(&volume.mount));
    // Programs with open files may go on for a while; then the mount ends.
    let output = pando().arg("down").arg(&volume.folder).arg("--force").output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(!is_mounted(&volume.mount));
    drop(file);
    volume.start(&TINY);
    assert!(volume.mount.join("open").exists());
}

#[test]
fn umount_by_another_program_ends_the_process() {
    let volume = Volume::up(&TINY);
    shell(volume.scratch(), "umount mnt");
    let begun = Instant::now();
    while volume.status()["running"] == true {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", volume.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The disk with the log may be full. What is said there is lost, and all else goes on.
#[test]
fn a_log_without_room_stops_nothing() {
    let volume = Volume::down();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut up = pando();
    up.arg("up").arg(&volume.folder).arg("--mount").arg(&volume.mount);
    let mut up = up.stdout(full()).stderr(full()).spawn().unwrap();
    let begun = Instant::now();
    while !is_mounted(&volume.mount) {
        assert!(up.try_wait().unwrap().is_none(), "it has ended");
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not mount");
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::write(volume.mount.join("file"), "x").unwrap();
    let down = pando().arg("down").arg(&volume.folder).stdout(full()).stderr(full()).status();
    assert_eq!(down.unwrap().code(), Some(0));
    assert!(up.wait().unwrap().success());
}
