//! Whether what was found in a running volume was ever so at one moment: see the crate's documentation.

use std::collections::BTreeSet;

use pando_core::keys;
use pando_types::SlotIndex;

use crate::busy::{Busy, Place};
use crate::code::Code;
use crate::finding::Finding;
use crate::source::{Objects, Rows, Watch};
use crate::volume::Volume;

/// Those that are confirmed.
pub fn confirm(
    rows: &mut dyn Rows,
    objects: &mut Option<&mut dyn Objects>,
    (volume, before): (&Volume, &Busy),
    findings: Vec<Finding>,
    watch: &mut dyn Watch,
) -> Result<Vec<Finding>, String> {
    if findings.is_empty() {
        return Ok(findings);
    }
    watch.pause();
    let findings = unchanged(rows, objects, findings)?;
    let busy = Busy::read(rows, volume)?;
    // Rows of slots that were on their way meanwhile were looked for in the wrong place.
    let moved = moved_slots(before, &busy);
    let has_moved = |key: &[u8]| keys::slot_of_row(key).is_some_and(|slot| moved.contains(&slot));
    let quiet = findings
        .into_iter()
        .filter(|finding| !finding.evidence.iter().any(|evidence| evidence.is_of(has_moved)))
        .filter(|finding| {
            let mut slots = finding.under.iter().filter_map(Place::slot);
            !slots.any(|slot| moved.contains(&slot))
        })
        // Who names it may be in such a slot.
        .filter(|finding| moved.is_empty() || finding.code != Code::ObjectUnnamed)
        .filter(|finding| !finding.under.iter().any(|place| busy.holds(place)))
        .collect();
    unchanged(rows, objects, quiet)
}

/// Slots that have another owner than before, or are, or were, on their way.
fn moved_slots(before: &Busy, now: &Busy) -> BTreeSet<SlotIndex> {
    let changed = now.owners.iter().filter(|(at, news)| before.owners.get(at) != Some(news));
    let on_their_way = [before, now].into_iter().flat_map(|busy| &busy.incoming);
    changed.map(|((_, slot), _)| *slot).chain(on_their_way.map(|(_, slot)| *slot)).collect()
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
