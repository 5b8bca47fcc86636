//! Formats the result of a check, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pando_fsck::{Code, Finding, Pending, Repaired, Report};
use serde_json::{Value, json};

use crate::console::text::{count, several};

/// Findings of one kind that the text shows. `--json` shows all.
const SHOWN_MAX: usize = 20;
/// Advice to the user when records cannot be read.
const ADVICE: &str = "nothing is mended while records cannot be read: what is missing might be \
among them. Stop the volume, copy it to a working disk or restore the shards concerned from a \
backup, and check again";

/// The result as one JSON object.
pub fn json(shown: &str, repaired: &Repaired, running: bool) -> Value {
    let Repaired { mended, left } = repaired;
    let Report { rows, directories, files, objects, not_kept, unjudged, .. } = left;
    let Pending { sessions, opens, decided, prepared, arriving, tombstones, nameless, garbage } =
        left.pending;
    json!({
        "volume": shown,
        "running": running,
        "clean": left.is_clean(),
        "findings": left.findings.iter().map(finding).collect::<Vec<_>>(),
        "findings_not_kept": not_kept,
        "mended": mended.iter().map(finding).collect::<Vec<_>>(),
        "not_judged": unjudged,
        "records": rows,
        "directories": directories,
        "files": files,
        "objects": objects,
        "under_way": {
            "sessions": sessions,
            "open_files": opens,
            "decided_operations": decided,
            "prepared_steps": prepared,
            "arriving_partitions": arriving,
            "removed_directories": tombstones,
            "nameless_files": nameless,
            "garbage_objects": garbage,
        },
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "code": finding.code.name(),
        "meaning": finding.code.meaning(),
        "shard": finding.shard.0,
        "what": finding.what,
        "path": finding.path,
        "detail": finding.detail,
        "repairable": finding.is_repairable(),
    })
}

/// The result as lines of text.
pub fn text(shown: &str, shards: u16, repaired: &Repaired) -> String {
    let Repaired { mended, left } = repaired;
    let mut text = String::new();
    if !mended.is_empty() {
        let _ = writeln!(text, "mended in {shown}:");
        list(&mut text, mended, "");
        text.push('\n');
    }
    if left.is_clean() {
        let again = if mended.is_empty() { "" } else { "now " };
        let _ = writeln!(
            text,
            "{shown} is {again}whole: {}, {}, {}; {} on {}",
            several(left.directories, "directory", "directories"),
            several(left.files, "file", "files"),
            several(left.objects, "object", "objects"),
            several(left.rows, "record", "records"),
            several(shards.into(), "shard", "shards")
        );
    } else {
        let wrong = left.findings.len() as u64 + left.not_kept;
        let things = several(wrong, "thing is", "things are");
        let _ = writeln!(text, "{things} wrong in {shown}:");
        list(&mut text, &left.findings, " [can be mended]");
        if left.not_kept > 0 {
            let _ = writeln!(text, "… and {} more", count(left.not_kept));
        }
        if left.findings.iter().any(|finding| finding.code == Code::UnreadableBlock) {
            let _ = writeln!(text, "\n{ADVICE}");
        }
        let can = left.findings.iter().filter(|finding| finding.is_repairable()).count() as u64;
        let cannot = wrong - can;
        if can > 0 {
            let _ = writeln!(text, "\n`pando fsck --repair {shown}` mends {} of them", count(can));
        }
        if cannot > 0 {
            let _ = writeln!(
                text,
                "\n{} cannot be mended without guessing: restore what they name from a backup",
                count(cannot)
            );
        }
    }
    under_way(&mut text, left);
    text
}

/// Lists findings by code. `advice` follows those that can be repaired.
fn list(text: &mut String, findings: &[Finding], advice: &str) {
    let mut by_code: BTreeMap<Code, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        by_code.entry(finding.code).or_default().push(finding);
    }
    for (code, findings) in by_code {
        let _ = writeln!(text, "\n{code}: {}", code.meaning());
        for finding in findings.iter().take(SHOWN_MAX) {
            let Finding { shard, what, detail, .. } = finding;
            let what = match &finding.path {
                Some(path) => format!("{path} ({what})"),
                None => what.clone(),
            };
            let advice = if finding.is_repairable() { advice } else { "" };
            let _ = writeln!(text, "  shard {shard}: {what}: {detail}{advice}");
        }
        if findings.len() > SHOWN_MAX {
            let more = (findings.len() - SHOWN_MAX) as u64;
            let _ = writeln!(text, "  … and {} more; --json shows all", count(more));
        }
    }
}

fn under_way(text: &mut String, report: &Report) {
    let pending = &report.pending;
    let operations = pending.decided + pending.prepared + pending.arriving;
    if operations > 0 {
        let _ = writeln!(
            text,
            "under way: {} of operations; the next start finishes or undoes them",
            several(operations, "step", "steps")
        );
    }
    if pending.sessions > 0 {
        let _ = writeln!(
            text,
            "not ended: {}, {}; the next start ends those of dead mounts",
            several(pending.sessions, "session", "sessions"),
            several(pending.opens, "open file", "open files")
        );
    }
    if report.unjudged > 0 {
        let _ = writeln!(
            text,
            "not judged, because it changed during the check, or may follow from unreadable \
             records: {}",
            several(report.unjudged, "place", "places")
        );
    }
}
