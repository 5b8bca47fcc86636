//! `pando-bench trees`, with small numbers. No figure decides, since machines are of any speed.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, all};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A run that has not begun by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const SMALL: &[&str] = &[
    "--tree-files=30",
    "--clone-files=30",
    "--reread-mib=1",
    "--calls=100",
    "--recalls=3",
    "--files=20",
];
const ROWS: [(&str, &[&str]); 15] = [
    ("extract", &["tcp", "up", "local"]),
    ("extract-fsync", &["tcp", "up", "local"]),
    ("find1", &["tcp", "up", "local", "pass"]),
    ("find2", &["tcp", "up", "local", "pass"]),
    ("grep1", &["tcp", "up", "local", "pass"]),
    ("grep2", &["tcp", "up", "local", "pass"]),
    ("git-status", &["tcp", "up", "local"]),
    ("git-clone", &["tcp", "up", "local"]),
    ("rm", &["tcp", "up", "local"]),
    ("fstat", &["tcp", "up", "local"]),
    ("lseek-end", &["tcp", "up", "local"]),
    ("open-close", &["tcp", "up", "local"]),
    ("reread", &["tcp", "up", "local"]),
    ("recall", &["tcp", "tcp"]),
    ("foreign-find", &["tcp"]),
];

/// The subcommand in small. What it leaves behind is found in `scratch`.
fn trees(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = common::bench();
    command.arg("trees").args(SMALL).args(words).env("TMPDIR", scratch.path());
    command
}

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    let output = trees(scratch, words).output().unwrap();
    assert_eq!(entries(scratch.path()), 0, "something stayed: {}", all(&output));
    output
}

fn entries(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[test]
fn every_row_is_measured_on_its_systems() {
    let scratch = Scratch::new();
    let rows = ROWS.map(|(row, _)| row).join(",");
    let words = ["--systems=tcp,up,local,pass", "--rounds=1", "--json", "--rows", &rows];
    let output = run(&scratch, &words);
    assert!(output.status.success(), "{}", all(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (row, systems) in ROWS {
        let lines = report["rows"].as_array().unwrap().iter().filter(|line| line["row"] == row);
        let lines: Vec<_> = lines.collect();
        let found: Vec<_> = lines.iter().map(|line| line["system"].as_str().unwrap()).collect();
        assert_eq!(found, systems, "{row}");
        for line in lines {
            assert!(line["spread"]["median"].as_f64().unwrap() > 0.0, "{line}");
            assert_eq!(line["figures"].as_array().unwrap().len(), 1, "{line}");
            let is_pando = matches!(line["system"].as_str(), Some("tcp" | "up"));
            assert_eq!(line["bar"].is_string(), is_pando, "{line}");
            let has_floor = ["tcp", "up", "local", "pass"].contains(&floor(line));
            assert_eq!(line["ratio"].is_object(), has_floor, "{line}");
        }
    }
    assert_eq!(report["tree"]["files"], 30);
    assert_eq!(report["systems"][0]["file_system"], "fuse.pando");
    assert_eq!(report["failed"], Value::Array(Vec::new()));
}

fn floor(line: &Value) -> &str {
    line["floor"].as_str().unwrap_or("none")
}

#[test]
fn rounds_are_compared_with_the_null_file_system() {
    let scratch = Scratch::new();
    let output = run(&scratch, &["--systems=local,null", "--rounds=2", "--rows=extract,rm"]);
    assert!(output.status.success(), "{}", all(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("extract") && text.contains("null: fuse.pando"), "{text}");
}

#[test]
fn a_row_that_fails_is_told_and_the_others_are_measured() {
    let (scratch, programs) = (Scratch::new(), Scratch::new());
    let compiler = programs.path().join("cc");
    fs::write(&compiler, "#!/bin/sh\necho no compiler today >&2\nexit 3\n").unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", programs.path().display());
    let words = ["--systems=local", "--rows=make,fstat", "--rounds=2", "--json"];
    let output = trees(&scratch, &words).env("PATH", path).output().unwrap();
    assert!(!output.status.success(), "{}", all(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = report["failed"].as_array().unwrap();
    assert_eq!((failed.len(), failed[0]["row"].as_str()), (1, Some("make")));
    assert!(failed[0]["message"].as_str().unwrap().contains("no compiler today"), "{report}");
    assert_eq!(report["rows"][0]["row"], "fstat");
    assert_eq!(entries(scratch.path()), 0);
}

#[test]
fn what_is_missing_is_told_before_anything_begins() {
    let scratch = Scratch::new();
    let words = ["--systems=local", "--rows=git-status,make"];
    let output = trees(&scratch, &words).env("PATH", scratch.path()).output().unwrap();
    let text = all(&output);
    assert!(!output.status.success() && text.contains("cc, git, grep, make, rm, tar"), "{text}");
    for (words, word) in [
        (&["--systems=local", "--tree=/no/such"][..], "/no/such"),
        (&["--systems=local", "--rows=copy"], "possible values"),
        (&["--rounds=0"], "1 to 1000"),
    ] {
        let output = run(&scratch, words);
        let text = all(&output);
        assert!(!output.status.success() && text.contains(word), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn a_signal_ends_the_run_and_everything_is_removed() {
    let scratch = Scratch::new();
    let words = ["--systems=tcp,pass,local", "--rows=find1,grep1,recall", "--rounds=1000"];
    let mut command = trees(&scratch, &words);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    // The materials, and what the systems have: the rounds have begun, or will at once.
    let mut is_running = || matches!(child.try_wait(), Ok(None));
    while entries(scratch.path()) < 4 && is_running() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(!child.wait().unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(entries(scratch.path()), 0);
}
