//! The check: sweep, judgement, confirmation and report.

use pando_core::record::SessionRecord;

use crate::confirm::confirm;
use crate::findings::code::Code;
use crate::findings::finding::{At, Finding};
use crate::findings::gaps::Readable;
use crate::findings::report::Report;
use crate::judge::run::judge;
use crate::judge::tables::usage;
use crate::lookup::probe::Probe;
use crate::rows::mode::Mode;
use crate::rows::source::{Objects, Rows, Watch};
use crate::rows::volume::Volume;
use crate::sweep::pass::Sweep;
use crate::unfinished::busy::Busy;

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
    let judged = judge(rows, &mut objects, &mut sweep, mode, watch)?;
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
            findings = confirm(rows, &mut objects, (volume, &busy), findings, watch)?;
            report.unjudged = (before - findings.len()) as u64;
        }
    }
    drop_derived(&mut findings);
    // Any other fault may hide the file that needs an object.
    if report.not_kept > 0 || findings.iter().any(|finding| finding.code != Code::ObjectUnnamed) {
        findings.retain(|finding| finding.code != Code::ObjectUnnamed);
    }
    if findings.is_empty() && report.not_kept == 0 {
        findings = usage(&sweep, mode);
    }
    report.findings = findings;
    rows.judge(&mut report);
    report.findings.sort_by(|a, b| (a.shard, a.code, &a.what).cmp(&(b.shard, b.code, &b.what)));
    show_paths(&mut report.findings, &mut Probe { rows, volume })?;
    Ok(report)
}

/// Completes findings with the paths of what they are about.
fn show_paths(findings: &mut [Finding], probe: &mut Probe<'_>) -> Result<(), String> {
    for finding in findings {
        if let Some(at) = &finding.at {
            finding.path = probe.path(at)?;
        }
        if let (None, Some(At::Dir(dir) | At::Name(dir, _))) = (&finding.path, &finding.at)
            && !finding.what.contains(&dir.to_string())
        {
            finding.what = format!("{} (directory {dir})", finding.what);
        }
    }
    Ok(())
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
