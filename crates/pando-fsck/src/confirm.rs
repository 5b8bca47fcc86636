//! Whether what was found in a running volume was ever so at one moment: see the crate's documentation.

use crate::busy::Busy;
use crate::finding::Finding;
use crate::source::{Objects, Rows, Watch};
use crate::volume::Volume;

/// Those that are confirmed.
pub fn confirm(
    rows: &mut dyn Rows,
    objects: &mut Option<&mut dyn Objects>,
    volume: &Volume,
    findings: Vec<Finding>,
    watch: &mut dyn Watch,
) -> Result<Vec<Finding>, String> {
    if findings.is_empty() {
        return Ok(findings);
    }
    watch.pause();
    let findings = unchanged(rows, objects, findings)?;
    let busy = Busy::read(rows, volume)?;
    let quiet = findings
        .into_iter()
        .filter(|finding| !finding.under.iter().any(|place| busy.holds(place)))
        .collect();
    unchanged(rows, objects, quiet)
}

fn unchanged(
    rows: &mut dyn Rows,
    objects: &mut Option<&mut dyn Objects>,
    findings: Vec<Finding>,
) -> Result<Vec<Finding>, String> {
    let mut kept = Vec::new();
    for finding in findings {
        if is_unchanged(rows, objects, &finding)? {
            kept.push(finding);
        }
    }
    Ok(kept)
}

/// Whether all that a finding follows from is as it was.
pub fn is_unchanged(
    rows: &mut dyn Rows,
    objects: &mut Option<&mut dyn Objects>,
    finding: &Finding,
) -> Result<bool, String> {
    for evidence in &finding.evidence {
        if !evidence.holds(rows, objects)? {
            return Ok(false);
        }
    }
    Ok(true)
}
