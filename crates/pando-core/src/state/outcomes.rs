//! Outcomes of requests that ran, and the floors below which all are over.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use pando_types::peer::RowChange;
use pando_types::reply::{Body, Refusal};
use pando_types::{DirId, SessionId};

use crate::contract::{Halt, Row};
use crate::records::keys::{self, Table};
use crate::records::record::{Outcome, Record};
use crate::state::ctx::Ctx;

/// A request slot of a session.
pub type RequestSlot = (SessionId, u16);

/// All outcomes of a shard.
#[derive(Default)]
pub struct Outcomes {
    /// The newest sequence run here, of sessions that record their outcomes.
    recorded: BTreeMap<RequestSlot, u64>,
    /// Outcomes of local sessions.
    local: BTreeMap<RequestSlot, Outcome>,
    /// Refusals without a record, newer than `recorded`, of sessions that record their outcomes.
    /// See [`crate::requests::room`].
    refused: BTreeMap<RequestSlot, Outcome>,
    /// What this input has replaced in `local`, in order: its effects may yet be dropped.
    replaced: Vec<(RequestSlot, Option<Outcome>)>,
}

impl Outcomes {
    /// Loads an outcome from its record, at the start.
    pub fn load(&mut self, slot: RequestSlot, sequence: u64) {
        self.recorded.insert(slot, sequence);
    }

    /// The newest sequence of a request slot that ran or was refused, as far as known here.
    pub fn newest(&self, slot: RequestSlot) -> Option<u64> {
        match slot.0.is_local() {
            true => self.local.get(&slot).map(|outcome| outcome.sequence),
            false => match self.refusal(slot) {
                Some(refused) => Some(refused.sequence),
                None => self.recorded.get(&slot).copied(),
            },
        }
    }

    fn refusal(&self, slot: RequestSlot) -> Option<&Outcome> {
        if self.refused.is_empty() { None } else { self.refused.get(&slot) }
    }

    /// The newest outcome of a request slot.
    pub fn load_newest(&self, ctx: &Ctx<'_>, slot: RequestSlot) -> Result<Option<Outcome>, Halt> {
        match slot.0.is_local() {
            true => Ok(self.local.get(&slot).cloned()),
            false => match self.refusal(slot) {
                Some(refused) => Ok(Some(refused.clone())),
                None => ctx.load(&keys::outcome(slot.0, slot.1)),
            },
        }
    }

    /// Notes the outcome of a request that ran here.
    pub fn note(
        &mut self,
        ctx: &mut Ctx<'_>,
        slot: RequestSlot,
        sequence: u64,
        result: &Result<Body, Refusal>,
        at: Option<(DirId, u64)>,
    ) {
        if slot.0.is_local() {
            self.set_local(slot, Outcome { sequence, result: Some(result.clone()), at });
        } else {
            self.set_recorded(slot, sequence);
            ctx.put(keys::outcome(slot.0, slot.1), Outcome::encode_of(sequence, result, at));
        }
    }

    /// Notes the outcome of a request that ran on another shard.
    pub(crate) fn take(&mut self, ctx: &mut Ctx<'_>, slot: RequestSlot, outcome: Outcome) {
        if slot.0.is_local() {
            self.set_local(slot, outcome);
        } else {
            self.set_recorded(slot, outcome.sequence);
            ctx.put(keys::outcome(slot.0, slot.1), outcome.encode());
        }
    }

    fn set_local(&mut self, slot: RequestSlot, outcome: Outcome) {
        let before = self.local.insert(slot, outcome);
        self.replaced.push((slot, before));
    }

    fn set_recorded(&mut self, slot: RequestSlot, sequence: u64) {
        self.recorded.insert(slot, sequence);
        if !self.refused.is_empty() {
            self.refused.remove(&slot);
        }
    }

    /// Makes the last input's changes final, when the next input comes.
    pub fn settle(&mut self) {
        self.replaced.clear();
    }

    /// Takes back this input's changes in memory, because its effects are dropped.
    pub fn restore(&mut self) {
        while let Some((slot, before)) = self.replaced.pop() {
            match before {
                Some(outcome) => self.local.insert(slot, outcome),
                None => self.local.remove(&slot),
            };
        }
    }

    /// Takes over from `old`, when the shard begins anew, the outcomes that have no record.
    /// `counts` says for which sessions outcomes are kept.
    pub fn keep(&mut self, old: &mut Self, counts: impl Fn(SessionId) -> bool) {
        old.restore();
        self.local = core::mem::take(&mut old.local);
        self.refused = core::mem::take(&mut old.refused);
        for outcomes in [&mut self.local, &mut self.refused] {
            outcomes.retain(|(session, _), _| counts(*session));
        }
    }

    /// Notes that a request was refused without a record. It is newer than all requests of its slot
    /// that ran.
    pub fn refuse(&mut self, slot: RequestSlot, refused: Outcome) {
        let outcomes = if slot.0.is_local() { &mut self.local } else { &mut self.refused };
        outcomes.insert(slot, refused);
    }

    /// Outcomes that have no record. A refusal is newer than the recorded outcome of its slot.
    pub(crate) fn unrecorded(&self) -> impl Iterator<Item = (RequestSlot, &Outcome)> {
        self.local.iter().chain(&self.refused).map(|(slot, outcome)| (*slot, outcome))
    }

    /// Sessions that have an outcome here; a session may come several times.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        let all = self.recorded.keys().chain(self.local.keys()).chain(self.refused.keys());
        all.map(|(session, _)| *session)
    }

    /// Whether a session has any outcome here.
    pub fn has(&self, session: SessionId) -> bool {
        let all = (session, 0)..=(session, u16::MAX);
        self.recorded.range(all.clone()).next().is_some()
            || self.local.range(all.clone()).next().is_some()
            || self.refused.range(all).next().is_some()
    }

    /// Removes all outcomes of a session.
    pub fn end(&mut self, ctx: &mut Ctx<'_>, session: SessionId) {
        let all: RangeInclusive<RequestSlot> = (session, 0)..=(session, u16::MAX);
        let gone: Vec<_> = self.recorded.range(all.clone()).map(|(slot, _)| *slot).collect();
        for slot in gone {
            self.recorded.remove(&slot);
            ctx.delete(keys::outcome(slot.0, slot.1));
        }
        let gone: Vec<_> = self.local.range(all.clone()).map(|(slot, _)| *slot).collect();
        for slot in gone {
            let before = self.local.remove(&slot);
            self.replaced.push((slot, before));
        }
        let gone: Vec<_> = self.refused.range(all).map(|(slot, _)| *slot).collect();
        for slot in gone {
            self.refused.remove(&slot);
        }
    }
}

/// Splits the rows of a page into rows of what moves, and outcomes.
pub fn apart(rows: Vec<RowChange>) -> (Vec<RowChange>, Vec<Row>) {
    let (mut others, mut outcomes) = (Vec::new(), Vec::new());
    let table = keys::table(Table::Outcome);
    for row in rows {
        match row {
            RowChange::Put(key, value) if key.starts_with(&table) => {
                outcomes.push((key, value));
            }
            row => others.push(row),
        }
    }
    (others, outcomes)
}
