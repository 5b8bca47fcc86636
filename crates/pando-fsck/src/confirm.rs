//! Confirms findings of a running volume: whether each held at one moment. The rules are in the
//! crate's documentation.

use std::collections::BTreeSet;

use pando_core::keys;
use pando_types::{DirId, HashSlot};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::rows::source::{Objects, Rows, Watch};
use crate::rows::volume::Volume;
use crate::unfinished::busy::Busy;
use crate::unfinished::place::Place;

/// Returns the findings that are confirmed.
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
    let moved = Moved::between(before, &busy);
    let quiet: Vec<_> =
        findings.into_iter().filter(|finding| !is_in_motion(finding, &moved, &busy)).collect();
    let mut quiet = unchanged(rows, objects, quiet)?;
    if !quiet.is_empty() {
        // A partition or hash slot on its way to a shard may be given up before a look. It may come
        // again after it, with equal rows.
        let after = Busy::read(rows, volume)?;
        let moved = Moved::between(&busy, &after);
        quiet.retain(|finding| {
            !is_in_motion(finding, &moved, &after)
                && !finding.evidence.iter().any(|evidence| is_coming(before, evidence))
        });
    }
    Ok(quiet)
}

fn is_in_motion(finding: &Finding, moved: &Moved, busy: &Busy) -> bool {
    moved.concerns(finding)
        || finding.under.iter().any(|place| busy.holds(place))
        || finding.evidence.iter().any(|evidence| is_coming(busy, evidence))
}

/// Whether the evidence is a name's row that is on its way to the shard where it was seen. Such
/// rows are copies that the shard does not own.
fn is_coming(busy: &Busy, evidence: &Evidence) -> bool {
    let Some((shard, key)) = evidence.first_row() else { return false };
    let is_of_name = keys::kind_of(key)
        .is_some_and(|kind| keys::MOVING.iter().any(|moving| *moving as u8 == kind));
    let (Some(dir), Some(order), true) = (keys::dir_of(key), keys::order_of(key), is_of_name)
    else {
        return false;
    };
    busy.holds(&Place::Orders(shard, dir, order.0..order.0 + 1))
}

/// What has, or may have, another owner than in the tables as they were first read. Its rows were
/// looked for in the wrong place. That they are unchanged proves nothing.
struct Moved {
    /// Hash slots with another owner than before, and those that are, or were, on their way.
    hash_slots: BTreeSet<HashSlot>,
    /// Directories with partitions that a decision gave to a shard. The shard had not heard of it
    /// before, and has now. It may have given the partition away since.
    dirs: BTreeSet<DirId>,
}

impl Moved {
    fn between(before: &Busy, now: &Busy) -> Self {
        // A shard that loses its power may lose an owner record that it had not synced.
        let differing = |these: &Busy, those: &Busy| {
            let owners = these.owners.iter();
            let changed = owners.filter(|(at, news)| those.owners.get(at) != Some(news));
            changed.map(|((_, hash_slot), _)| *hash_slot).collect::<BTreeSet<_>>()
        };
        let on_their_way = [before, now].into_iter().flat_map(|busy| &busy.incoming);
        let mut hash_slots = differing(now, before);
        hash_slots.extend(differing(before, now));
        hash_slots.extend(on_their_way.map(|(_, hash_slot)| *hash_slot));
        let heard = before.arrived.iter().filter(|arrived| !now.arrived.contains(arrived));
        Self { hash_slots, dirs: heard.map(|(_, dir, _)| *dir).collect() }
    }

    fn concerns(&self, finding: &Finding) -> bool {
        let has_row = |key: &[u8]| {
            keys::hash_slot_of_row(key)
                .is_some_and(|hash_slot| self.hash_slots.contains(&hash_slot))
                || keys::dir_of(key).is_some_and(|dir| self.dirs.contains(&dir))
        };
        let has_place = |place: &Place| {
            place.hash_slot().is_some_and(|hash_slot| self.hash_slots.contains(&hash_slot))
                || place.dir().is_some_and(|dir| self.dirs.contains(&dir))
        };
        finding.evidence.iter().any(|evidence| evidence.first_row().is_some_and(|(_, key)| has_row(key)))
            || finding.under.iter().any(has_place)
            // The file that names the object may be in such a hash slot.
            || !self.hash_slots.is_empty() && finding.code == Code::ObjectUnnamed
    }
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

/// Whether everything that a finding follows from is unchanged.
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
