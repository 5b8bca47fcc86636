//! The progress of a move or an addition, in lines on standard error if that is no terminal, and in
//! `pando shard list`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::site::until;
use crate::common::{all, pando};
use crate::site::{Running, Site, list, shard_add};

/// A command with its standard error in a file.
struct Told {
    command: Running,
    lines: PathBuf,
}

impl Told {
    fn of(mut command: Command, lines: &Path) -> Self {
        let file = fs::File::create(lines).unwrap();
        command.args(["--tell-every", "1"]);
        Self { command: Running::telling(command, file), lines: lines.to_owned() }
    }

    fn has_told(&self, what: &str) {
        until("a line tells how far it is", || {
            fs::read_to_string(&self.lines).unwrap().lines().any(|line| line.contains(what))
        });
    }

    /// Waits for the end. Returns the JSON object that the command printed, and its progress.
    fn end(self) -> (Value, Vec<String>) {
        let output = self.command.result();
        let lines = fs::read_to_string(&self.lines).unwrap();
        assert!(output.status.success(), "{}\n{lines}", all(&output));
        // On a busy machine it may say that a shard is silent.
        let lines = lines.lines().filter(|line| !line.starts_with("pando: shard "));
        let lines = lines.map(str::to_owned).collect();
        (serde_json::from_slice(&output.stdout).unwrap(), lines)
    }
}

/// The lines that `pando shard list` prints below its table.
fn remarks(folder: &Path) -> String {
    let output = pando().args(["shard", "list"]).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.starts_with("shard ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_move_tells_how_far_it_is_and_so_does_the_list_of_moves_without_a_known_target() {
    let site = Site::new(&[], &["--may-be-held"]);
    let old = site.old.folder.to_str().unwrap();
    assert_eq!(list(old)["moves"].as_array().unwrap().len(), 0);
    site.new.hold("copying");
    let mut command = pando();
    command.args(["shard", "move", "1", "--to", &site.new.address, "--json"]);
    let told = Told::of(command, &site.scratch.path().join("told"));
    site.new.holds();
    // The target is not a shard's server yet, so only the source can be asked.
    let moves = list(old)["moves"].clone();
    let [moving] = moves.as_array().unwrap().as_slice() else { panic!("{moves}") };
    assert_eq!((&moving["shard"], &moving["stage"]), (&1.into(), &"copying".into()));
    assert_eq!(moving["to"][0], site.new.address.as_str());
    assert_eq!(moving["from"][0], site.old.address.as_str());
    let (copied, total) = (&moving["copied_bytes"], &moving["total_bytes"]);
    assert!(copied.as_u64().unwrap() > 0 && total.as_u64().unwrap() > 0, "{moving}");
    let said = format!("shard 1 moves to {}: copying, ", site.new.address);
    assert!(remarks(&site.old.folder).contains(&said), "{}", remarks(&site.old.folder));
    told.has_told("  shard 1: copying, ");
    site.new.release();
    let (printed, lines) = told.end();
    assert_eq!(
        (&printed["shard"], &printed["served_at"]),
        (&1.into(), &site.new.address.as_str().into())
    );
    assert!(lines.iter().all(|line| line.starts_with("  shard 1: ")), "{lines:?}");
    assert!(lines.last().unwrap().contains(" in "), "{lines:?}");
    until("nothing moves any more", || list(old)["moves"].as_array().unwrap().is_empty());
    site.end();
}

#[test]
fn an_addition_tells_how_far_it_is_and_the_list_shows_it_until_all_hash_slots_have_come() {
    let site = Site::of(12, &[], &[]);
    let old = site.old.folder.to_str().unwrap();
    let add = |rate: &str, name: &str| {
        let command = shard_add(&site.old.folder, &["--to", &site.new.address, "--rate", rate]);
        Told::of(command, &site.scratch.path().join(name))
    };
    let adds = || list(old)["adds"].clone();
    assert_eq!(adds().as_array().unwrap().len(), 0);
    let told = add("100", "first");
    told.has_told("  shard 12: ");
    until("slots have come", || adds()[0]["slots"].as_u64().is_some_and(|slots| slots > 0));
    told.has_told(" left");
    // The list shows an addition that is not done, even if no command works on it any more.
    told.command.kill();
    let stopped = adds();
    let (slots, of) = (stopped[0]["slots"].as_u64(), stopped[0]["of_slots"].as_u64().unwrap());
    assert!(stopped[0]["shard"] == 12 && slots.unwrap() < of, "{stopped}");
    let remarks = remarks(&site.old.folder);
    assert!(remarks.contains("shard 12 is being added: "), "{remarks}");
    let (printed, lines) = add("1000000", "second").end();
    assert_eq!((&printed["shard"], &printed["slots"]), (&12.into(), &of.into()));
    assert!(lines.iter().all(|line| line.starts_with("  shard 12: ")), "{lines:?}");
    assert!(lines.last().unwrap().contains(" slots in "), "{lines:?}");
    assert_eq!(adds().as_array().unwrap().len(), 0);
    site.end();
}
