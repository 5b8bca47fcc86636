//! The part of a shard that holds steps of transactions for which it is prepared, or was.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pando_types::peer::Prepare;
use pando_types::{ShardIndex, TxnId};

use crate::records::keys;
use crate::records::record::{Floor, Prepared, Record};
use crate::state::ctx::Ctx;
use crate::state::txn::agenda::Agenda;
use crate::state::txn::recent::Recent;

/// A transaction, and the number of one of its steps.
pub type StepId = (TxnId, u16);

/// Steps of transactions for which this shard is prepared, or was.
#[derive(Default)]
pub struct Participant {
    /// Steps for which this shard is prepared, and when it last asked their coordinator,
    /// nanoseconds.
    prepared: BTreeMap<StepId, (Prepared, u64)>,
    /// Steps finished here of transactions that are not yet known to be over.
    finished: BTreeSet<StepId>,
    /// By coordinator, which of its transactions are over.
    floors: BTreeMap<ShardIndex, Floor>,
    /// When each prepared step last asked its coordinator.
    asked: Agenda<StepId>,
    /// Steps of which peer messages are ignored until this time, nanoseconds.
    deferred: BTreeMap<StepId, u64>,
    /// Log positions of the changes that unsynced votes may rest on.
    pub(crate) recent: Recent,
}

impl Participant {
    /// Loads a coordinator's floor from its record, at the start.
    pub(crate) fn load_floor(&mut self, shard: ShardIndex, floor: Floor) {
        self.floors.insert(shard, floor);
    }

    /// Loads a finished step from its record, at the start.
    pub(crate) fn load_finished(&mut self, at: StepId) {
        self.finished.insert(at);
    }

    /// Loads a prepared step from its record, at the start. Its coordinator is asked at once.
    pub(crate) fn load_prepared(&mut self, at: StepId, record: Prepared) {
        self.prepared.insert(at, (record, 0));
        self.asked.note(0, at);
    }

    /// Takes over from `old`, when the shard begins anew, what no record tells.
    pub(crate) fn keep(&mut self, old: &mut Self) {
        self.recent = core::mem::take(&mut old.recent);
        self.deferred = core::mem::take(&mut old.deferred);
    }

    /// Records that this shard is prepared for a step.
    pub(crate) fn prepare(&mut self, ctx: &mut Ctx<'_>, at: StepId, record: Prepared) {
        ctx.put(keys::prepared(at.0, at.1), record.encode());
        self.prepared.insert(at, (record, ctx.now.nanos));
        self.asked.note(ctx.now.nanos, at);
    }

    /// Forgets a prepared step, which is decided or undone. Returns what it prepared.
    pub(crate) fn release(&mut self, ctx: &mut Ctx<'_>, at: StepId) -> Option<Prepare> {
        let (record, _) = self.prepared.remove(&at)?;
        ctx.delete(keys::prepared(at.0, at.1));
        Some(record.prepare)
    }

    /// Records that a step is finished here, until its transaction is over.
    pub(crate) fn finish(&mut self, ctx: &mut Ctx<'_>, at: StepId) {
        self.finished.insert(at);
        ctx.put(keys::finished(at.0, at.1), Vec::new());
    }

    /// Takes in which transactions a coordinator has forgotten, and forgets their finished steps.
    pub(crate) fn raise_floor(&mut self, ctx: &mut Ctx<'_>, shard: ShardIndex, told: &Floor) {
        let floor = self.floors.entry(shard).or_default();
        if !floor.raise(told) {
            return;
        }
        ctx.put_always(keys::floor(shard), floor.encode());
        let from = (TxnId { shard, number: 0 }, 0);
        let to = (TxnId { shard, number: floor.below }, 0);
        let below = self.finished.range(from..to);
        let over: Vec<_> = below.filter(|(txn, _)| floor.is_void(txn.number)).copied().collect();
        for (txn, step) in over {
            self.finished.remove(&(txn, step));
            ctx.delete(keys::finished(txn, step));
        }
    }

    /// Whether the coordinator has told that the transaction is over.
    pub(crate) fn is_over(&self, txn: TxnId) -> bool {
        self.floors.get(&txn.shard).is_some_and(|floor| floor.is_void(txn.number))
    }

    /// Whether a step is finished here, of a transaction that is not known to be over.
    pub(crate) fn has_finished(&self, at: StepId) -> bool {
        self.finished.contains(&at)
    }

    /// Whether this shard is prepared for a step.
    pub(crate) fn is_prepared(&self, at: StepId) -> bool {
        self.prepared.contains_key(&at)
    }

    /// For what a step is prepared; `None`: it is not.
    pub(crate) fn prepared(&self, at: StepId) -> Option<&Prepare> {
        self.prepared.get(&at).map(|(record, _)| &record.prepare)
    }

    /// For what this shard is prepared in one transaction.
    pub(crate) fn prepared_in(&self, txn: TxnId) -> impl Iterator<Item = &Prepare> {
        let steps = self.prepared.range((txn, 0)..=(txn, u16::MAX));
        steps.map(|(_, (record, _))| &record.prepare)
    }

    /// All steps for which this shard is prepared.
    pub(crate) fn all_prepared(&self) -> impl Iterator<Item = (StepId, &Prepare)> {
        self.prepared.iter().map(|(at, (record, _))| (*at, &record.prepare))
    }

    /// Number of steps for which this shard is prepared.
    pub(crate) fn count(&self) -> usize {
        self.prepared.len()
    }

    /// Takes the steps of which no coordinator was asked since `until`, nanoseconds. They are asked
    /// `now`.
    pub(crate) fn take_unasked(&mut self, until: Option<u64>, now: u64) -> Vec<StepId> {
        let Some(until) = until else { return Vec::new() };
        let prepared = &self.prepared;
        let asked_at = |at: &StepId| prepared.get(at).map(|(_, since)| *since);
        let due = self.asked.take_due(until, prepared.len(), asked_at);
        for at in &due {
            if let Some((_, since)) = self.prepared.get_mut(at) {
                *since = now;
                self.asked.note(now, *at);
            }
        }
        due
    }

    /// When the coordinator was last asked that was not asked for longest, nanoseconds.
    pub(crate) fn longest_unasked(&mut self) -> Option<u64> {
        let prepared = &self.prepared;
        let asked_at = |at: &StepId| prepared.get(at).map(|(_, since)| *since);
        self.asked.oldest(prepared.len(), asked_at).map(|(at, _)| at)
    }

    /// Lets peer messages of a step be ignored until a time, nanoseconds.
    pub(crate) fn defer(&mut self, at: StepId, until: u64) {
        self.deferred.insert(at, until);
    }

    /// Whether peer messages of a step are ignored now.
    pub(crate) fn is_deferred(&mut self, at: StepId, now: u64) -> bool {
        if self.deferred.is_empty() {
            return false;
        }
        self.deferred.retain(|_, until| *until > now);
        self.deferred.contains_key(&at)
    }
}
