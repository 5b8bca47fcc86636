//! Mends what needs no guess.

use crate::check::check;
use crate::confirm::is_unchanged;
use crate::findings::finding::Finding;
use crate::findings::report::Report;
use crate::rows::mode::Mode;
use crate::rows::source::{Objects, Repairs, Watch};
use crate::rows::volume::Volume;

/// Most rounds of checking and mending. A repair may uncover further faults, but hardly this often.
const ROUNDS_MAX: usize = 16;

/// Result of a repair.
#[derive(Clone, Default, Debug)]
pub struct Repaired {
    /// Findings that were mended.
    pub mended: Vec<Finding>,
    /// Report of the last check.
    pub left: Report,
}

/// Checks a stopped volume and mends it, until a check finds nothing that can be mended. An error,
/// in words, is a failed read or write. What was mended before it stays mended.
pub fn repair(
    rows: &mut dyn Repairs,
    mut objects: Option<&mut dyn Objects>,
    volume: &Volume,
    watch: &mut dyn Watch,
) -> Result<Repaired, String> {
    let mut repaired = Repaired::default();
    for _ in 0..ROUNDS_MAX {
        let again = objects.as_mut().map(|objects| &mut **objects as &mut dyn Objects);
        repaired.left = check(rows, again, volume, Mode::Stopped, watch)?;
        let before = repaired.mended.len();
        for finding in &repaired.left.findings {
            if mend(rows, &mut objects, finding)? {
                repaired.mended.push(finding.clone());
            }
        }
        if repaired.mended.len() == before {
            break;
        }
    }
    Ok(repaired)
}

/// Mends one finding. Returns false if it cannot be mended, or if another repair has changed what
/// it follows from.
fn mend(
    rows: &mut dyn Repairs,
    objects: &mut Option<&mut dyn Objects>,
    finding: &Finding,
) -> Result<bool, String> {
    let Some(repair) = &finding.repair else { return Ok(false) };
    if !is_unchanged(rows, objects, finding)? {
        return Ok(false);
    }
    for (shard, writes) in &repair.writes {
        rows.write(*shard, writes.clone())?;
    }
    if let Some(objects) = objects {
        for object in &repair.objects {
            objects.delete(*object)?;
        }
    }
    Ok(true)
}
