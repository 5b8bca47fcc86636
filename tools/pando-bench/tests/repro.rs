//! The subcommands that repeat figures, with small numbers. Every part runs and leaves nothing
//! behind, and one seed gives one result.

mod common;

use std::fs;
use std::process::Output;

use common::{Scratch, all, bench};
use serde_json::Value;

fn giga(scratch: &Scratch, words: &[&str]) -> Output {
    repro(scratch, &[&["giga", "--tiny"], words].concat())
}

fn repro(scratch: &Scratch, words: &[&str]) -> Output {
    // Temporary files that are left behind are found there.
    let output = bench().args(words).env("TMPDIR", scratch.path()).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "something stayed");
    output
}

fn json(scratch: &Scratch, words: &[&str]) -> Value {
    let output = giga(scratch, &[words, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_figure_is_made_with_what_is_the_same_and_what_is_different() {
    let scratch = Scratch::new();
    let report = json(&scratch, &[]);
    let figures = report["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    let expected = [
        "steps",
        "figure-4",
        "figure-5",
        "figure-6",
        "figure-8",
        "figure-7",
        "figure-9",
        "figure-10",
        "poster-table",
        "report-graphs",
    ];
    assert_eq!(names, expected);
    for figure in figures {
        for line in ["title", "same", "different", "nature"] {
            assert!(figure[line].as_str().is_some_and(|text| !text.is_empty()), "{figure}");
        }
    }
    assert!(report["machine"]["cpus"].as_u64().unwrap() > 0);
    let create = figures[0]["data"]["costs"]["create"].as_u64().unwrap();
    assert_eq!(figures[1]["data"]["model"]["costs"]["create"], create, "one measurement for all");
}

#[test]
fn one_seed_gives_one_result_and_one_picture() {
    let scratch = Scratch::new();
    let pictures = Scratch::new();
    let run = |seed: &str| {
        let folder = pictures.path().join(seed);
        let words = ["--only", "balance,addressing", "--seed", seed];
        let charts = ["--charts", folder.to_str().unwrap()];
        let report = json(&scratch, &[&words[..], &charts].concat());
        let drawn = report["charts"].as_array().unwrap();
        assert_eq!(drawn.len(), 6);
        let read = |path: &Value| fs::read(path.as_str().unwrap()).unwrap();
        (report["figures"].clone(), drawn.iter().map(read).collect::<Vec<_>>())
    };
    let first = run("5");
    assert_eq!(first, run("5"));
    assert_ne!(first, run("6"));
}

#[test]
fn tables_stand_beside_the_papers_figures() {
    let scratch = Scratch::new();
    let output = giga(&scratch, &["--only", "balance"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("more than 128 partitions") && text.contains("different:"), "{text}");
}

fn infini(scratch: &Scratch, words: &[&str]) -> Value {
    let words = [&["infini", "--tiny", "--round-trip", "0.5", "--json"], words].concat();
    serde_json::from_slice(&repro(scratch, &words).stdout).unwrap()
}

fn named<'a>(report: &'a Value, name: &str) -> &'a Value {
    let figures = report["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Requests, rounds and messages are equal on any machine. Times are not checked, except that no
/// round trip is shorter than the relay makes it.
#[test]
fn every_figure_of_infinifs_is_made() {
    let (scratch, pictures) = (Scratch::new(), Scratch::new());
    let report = infini(&scratch, &["--charts", pictures.path().to_str().unwrap()]);
    let figures = report["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    let expected = [
        "relay",
        "figure-1b",
        "figure-11",
        "figure-13",
        "figure-15",
        "figure-14",
        "figure-14-model",
        "bars",
    ];
    assert_eq!(names, expected);
    for figure in figures {
        for line in ["title", "same", "different", "nature"] {
            assert!(figure[line].as_str().is_some_and(|text| !text.is_empty()), "{figure}");
        }
    }
    assert_eq!(fs::read_dir(pictures.path()).unwrap().count(), 7);

    let point = |figure: &Value, key: &str, at: u64, how: &str| -> Value {
        let points = figure["data"]["points"].as_array().unwrap();
        let of = |point: &&Value| point[key] == at && point["how"] == how;
        points.iter().find(of).unwrap_or_else(|| panic!("no {how} at {at}")).clone()
    };
    let depth = named(&report, "figure-1b");
    for (at, how, requests) in
        [(1, "sequential", 2.0), (10, "sequential", 11.0), (10, "cached", 1.0)]
    {
        let timing = &point(depth, "depth", at, how)["timing"];
        assert_eq!(timing["requests"], requests, "{how} at {at}");
        assert!(timing["total"].as_f64().unwrap() >= requests * 500.0, "{timing}");
    }
    // One frame for each shard, and one for the file.
    let guessed = &point(depth, "depth", 10, "speculative")["timing"];
    assert!(guessed["requests"].as_f64().unwrap() <= 3.0, "{guessed}");

    let bars = named(&report, "figure-11")["data"]["bars"].as_array().unwrap();
    let requests: Vec<f64> =
        bars.iter().map(|bar| bar["timing"]["requests"].as_f64().unwrap()).collect();
    assert_eq!((requests[0], requests[2], requests[3]), (13.0, 3.0, 1.0), "creates: {requests:?}");

    let leases = named(&report, "figure-13")["data"]["points"].as_array().unwrap();
    assert_eq!((leases.len(), &leases[0]["renewals"]), (4, &Value::from(0.0)));

    let wrong = named(&report, "figure-15");
    let [none, two] = [0, 2].map(|at| point(wrong, "renamed", at, "speculative"));
    assert!(two["frames"].as_f64().unwrap() > none["frames"].as_f64().unwrap(), "{none} {two}");
    assert_eq!(point(wrong, "renamed", 2, "cached")["frames"], 0.0);

    let renames = named(&report, "figure-14")["data"]["renames"].as_array().unwrap();
    let kinds = ["file_here", "file_away", "dir_here", "dir_away"];
    assert_eq!(renames.len(), kinds.len());
    for (one, kind) in renames.iter().zip(kinds) {
        assert_eq!(one["kind"], kind);
        let phase = |of: &str| one["phases"][of].as_f64().unwrap();
        assert!(phase("on_the_way") >= 499.0, "{one}");
        assert!(one["per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(phase("broadcast") > 0.0, kind.starts_with("dir"), "{one}");
    }
    let create = named(&report, "bars")["data"]["creates"]["requests"].as_f64().unwrap();
    assert_eq!(create, 1.0, "one round trip");
}
