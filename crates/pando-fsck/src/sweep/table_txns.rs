//! Rows of transactions in the shards' tables: decisions, steps, floors, and what a decision lets
//! arrive. The coordinator of each must exist, and must have given its number.

use pando_core::Write;
use pando_core::keys::{self, Kind};
use pando_core::record::{Arriving, Decided, Floor, Incoming};
use pando_placement::range;
use pando_types::{DirId, PartitionIndex, ShardIndex, TxnId};

use crate::findings::code::Code;
use crate::sweep::pass::Sweep;
use crate::sweep::table_row::TableRow;

impl Sweep<'_> {
    /// Reads a decision of the coordinator's own shard.
    pub(crate) fn decision(&mut self, number: u64, row: &TableRow) {
        if let Some(decided) = self.record::<Decided>(row) {
            let strange = decided.steps.iter().any(|(_, to, _)| !self.is_shard(*to));
            if strange || decided.then.iter().any(|(to, _)| !self.is_shard(*to)) {
                let detail = "a step of it is on a shard that does not exist".to_owned();
                self.findings.push(row.finding(Code::StepOfUnknownTransaction, detail));
            }
        }
        self.number(row.shard, number.saturating_add(1), row);
    }

    /// Reads a step that a participant has prepared or finished.
    pub(crate) fn step(&mut self, txn: TxnId, row: &TableRow) {
        self.coordinator(txn.shard, txn.number.saturating_add(1), row, vec![deletion(row)]);
    }

    /// Reads the number below which a coordinator's transactions are all over.
    pub(crate) fn floor(&mut self, coordinator: ShardIndex, row: &TableRow) {
        if let Some(floor) = self.record::<Floor>(row) {
            self.coordinator(coordinator, floor.below, row, vec![deletion(row)]);
        }
    }

    /// Reads the record of a partition that is on its way to the shard.
    pub(crate) fn arrival(&mut self, dir: DirId, partition: PartitionIndex, row: &TableRow) {
        self.pending.arriving += 1;
        let Some(Arriving { txn, radix, .. }) = self.record(row) else { return };
        let orders = range(partition, radix);
        let mut undo = vec![deletion(row)];
        undo.extend(keys::MOVING.map(|kind: Kind| {
            let (from, to) = keys::dir_range(dir, kind, &orders);
            Write::DeleteRange(from, to)
        }));
        self.coordinator(txn.shard, txn.number.saturating_add(1), row, undo);
    }

    /// Reads the record of a hash slot that is on its way to the shard.
    pub(crate) fn incoming(&mut self, row: &TableRow) {
        self.pending.arriving += 1;
        if let Some(Incoming { txn, .. }) = self.record(row) {
            self.coordinator(txn.shard, txn.number.saturating_add(1), row, Vec::new());
        }
    }

    /// Notes a number of a transaction, which its coordinator must have given.
    pub(crate) fn number(&mut self, coordinator: ShardIndex, reached: u64, row: &TableRow) {
        let known = self.tables.txns.get(&coordinator);
        if known.is_none_or(|(known, _)| reached > *known) {
            self.tables.txns.insert(coordinator, (reached, row.evidence()));
        }
    }

    /// Notes a number of a transaction, or reports that its coordinator does not exist. `undo` is
    /// the repair; without writes there is none.
    fn coordinator(
        &mut self,
        coordinator: ShardIndex,
        reached: u64,
        row: &TableRow,
        undo: Vec<Write>,
    ) {
        if self.is_shard(coordinator) {
            return self.number(coordinator, reached, row);
        }
        let detail = format!("its coordinator, shard {coordinator}, does not exist");
        let finding = row.finding(Code::StepOfUnknownTransaction, detail);
        self.findings.push(match undo.is_empty() {
            true => finding,
            false => finding.mended_by(row.shard, undo),
        });
    }
}

fn deletion(row: &TableRow) -> Write {
    Write::Delete(row.key.clone())
}
