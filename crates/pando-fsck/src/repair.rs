//! Mending what can be mended without guessing.

use crate::confirm::is_unchanged;
use crate::finding::{Finding, Report};
use crate::source::{Objects, Repairs, Watch};
use crate::volume::Volume;
use crate::{Mode, check};

/// What is mended may show what else is wrong; more often than this it does not.
const ROUNDS_MAX: usize = 16;

/// What a repair came to.
#[derive(Clone, Default, Debug)]
pub struct Repaired {
    /// What was wrong and is mended.
    pub mended: Vec<Finding>,
    /// What a last check says.
    pub left: Report,
}

/// Checks a stopped volume and mends it, until a check finds nothing that can be mended. Errors, in
/// words, are of reading and writing; what was mended before one stays so.
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

/// Mends one thing, unless it cannot be, or mending another one has changed what it follows from.
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
