//! The subcommands that measure Pando, with small numbers.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use common::{Scratch, all, pando};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn bench(scratch: &Scratch, words: &[&str]) -> Output {
    // Temporary files that are left behind are found there.
    common::bench().args(words).env("TMPDIR", scratch.path()).output().unwrap()
}

fn json(scratch: &Scratch, words: &[&str]) -> Value {
    let output = bench(scratch, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(entries(scratch.path()), Vec::<String>::new(), "something stayed");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn entries(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn phases(report: &Value) -> Vec<&str> {
    let phases = report["phases"].as_array().unwrap();
    assert!(phases.iter().all(|phase| phase["ops_per_second"].as_f64().unwrap() > 0.0));
    phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect()
}

#[test]
fn the_library_is_measured_on_a_temporary_volume() {
    let scratch = Scratch::new();
    let words =
        ["metadata", "--files", "100", "--clients", "2", "--in-flight", "3", "--shards", "2"];
    let report = json(&scratch, &words);
    assert_eq!(phases(&report), ["create", "stat", "readdir", "unlink"]);
    assert_eq!(report["durability"], "os");
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    assert_eq!(report["command"][1], "metadata");
}

#[test]
fn the_library_is_measured_on_a_volume_and_leaves_it_as_it_was() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("volume");
    let words = ["metadata", folder.to_str().unwrap(), "--files", "50", "--layout", "unique"];
    let output = bench(&scratch, &words);
    assert!(!output.status.success() && all(&output).contains("pando format"), "{}", all(&output));
    assert!(pando().arg("format").arg(&folder).output().unwrap().status.success());
    for _ in 0..2 {
        let output = bench(&scratch, &[&words[..], &["--naming", "handle"]].concat());
        assert!(output.status.success(), "{}", all(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("50 files, 1 client") && text.contains("requests/op"), "{text}");
    }
}

#[test]
fn the_library_is_measured_over_sockets() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("volume");
    let shown = folder.to_str().unwrap();
    let output = pando().args(["format", shown, "--shards", "2"]).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let key = format!("{shown}/keys/admin.pem");
    let listen = ["--shard", "all", "--listen", "127.0.0.1:0", "--json"];
    let mut command = pando();
    command.args(["server", shown]).args(listen).stdout(std::process::Stdio::piped());
    let mut server = Ended(command.spawn().unwrap());
    let mut line = String::new();
    let stdout = server.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    for address in said["addresses"].as_array().unwrap() {
        let address = address.as_str().unwrap();
        let words = ["metadata", address, "--files", "200", "--clients", "3", "--in-flight", "8"];
        let more = ["--naming", "handle", "--json", "--key", &key];
        let output = bench(&scratch, &[&words[..], &more].concat());
        assert!(output.status.success(), "{}", all(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(phases(&report), ["create", "stat", "readdir", "unlink"]);
        assert_eq!(report["phases"][0]["operations"], 200);
    }
}

/// A process that is killed when the test ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_directory_is_measured_by_processes() {
    let scratch = Scratch::new();
    let target = scratch.path().to_str().unwrap().to_owned();
    let words = ["metadata", &target, "--api", "mount", "--clients", "3", "--files", "40"];
    let report = json(&scratch, &[&words[..], &["--phases", "create,unlink"]].concat());
    assert_eq!(phases(&report), ["create", "unlink"]);
    assert!(report["file_system"].is_string());
}

#[test]
fn a_mix_is_as_the_table_has_it_and_leaves_the_volume_as_it_was() {
    let scratch = Scratch::new();
    let small = ["mix", "--table1", "--files", "60", "--per-directory", "5", "--shards", "3"];
    let load = ["--clients", "2", "--in-flight", "3", "--operations", "3000", "--depth", "4"];
    let report = json(&scratch, &[&small[..], &load].concat());
    let kinds = report["kinds"].as_array().unwrap();
    let count = |at: usize| kinds[at]["count"].as_u64().unwrap();
    assert_eq!((kinds.len(), (0..12).map(count).sum::<u64>()), (12, 3_000));
    // Opens are 52.6 % of the draws, with 96 creates per 1,000. The seed decides how many exactly.
    assert!((1_450..1_700).contains(&count(0)), "{report:#}");
    for kind in &kinds[..5] {
        assert!(kind["latency_micros"]["p99"].as_f64().unwrap() > 0.0, "{kind}");
    }
    let left = report["files_left"].as_u64().unwrap();
    assert_eq!(left, 60 + count(2) - count(3), "creates and removals add up");
    assert!(report["requests_per_operation"].as_f64().unwrap() >= 1.0);
    let ways = |what: &str| report["ways"][what].as_u64().unwrap();
    assert!(ways("hits") > 3_000 && ways("hits") > 10 * ways("misses"), "{report:#}");
    assert!(ways("directories") > 0 && ways("bytes") > 0 && ways("evictions") == 0, "{report:#}");
    let again = json(&scratch, &[&small[..], &load].concat());
    let counts = |report: &Value| {
        let kinds = report["kinds"].as_array().unwrap();
        kinds.iter().map(|kind| kind["count"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(counts(&report), counts(&again), "one seed, one mix");

    let folder = scratch.path().join("volume");
    assert!(pando().arg("format").arg(&folder).output().unwrap().status.success());
    let words = ["mix", folder.to_str().unwrap(), "--table1", "--files", "20"];
    let output = bench(&scratch, &[&words[..], &["--operations", "300"]].concat());
    assert!(output.status.success(), "{}", all(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("open/close") && text.contains("52.5876 %"), "{text}");
    assert!(text.contains("of directories on paths") && text.contains("were remembered"), "{text}");
    let words = ["mix", folder.to_str().unwrap(), "--table1", "--files", "20", "--keep"];
    let output = bench(&scratch, &[&words[..], &["--operations", "300"]].concat());
    assert!(output.status.success(), "{}", all(&output));
    let output = pando().arg("fsck").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

#[test]
fn the_floor_is_measured() {
    let scratch = Scratch::new();
    let report = json(&scratch, &["floor", "--files", "40", "--seconds", "0.02"]);
    assert_eq!(report["null_file_system"].as_array().unwrap().len(), 2);
    assert_eq!(phases(&report["null_file_system"][1]), ["create", "stat", "readdir", "unlink"]);
    assert_eq!(report["echo"].as_array().unwrap().len(), 6);
}

#[test]
fn the_parts_of_an_operation_are_measured() {
    let scratch = Scratch::new();
    let words = ["parts", "--files", "40", "--seconds", "0.02", "--rounds", "1"];
    let report = json(&scratch, &words);
    let parts = report["micros_per_operation"].as_array().unwrap();
    let operations: Vec<_> = parts.iter().map(|part| part["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["create", "stat", "unlink"]);
    for part in parts {
        for name in ["kernel", "codec", "shard"] {
            assert!(part[name].as_f64().unwrap() > 0.0, "{name} of {part}");
        }
        for road in ["up", "unix", "tcp"] {
            let figure = |name: &str| part[road][name].as_f64().unwrap();
            assert!(figure("measured") > 0.0, "{road} of {part}");
            assert_eq!(figure("hops") > 0.0, road != "up", "{road} of {part}");
        }
    }
    assert_eq!(report["nanos_per_request"].as_array().unwrap().len(), 8);
    assert_eq!(entries(scratch.path()), Vec::<String>::new());
}

#[test]
fn a_growing_directory_is_measured_beside_one_that_does_not_split() {
    let scratch = Scratch::new();
    let small = ["growth", "--files", "2000", "--shards", "3", "--split-threshold", "300"];
    let report = json(&scratch, &[&small[..], &["--pairs", "1"]].concat());
    let pair = &report["pairs"][0];
    let number = |of: &str, what: &str| pair[of]["work"][what].as_u64().unwrap();
    assert!(number("growth", "splits") >= 2 && number("growth", "entries_moved") > 100);
    assert_eq!((number("control", "splits"), number("control", "entries_moved")), (0, 0));
    assert!(number("growth", "log_bytes") > number("control", "log_bytes"));
    let report = json(&scratch, &[&small[..], &["--pairs", "1", "--alone"]].concat());
    let run = &report["runs"][0];
    assert!(
        run["listing_seconds"].as_f64().is_some() && run["work"]["disk_bytes"].as_u64() > Some(0)
    );
    assert!(run["mount"].is_null());
    let splits = |run: &Value| run["work"]["splits"].as_u64().unwrap();
    let ever = ["--pairs", "1", "--alone", "--partitions-per-shard", "0"];
    let report = json(&scratch, &[&small[..], &ever].concat());
    assert!(splits(&report["runs"][0]) > splits(run), "it splits without an end");
    // `ls -U` lists as many names as were made, or the command fails.
    let report = json(&scratch, &[&small[..], &["--pairs", "1", "--alone", "--mount"]].concat());
    assert!(report["runs"][0]["mount"]["first_names_micros"].as_f64().unwrap() > 0.0);
    let output = bench(&scratch, &["growth", "--files", "3"]);
    assert!(!output.status.success() && all(&output).contains("10 to"), "{}", all(&output));
}

#[test]
fn mounts_are_measured_in_pairs_however_they_are_served() {
    for serve in ["up", "unix", "tcp"] {
        let scratch = Scratch::new();
        let words = ["mount-pairs", "--files", "40", "--pairs", "2", "--processes", "2"];
        let report = json(&scratch, &[&words[..], &["--shards", "2", "--serve", serve]].concat());
        let series = &report["series"][0];
        assert_eq!(series["phases"][0]["ratios"].as_array().unwrap().len(), 2);
        assert_eq!(report["serve"], serve);
        // Not every kernel counts requests. If it does, both sides must have got equal numbers of
        // each. How often two processes ask for the attributes of the directory that both change
        // depends on time.
        if let Some(why) = report["requests_not_counted"].as_str() {
            assert!(!why.is_empty());
            continue;
        }
        let lookups = |phases: &Value| -> Vec<f64> {
            let phases = phases.as_object().unwrap().values();
            phases.map(|counts| counts["LOOKUP"].as_f64().unwrap_or(0.0)).collect()
        };
        let [pando, null] = ["a", "b"].map(|side| lookups(&report["requests"][side]));
        // A mount through servers remembers names by directory, which the other side does not.
        let is_as_often = match serve {
            "up" => pando == null,
            _ => pando.iter().zip(&null).all(|(pando, null)| pando <= null),
        };
        assert!(is_as_often, "{report:#}");
        let [pando, null] = ["a", "b"].map(|side| {
            let mut phases = report["requests"][side].clone();
            for counts in phases.as_object_mut().unwrap().values_mut() {
                let counts = counts.as_object_mut().unwrap();
                ["GETATTR", "LOOKUP"].iter().for_each(|kind| drop(counts.remove(*kind)));
            }
            phases
        });
        assert_eq!(pando, null, "{report:#}");
    }
}

#[test]
fn wrong_arguments_are_explained() {
    let scratch = Scratch::new();
    for (words, word) in [
        (&["metadata", "--api", "mount"][..], "needs a directory"),
        (&["metadata", "/no/such", "--api", "mount"], "/no/such"),
        (&["metadata", "/no/such"], "/no/such"),
        (&["metadata", "--phases", "stat"], "first phase must be create"),
        (&["metadata", "--phases", "create,unlink,stat"], "in this order"),
        (&["metadata", "--phases", "copy"], "possible values"),
        (&["metadata", "--clients", "0"], "clients"),
        (&["metadata", "--files", "0"], "files"),
        (&["metadata", "--layout", "unique", "--depth", "1"], "depth 1"),
        (&["metadata", "--in-flight", "5000"], "5000"),
        (&["mix"], "--table1"),
        (&["mix", "--table1", "--depth", "2"], "depth 2"),
        (&["mix", "--table1", "--files", "3", "--in-flight", "4"], "need 4"),
        (&["mount-pairs", "--pairs", "0"], "--pairs"),
        (&["mount-pairs", "--against", "/no/such", "--files", "10"], "/no/such"),
        (&["floor", "--seconds", "0"], "0.01 to 3600"),
    ] {
        let output = bench(&scratch, words);
        assert!(!output.status.success(), "{words:?}");
        let text = all(&output);
        assert!(text.contains(word) && !text.contains("panicked"), "{words:?}: {text}");
        assert_eq!(entries(scratch.path()), Vec::<String>::new(), "{words:?}");
    }
}

#[test]
fn a_signal_ends_a_run_and_everything_is_removed() {
    for words in [
        &["metadata", "--in-flight", "4"][..],
        &["metadata", ".", "--api", "mount", "--clients", "2"],
        &["mix", "--table1", "--in-flight", "4"],
        &["mount-pairs", "--pairs", "1000", "--processes", "2"],
    ] {
        let scratch = Scratch::new();
        let mut command = common::bench();
        command.args(words).args(["--files", "20000000"]);
        command.current_dir(scratch.path()).env("TMPDIR", scratch.path());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while !has_files(scratch.path()) && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let output = child.wait().unwrap();
        assert!(!output.success(), "{words:?}");
        assert_eq!(entries(scratch.path()), Vec::<String>::new(), "{words:?}");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        assert!(said.contains("interrupted"), "{words:?}: {said}");
    }
}

/// Whether a run has made files.
fn has_files(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            entry.file_name().as_encoded_bytes().starts_with(b"pando-bench-")
                && fs::read_dir(entry.path()).is_ok_and(|inside| inside.count() > 0)
        })
    })
}
