//! Checks whether a volume is whole: every invariant that spans records or shards. On request it
//! mends what needs no guess.
//!
//! ```text
//!  rows of all shards ──► sweep ──► suspects ──► judge ──► findings ──► confirm (running) ──► report
//!  (pages, key order)      │ maps of directories,  │ single rows,                              │
//!                          │ bitmaps of inos       │ read again                                ▼ repair (stopped)
//!  objects (listed) ───────┘                       └ locate: a second pass, if called for     writes per shard
//! ```
//!
//! Each kind of fault has a stable [`Code`]. Unfinished work is no damage: what transactions hold
//! is not judged ([`Report::pending`] counts it).
//!
//! # Running volumes
//!
//! Pages of a running volume show different moments, and operations go on. So a finding counts only
//! if
//!
//! 1. everything that it follows from, absent rows included, is read again twice, later, and is
//!    unchanged each time. Rows carry numbers and times that do not come back, so all of it held at
//!    one moment;
//! 2. between those two reads no transaction's record names a place that it concerns. A
//!    transaction's record exists for as long as its changes differ between places; and
//! 3. it concerns no partition and no hash slot that a decision gave to a shard which heard of it
//!    only during the check. That shard may have given it away again, and no further reading would
//!    show that.
//!
//! Such a check may miss what changes all the time; it tells how much it did not judge. It reports
//! no false faults. Some faults can be told only from a whole, unchanging view: objects that no
//! file needs, and wrong counts of `df`. These are left to stopped volumes.
//!
//! # Repair
//!
//! Only stopped volumes are repaired. A finding is repairable if the right state follows from other
//! records, and nothing that can be reached is lost. An object is called unneeded only if nothing
//! else is wrong. Each repair is one insert group on each shard concerned. It is made only while
//! everything that it follows from is unchanged. Then the volume is checked again, until nothing is
//! left that can be mended.
//!
//! # What cannot be read
//!
//! A range of rows that cannot be read is a finding. It hides only findings that may follow from
//! it. While there is one, nothing is mended: a missing row might be in it.
//!
//! # Memory
//!
//! | what | bytes |
//! |---|---|
//! | directory | about 250, and 56 for each partition |
//! | file with one name | a bit of its number, in compressed bitmaps (at worst 2) |
//! | file with several names, or open without a name | about 100 |
//! | open file | about 150 |
//! | object that a file needs | 8 |
//! | object to be deleted | 16 |
#![forbid(unsafe_code)]

#[macro_use]
mod planted;

mod busy;
mod code;
mod collect;
mod confirm;
mod cursor;
mod data;
mod finding;
mod gaps;
mod inos;
mod judge;
mod key;
mod locate;
mod probe;
mod repair;
mod source;
mod sweep;
mod tree;
mod volume;

pub use code::Code;
pub use collect::{Collected, Watched, collect};
pub use finding::{Finding, Pending, Report};
pub use pando_core::Write;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use repair::{Repaired, repair};
pub use source::{Gap, Objects, Page, Progress, Repairs, Row, Rows, Stored, Unwatched, Watch};
pub use volume::Volume;

use pando_core::record::SessionRecord;

use busy::Busy;
use finding::At;
use gaps::Readable;
use probe::Probe;
use sweep::Sweep;

/// Whether the volume changes during the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// No shard runs: all rows are of one moment. Transactions that a crash left unfinished are
    /// still unfinished.
    Stopped,
    /// Shards run.
    Running,
}

/// Checks a volume. `objects` is the object store; without it, objects are not judged. An error, in
/// words, is a failed reading. Blocks that cannot be read are findings.
pub fn check(
    rows: &mut dyn Rows,
    objects: Option<&mut dyn Objects>,
    volume: &Volume,
    mode: Mode,
    watch: &mut dyn Watch,
) -> Result<Report, String> {
    check_readable(&mut Readable::new(rows), objects, volume, mode, watch)
}

fn check_readable(
    rows: &mut Readable<'_>,
    mut objects: Option<&mut dyn Objects>,
    volume: &Volume,
    mode: Mode,
    watch: &mut dyn Watch,
) -> Result<Report, String> {
    let grown = volume.grown(rows)?;
    let busy = Busy::read(rows, &grown)?;
    let volume = &busy.volume(&grown);
    let mut sweep = Sweep::run(rows, volume, &busy, watch)?;
    let judged = judge::judge(rows, &mut objects, &mut sweep, mode, watch)?;
    let swept = std::mem::take(&mut sweep.findings);
    let not_kept = swept.more + judged.found.more + judged.not_looked_at;
    let mut findings = swept.kept;
    findings.extend(judged.found.kept);
    let mut report = Report {
        rows: sweep.rows,
        directories: sweep.tree.directories(),
        files: sweep.inos.files(),
        objects: judged.objects,
        pending: sweep.pending,
        not_kept,
        ..Report::default()
    };
    let is_known =
        |record: &Option<_>| record.is_none_or(|known: SessionRecord| known.over.is_none());
    let living = sweep.tables.sessions.values().filter(|shards| shards.values().any(is_known));
    report.pending.sessions = living.count() as u64;
    match mode {
        Mode::Stopped => {
            findings.retain(|finding| !finding.under.iter().any(|place| busy.holds(place)));
        }
        Mode::Running => {
            let before = findings.len();
            // Rows that were read before a shard joined may name that shard, which did not exist
            // then. So the check begins anew.
            if volume.grown(rows)?.map.shards > volume.map.shards {
                return check_readable(rows, objects, &grown, mode, watch);
            }
            findings = confirm::confirm(rows, &mut objects, (volume, &busy), findings, watch)?;
            report.unjudged = (before - findings.len()) as u64;
        }
    }
    drop_derived(&mut findings);
    // Any other fault may hide the file that needs an object.
    if report.not_kept > 0 || findings.iter().any(|finding| finding.code != Code::ObjectUnnamed) {
        findings.retain(|finding| finding.code != Code::ObjectUnnamed);
    }
    if findings.is_empty() && report.not_kept == 0 {
        findings = judge::tables::usage(&sweep, mode);
    }
    report.findings = findings;
    rows.judge(&mut report);
    report.findings.sort_by(|a, b| (a.shard, a.code, &a.what).cmp(&(b.shard, b.code, &b.what)));
    let mut probe = Probe { rows, volume };
    for finding in &mut report.findings {
        if let Some(at) = &finding.at {
            finding.path = probe.path(at)?;
        }
        if let (None, Some(At::Dir(dir) | At::Name(dir, _))) = (&finding.path, &finding.at)
            && !finding.what.contains(&dir.to_string())
        {
            finding.what = format!("{} (directory {dir})", finding.what);
        }
    }
    Ok(report)
}

/// Drops wrong counts that follow from a missing or superfluous name. They are no findings of their
/// own.
fn drop_derived(findings: &mut Vec<Finding>) {
    let names: Vec<_> = findings.iter().filter_map(|finding| finding.name).collect();
    findings.retain(|finding| {
        finding.counted.as_ref().is_none_or(|(dir, orders)| {
            !names.iter().any(|(there, order)| there == dir && orders.contains(order))
        })
    });
}
