//! `pando stats` of mounts of both kinds.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::site::{Site, suspend};
use crate::common::{Volume, all, as_user, pando, pando_within, shell};

/// Reads an object of a line.
fn read(lines: &mut impl BufRead) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// What a rate of an object came to in the object's time.
fn amount(object: &Value, rate: &Value) -> u64 {
    (rate.as_f64().unwrap() * object["seconds"].as_f64().unwrap()).round() as u64
}

/// The second line counts exactly what was done between the answers.
fn check_second_line(mount: &Path) {
    let mut command = pando();
    command.arg("stats").arg(mount).args(["--json", "--count", "2", "--interval", "2"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let first = read(&mut lines);
    fs::create_dir(mount.join("made")).unwrap();
    for n in 0..50 {
        fs::write(mount.join(format!("made/{n}")), [7; 5000]).unwrap();
    }
    let second = read(&mut lines);
    assert!(child.wait().unwrap().success());
    // A slow machine may have had the second answer before all was done; then a third has the rest.
    let of = |object: &Value| amount(object, &object["requests_per_second"]["CREATE"]);
    let third = once(mount);
    let all_of = |name: &str| amount(&third, &third["requests_per_second"][name]);
    let before = if first["requests_per_second"]["CREATE"].is_null() { 0 } else { of(&first) };
    assert_eq!(all_of("CREATE"), before + 50, "{third:#}");
    assert_eq!(amount(&third, &third["written_bytes_per_second"]), 50 * 5000, "{third:#}");
    let second = second["requests_per_second"]["CREATE"].as_f64().unwrap_or(0.0);
    assert!(second * 2.0 <= 51.0, "{second}");
    for op in ["CREATE", "ALL"] {
        let latency = &third["latencies"][op];
        let (p50, p99) = (latency["p50_nanos"].as_u64(), latency["p99_nanos"].as_u64());
        assert!(p50 > Some(0) && p50 <= p99, "{third:#}");
    }
    assert_eq!(third["latencies"]["CREATE"]["count"], before + 50);
    assert!(third["memory_bytes"].as_u64() > Some(1 << 20), "{third:#}");
}

/// The averages since the mount began.
fn once(mount: &Path) -> Value {
    let output = pando().arg("stats").arg(mount).args(["--json", "--count", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_mount_of_its_own_process_and_one_of_servers_tell_what_was_done() {
    let volume = Volume::up(&[]);
    check_second_line(&volume.mount);
    let mut site = Site::new(&["all"], &[]);
    site.mount(&[]);
    check_second_line(&site.mounts[0]);
}

#[test]
fn lines_for_people_have_one_heading_and_end_with_their_reader() {
    let volume = Volume::up(&[]);
    shell(&volume.mount, "mkdir d; seq 20 | xargs touch");
    let mut command = pando_within(60);
    // A folder within the mount does as well.
    command.arg("stats").arg(volume.mount.join("d")).args(["--count", "2"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].trim_start().starts_with("find ") && !text.contains('\u{1b}'), "{text}");
    let wide = |line: &&str| line.chars().count();
    assert!(lines.iter().all(|line| wide(line) == wide(&lines[0])), "{text}");
    // `head` goes after the first line. The command sees that at the next ones, and ends.
    let mut command = pando_within(60);
    command.arg("stats").arg(&volume.mount);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_watched_is_named() {
    let refused = |command: &mut Command, code: i32, said: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", all(&output));
        assert!(all(&output).contains(said), "{}", all(&output));
    };
    let mut site = Site::new(&["all"], &[]);
    let mount = site.mount(&[]);
    let at = site.mounts[0].clone();
    for name in ["stats", "profile"] {
        refused(pando().arg(name).arg("/proc"), 1, "/proc is not on a mount of Pando");
        refused(pando().arg(name), 2, "MOUNT");
    }
    let limits = "write a number from 1 to 3600";
    refused(pando().arg("stats").arg(&at).args(["--interval", "0"]), 2, limits);
    refused(pando().arg("profile").arg(&at).args(["--seconds", "3601"]), 2, limits);
    // A stranger who names the folder of the mount's socket hears nothing either.
    let run = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run");
    if let Some(as_user) = as_user(&run) {
        let at = at.to_str().unwrap();
        for words in [&["stats", at, "--count", "1"], &["profile", at, "--seconds", "1"]] {
            let output = as_user("/usr/bin:/bin", words);
            assert_eq!(output.status.code(), Some(1), "{}", all(&output));
            assert!(output.stdout.is_empty(), "{}", all(&output));
        }
    }
    suspend(mount);
    for words in [["stats", "--count", "1"], ["profile", "--seconds", "1"]] {
        let mut command = pando_within(60);
        command.arg(words[0]).arg(&at).args(&words[1..]);
        refused(&mut command, 1, "is suspended: `kill -CONT");
    }
}
