//! Judges transactions: decisions of coordinators, and the steps that participants have prepared.
//!
//! A prepared step that its coordinator does not know is no damage: it is undone at the next start.
//! A decision without its prepared step is damage, as that shard never carries out its part.

use std::collections::BTreeMap;

use pando_core::record::{Decided, Floor, Record};
use pando_core::{Write, can_redo, keys};
use pando_types::{DirId, ShardIndex, TxnId};

use crate::findings::code::Code;
use crate::findings::evidence::Evidence;
use crate::findings::finding::Finding;
use crate::judge::judgement::Judge;
use crate::rows::cursor;
use crate::unfinished::busy::locks_of;
use crate::unfinished::place::Place;

/// One step of a decision. It and the participant's records of it are read together.
struct Step {
    coordinator: ShardIndex,
    number: u64,
    step: u16,
    shard: ShardIndex,
}

impl Judge<'_, '_> {
    pub(crate) fn transactions(&mut self) -> Result<(), String> {
        self.decisions()?;
        self.locks()?;
        self.finished()
    }

    /// The value of a row, with its evidence.
    fn row(
        &mut self,
        shard: ShardIndex,
        key: &[u8],
    ) -> Result<(Option<Vec<u8>>, Evidence), String> {
        let value = cursor::get(self.probe.rows, shard, key)?;
        let evidence = Evidence::row(shard, key, value.as_deref());
        Ok((value, evidence))
    }

    fn decisions(&mut self) -> Result<(), String> {
        let busy = self.sweep.busy;
        for ((coordinator, number), decided) in &busy.decided {
            for (step, shard, _) in &decided.steps {
                let (coordinator, number) = (*coordinator, *number);
                let txn = TxnId { shard: coordinator, number };
                let at = (*shard, txn, *step);
                let is_void = busy.is_void(*shard, txn);
                let is_known = busy.prepared.contains_key(&at) || busy.finished.contains(&at);
                // Whether such a shard exists is checked elsewhere.
                if shard.0 < self.probe.volume.map.shards && (is_void || !is_known) {
                    self.decision(&Step { coordinator, number, step: *step, shard: *shard })?;
                }
            }
        }
        Ok(())
    }

    fn decision(&mut self, at: &Step) -> Result<(), String> {
        let Step { coordinator, number, step, shard } = *at;
        let txn = TxnId { shard: coordinator, number };
        let (decided, evidence) = self.row(coordinator, &keys::txn(number))?;
        let Some(decided) = decided.and_then(|bytes| Decided::decode(&bytes).ok()) else {
            return Ok(());
        };
        let changes = decided.steps.iter().find(|(s, to, _)| (*s, *to) == (step, shard));
        let Some((_, _, changes)) = changes else { return Ok(()) };
        let (prepared, prepared_row) = self.row(shard, &keys::prepared(txn, step))?;
        let (finished, finished_row) = self.row(shard, &keys::finished(txn, step))?;
        let floor_key = keys::floor(coordinator);
        let (floor, floor_row) = self.row(shard, &floor_key)?;
        let floor = floor.and_then(|bytes| Floor::decode(&bytes).ok()).unwrap_or_default();
        let what = format!("step {step} of transaction {txn} ({})", decided.what);
        let finding = |code, detail| {
            Finding::new(code, shard, what.clone(), detail)
                .known_by(evidence.clone())
                .known_by(prepared_row.clone())
                .known_by(finished_row.clone())
                .known_by(floor_row.clone())
        };
        if floor.is_void(number) {
            // A step that is not prepared was finished, or no floor would be above it. The
            // coordinator had forgotten the transaction, and lost that in a power loss (mode `os`).
            // It sends the decision again, and hears that it is over.
            if prepared.is_none() {
                return Ok(());
            }
            let detail = format!(
                "shard {shard} treats all of coordinator {coordinator} below {} as ended",
                floor.below
            );
            let lowest = self.sweep.busy.decided.range((coordinator, 0)..).next();
            let lowest = lowest.map_or(number, |((_, lowest), _)| *lowest);
            // The coordinator's record is the truth: no transaction from this one on is over.
            let put = Write::Put(floor_key, Floor::below(lowest).encode());
            let found = finding(Code::FloorAboveTransaction, detail);
            self.found.push(found.mended_by(shard, vec![put]));
        } else if prepared.is_none() && finished.is_none() && !changes.iter().all(can_redo) {
            let detail = format!("shard {shard} is not prepared for it");
            self.found.push(finding(Code::DecisionWithoutParticipant, detail));
        }
        Ok(())
    }

    fn locks(&mut self) -> Result<(), String> {
        let mut held: BTreeMap<(ShardIndex, String), (TxnId, u16)> = BTreeMap::new();
        for ((shard, txn, step), prepared) in &self.sweep.busy.prepared {
            for place in locks_of(self.probe.volume, &prepared.prepare) {
                let shown = shown(&place);
                let first = *held.entry((*shard, shown.clone())).or_insert((*txn, *step));
                if first.0 != *txn {
                    self.held_twice((*shard, shown), first, (*txn, *step))?;
                }
            }
        }
        Ok(())
    }

    fn held_twice(
        &mut self,
        (shard, shown): (ShardIndex, String),
        first: (TxnId, u16),
        second: (TxnId, u16),
    ) -> Result<(), String> {
        let (one, one_row) = self.row(shard, &keys::prepared(first.0, first.1))?;
        let (other, other_row) = self.row(shard, &keys::prepared(second.0, second.1))?;
        if one.is_some() && other.is_some() {
            let detail = format!("transactions {} and {} both hold it", first.0, second.0);
            let finding = Finding::new(Code::LockHeldTwice, shard, shown, detail);
            self.found.push(finding.known_by(one_row).known_by(other_row));
        }
        Ok(())
    }

    fn finished(&mut self) -> Result<(), String> {
        let mut finished: Vec<_> = self.sweep.busy.finished.iter().copied().collect();
        finished.sort_unstable();
        for (shard, txn, step) in finished {
            if !self.sweep.busy.is_void(shard, txn) {
                continue;
            }
            let key = keys::finished(txn, step);
            let (there, row) = self.row(shard, &key)?;
            let (_, floor_row) = self.row(shard, &keys::floor(txn.shard))?;
            let floor = self.sweep.busy.floors.get(&(shard, txn.shard));
            let below = floor.map_or(0, |floor| floor.below);
            if there.is_some() {
                let what = format!("finished step {step} of transaction {txn}");
                let detail = format!("all of coordinator {} below {below} have ended", txn.shard);
                let finding = Finding::new(Code::StepBelowFloor, shard, what, detail);
                let finding = finding.known_by(row).known_by(floor_row);
                self.found.push(finding.mended_by(shard, vec![Write::Delete(key)]));
            }
        }
        Ok(())
    }
}

/// Name of a place in messages.
fn shown(place: &Place) -> String {
    match place {
        Place::Graph(DirId::ROOT) => "the right to move any directory".to_owned(),
        Place::Graph(dir) => format!("the right to move directory {dir}"),
        Place::Name(dir, order) => format!("order {order:#x} of directory {dir}"),
        Place::Home(dir) => format!("the content of directory {dir}"),
        Place::Partition(dir, partition) => format!("partition {partition} of directory {dir}"),
        Place::Link(ino) => format!("inode {ino} at its link shard"),
        Place::Session(session) => format!("session {session}"),
        Place::Orders(_, dir, _) => format!("names of directory {dir}"),
    }
}
