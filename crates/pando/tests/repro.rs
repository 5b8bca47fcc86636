//! `pando repro`, in small: every part runs, leaves nothing behind, and what is computed is the same for the same seed.

mod common;

use std::fs;
use std::process::Output;

use common::{Scratch, all, pando};
use serde_json::Value;

fn giga(scratch: &Scratch, words: &[&str]) -> Output {
    // Whatever is temporary is seen if it stays.
    let output = pando()
        .args(["repro", "giga", "--tiny"])
        .args(words)
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
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
