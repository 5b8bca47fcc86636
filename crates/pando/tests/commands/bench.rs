//! `pando bench`, with small numbers.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Scratch, Volume, all, pando};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const STEPS: [&str; 7] = ["create", "stat", "list", "read", "remove", "write_large", "read_large"];

fn bench(path: &Path, words: &[&str]) -> Output {
    pando().arg("bench").arg(path).args(words).output().unwrap()
}

fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_mount_is_measured_and_left_as_it_was() {
    let mut volume = Volume::up(&[]);
    let words = ["--files", "61", "--file-size", "5000", "--threads", "2", "--large", "3"];
    let output = bench(&volume.mount, &[&words[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", all(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (key, value) in [
        ("path", json!(volume.mount)),
        ("volume", json!(volume.folder)),
        ("threads", json!(2)),
        ("files", json!(61)),
        ("file_bytes", json!(5000)),
        ("large_file_bytes", json!(3 << 20)),
    ] {
        assert_eq!(report[key], value, "{report:#}");
    }
    assert!(report["file_system"].as_str().unwrap().starts_with("fuse"), "{report:#}");
    let steps = report["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(names, STEPS);
    for step in steps {
        let number = |key: &str| step[key].as_f64().unwrap();
        let is_large = step["step"].as_str().unwrap().ends_with("_large");
        assert_eq!(number("operations"), if is_large { 6.0 } else { 61.0 }, "{step}");
        let bytes = match step["step"].as_str().unwrap() {
            "create" | "read" => 61.0 * 5000.0,
            "write_large" | "read_large" => 6.0 * 1024.0 * 1024.0,
            _ => 0.0,
        };
        assert_eq!(number("bytes"), bytes, "{step}");
        assert!(number("operations_per_second") > 0.0 && number("seconds") > 0.0, "{step}");
        let micros = |key: &str| step["latency_micros"][key].as_f64().unwrap();
        assert!(micros("p50") > 0.0 && micros("p50") <= micros("max"), "{step}");
    }
    assert!(is_empty(&volume.mount));

    let output = bench(&volume.mount, &["--files", "20", "--large", "0"]);
    assert!(output.status.success(), "{}", all(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for word in ["1 thread, 20 files of 4.0 KiB", "files/s", "names/s", " µs", "99 %"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("large"), "{text}");
    assert!(is_empty(&volume.mount));
    volume.stop();
}

#[test]
fn what_cannot_be_measured_is_explained() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let disk = scratch.small_disk(1);
    for (path, words, said) in [
        (Path::new("/no/such"), &[][..], "there is no folder /no/such"),
        (&file, &[], "there is no folder"),
        (Path::new("/proc"), &[], "cannot make a folder in /proc"),
        (&disk, &["--files", "0"], "write a number from 1 to"),
        (&disk, &["--threads", "0"], "write a number from 1 to 256"),
        (&disk, &["--large", "5", "--files", "5"], "the run needs 5.0 MiB of space"),
        (&disk, &["--threads", "3", "--file-size", "100000"], "smaller --files, --file-size"),
    ] {
        let output = bench(path, words);
        assert!(!output.status.success(), "{words:?}");
        let text = all(&output);
        assert!(text.contains(said) && !text.contains("panicked"), "{words:?}: {text}");
        assert!(is_empty(&disk), "{words:?}");
    }
}

#[test]
fn a_signal_ends_a_run_and_everything_is_removed() {
    let scratch = Scratch::new();
    let mut command = pando();
    command.arg("bench").arg(scratch.path()).args(["--files", "10000000", "--threads", "2"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let has_files = || {
        let mut runs = fs::read_dir(scratch.path()).unwrap().flatten();
        runs.any(|run| fs::read_dir(run.path()).is_ok_and(|files| files.count() > 0))
    };
    while !has_files() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no file is made");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && all(&output).contains("interrupted"), "{}", all(&output));
    assert!(is_empty(scratch.path()));
}
