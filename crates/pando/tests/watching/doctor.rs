//! `pando doctor`: what is in its report, and what never is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::common::site::{Site, suspend};
use crate::common::{Scratch, Volume, all, pando, pando_within};

/// The report about a target, and what the command printed.
fn report(target: &Path, file: &Path) -> (String, String) {
    let mut command = pando_within(120);
    let output = command.arg("doctor").arg(target).arg("--to").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    (fs::read_to_string(file).unwrap(), all(&output))
}

/// Every secret of a volume: lines of its private keys, and the secrets of its superblock.
fn secrets(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("keys")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().skip_while(|line| !line.contains("PRIVATE KEY"));
        found.extend(lines.filter(|line| line.len() > 20).map(str::to_owned));
    }
    assert!(found.len() > 2, "no private keys in {}", folder.display());
    let superblock = fs::read_to_string(folder.join("superblock")).unwrap();
    let (_, json) = superblock.split_once('\n').unwrap();
    let json: Value = serde_json::from_str(json).unwrap();
    let hashes = json["secrets"].as_object().unwrap().values();
    found.extend(hashes.map(|secret| secret.as_str().unwrap().to_owned()));
    found
}

fn check_no_secrets(text: &str, folder: &Path) {
    for secret in secrets(folder) {
        assert!(!text.contains(&secret), "{secret} is in\n{text}");
    }
    assert!(!text.contains("PRIVATE KEY"), "{text}");
}

#[test]
fn a_report_has_what_is_needed_and_no_secret() {
    let scratch = Scratch::new();
    let volume = Volume::up(&[]);
    let pid = volume.pid().unwrap().to_string();
    for (target, name) in [(&volume.mount, "mount"), (&volume.folder, "folder")] {
        let (text, said) = report(target, &scratch.path().join(name));
        let process = format!("== process {pid} ==");
        for part in [
            "== machine ==\npando ",
            "/proc/self/limits:\n",
            "== configuration of the volume ==",
            "== log of the volume ==",
            &process,
            "Max open files",
            "\"durability\"",
            "\"latencies\"",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(text.contains(volume.status()["uuid"].as_str().unwrap()), "{text}");
        check_no_secrets(&text, &volume.folder);
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn what_does_not_answer_is_named_and_ends() {
    let scratch = Scratch::new();
    let mut site = Site::new(&["0,1", "2,3"], &[]);
    let mount = site.mount(&[]);
    let (text, said) = report(&site.folder, &scratch.path().join("good"));
    assert_eq!(text.matches("\n== process ").count(), 2, "{text}");
    assert!(
        text.contains("== could not be got ==\nnothing\n") && !said.contains("could not"),
        "{text}"
    );
    check_no_secrets(&text, &site.folder);
    suspend(mount);
    suspend(site.processes[1]);
    let (text, said) = report(&site.mounts[0], &scratch.path().join("bad"));
    assert!(said.contains("could not be got: status of the mount: "), "{said}");
    // One of the servers still answers.
    assert!(text.contains("\"error\": null") && text.contains("is suspended"), "{text}");
    check_no_secrets(&text, &site.folder);
}

#[test]
fn nothing_is_overwritten_and_wrong_words_are_refused() {
    let scratch = Scratch::new();
    let file = scratch.path().join("thesis");
    fs::write(&file, "x").unwrap();
    let output = pando().arg("doctor").arg("--to").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("thesis: File exists"), "{}", all(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    let new = scratch.path().join("new");
    let output = pando().args(["doctor", "/nonexistent", "--to"]).arg(&new).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", all(&output));
    assert!(all(&output).contains("/nonexistent") && !new.exists(), "{}", all(&output));
    let output = pando().args(["doctor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", all(&output));
    // Without a target the machine alone is looked at.
    let output = pando().arg("doctor").arg("--to").arg(&new).output().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    assert!(fs::read_to_string(&new).unwrap().contains("== mounts of Pando =="));
}
