//! A transaction after its decision.

use alloc::string::ToString;
use alloc::vec::Vec;
use pando_types::ShardIndex;
use pando_types::peer::Change;

use super::{Step, StepState, Txn};
use crate::counters::TxnKind;
use crate::records::record::Decided;

impl Txn {
    /// Decides. `changes` are added to the steps that they name, and `then` is made after all of
    /// them. Returns the steps that are locked, each with its number and changes.
    pub(crate) fn decide(
        &mut self,
        changes: Vec<(usize, Change)>,
        then: Vec<(ShardIndex, Change)>,
    ) -> impl Iterator<Item = (u16, Step)> + use<> {
        for (step, change) in changes {
            self.steps[step].changes.push(change);
        }
        (self.plan, self.sent, self.then) = (None, None, then);
        self.next_step = self.steps.len() as u16;
        let is_locked = |step: &Step| step.state == StepState::Yes && step.prepare.locks();
        let steps = (0..).zip(core::mem::take(&mut self.steps));
        steps.filter(move |(_, step)| is_locked(step))
    }

    /// Leaves a step to be finished by its shard.
    pub(crate) fn leave(&mut self, step: u16, shard: ShardIndex, changes: Vec<Change>) {
        self.finishing.push((step, shard, changes));
    }

    /// Leaves one more change to a shard, as a step of its own.
    pub(crate) fn leave_change(&mut self, shard: ShardIndex, change: Change) {
        self.leave(self.next_step, shard, alloc::vec![change]);
        self.next_step += 1;
    }

    /// Steps that are not finished, each with its shard and changes.
    pub(crate) fn finishing(&self) -> &[(u16, ShardIndex, Vec<Change>)] {
        &self.finishing
    }

    /// Changes that a shard must make for a step that is not finished.
    pub(crate) fn finishing_at(&self, step: u16, shard: ShardIndex) -> Option<&Vec<Change>> {
        let mut left = self.finishing.iter();
        left.find(|(s, to, _)| (*s, *to) == (step, shard)).map(|(.., changes)| changes)
    }

    /// Notes that a shard has finished a step. Returns whether that was the last one.
    pub(crate) fn has_finished(&mut self, step: u16, shard: ShardIndex) -> bool {
        let before = self.finishing.len();
        self.finishing.retain(|(s, to, _)| (*s, *to) != (step, shard));
        self.finishing.is_empty() && before > 0
    }

    /// Lets another shard finish a step: it has taken over the place.
    pub(crate) fn readdress(&mut self, step: u16, from: ShardIndex, to: ShardIndex) {
        let mut left = self.finishing.iter_mut();
        if let Some((_, shard, _)) = left.find(|(s, shard, _)| (*s, *shard) == (step, from)) {
            *shard = to;
        }
    }

    /// Takes the changes to make when all steps are finished. None, as long as one is not.
    pub(crate) fn take_then(&mut self) -> Vec<(ShardIndex, Change)> {
        match self.finishing.is_empty() {
            true => core::mem::take(&mut self.then),
            false => Vec::new(),
        }
    }

    /// The record of what is left to do.
    pub(crate) fn decided(&self) -> Decided {
        Decided {
            what: self.kind.map_or("?", TxnKind::name).to_string(),
            request: self.request.as_deref().map(|r| r.head.id).unwrap_or_default(),
            steps: self.finishing.clone(),
            then: self.then.clone(),
            next_step: self.next_step,
        }
    }
}
