//! A transaction in its voting phase.

use alloc::vec::Vec;
use pando_types::ShardIndex;
use pando_types::op::Place;
use pando_types::peer::{Change, PeerMessage, Prepare, Seen};

use super::{Message, Step, StepState, Txn};
use crate::counters::TxnKind;

/// Number of times in a row that a step is sent on at once. Two shards may send it to each other
/// until one of them has heard of a decision. After that the step waits for the next resend.
const SENT_ON_MAX: u32 = 8;
/// Most time that a transaction may take in all, in units of `votes_wait`.
const WAITS_MAX: u64 = 3;

impl Txn {
    /// Adds the next step, for which a shard is asked now. Returns the step's number.
    pub(crate) fn ask(&mut self, place: Place, prepare: Prepare, to: ShardIndex, now: u64) -> u16 {
        if self.steps.is_empty() {
            self.begun_at = now;
        }
        (self.asked_at, self.sent_on) = (now, 0);
        let step = self.steps.len() as u16;
        let (state, seen, changes) = (StepState::Asked, None, Vec::new());
        self.steps.push(Step { place, prepare, to, state, seen, changes });
        step
    }

    /// The step, if it awaits its vote: only the last one may.
    pub(crate) fn awaited(&self, step: u16) -> Option<&Step> {
        let is_last = self.steps.len().wrapping_sub(1) == usize::from(step);
        self.steps.last().filter(|at| is_last && at.state == StepState::Asked)
    }

    /// Sends the last step on to another shard: its message, and whether that may leave at once.
    pub(crate) fn send_on(&mut self, to: ShardIndex) -> Option<(Message, bool)> {
        let step = self.steps.len().saturating_sub(1) as u16;
        let last = self.steps.last_mut()?;
        last.to = to;
        self.sent_on += 1;
        let message = PeerMessage::Prepare(last.place.clone(), last.prepare.clone());
        Some(((to, step, message), !self.sent_on.is_multiple_of(SENT_ON_MAX)))
    }

    /// Notes that a step is asked of this shard from now on.
    pub(in crate::state::txn) fn ask_there(&mut self, step: u16, to: ShardIndex) {
        if let Some(at) = self.steps.get_mut(usize::from(step)) {
            at.to = to;
        }
    }

    /// Notes the vote for the last step.
    pub(in crate::state::txn) fn voted(
        &mut self,
        state: StepState,
        by: Option<ShardIndex>,
        seen: Option<Seen>,
    ) {
        if let Some(at) = self.steps.last_mut() {
            at.state = state;
            at.to = by.unwrap_or(at.to);
            at.seen = seen.or(at.seen.take());
        }
    }

    /// Whether the transaction can be undone because of a missing vote: a client waits for it, and
    /// asks anew. Sessions, splits and handovers have rules of their own.
    pub(crate) fn may_be_given_up(&self) -> bool {
        let is_clients = matches!(
            self.kind,
            Some(
                TxnKind::Mkdir
                    | TxnKind::Rmdir
                    | TxnKind::Rename
                    | TxnKind::RenameDir
                    | TxnKind::Link
                    | TxnKind::Unlink
                    | TxnKind::DirSetAttr
            )
        );
        is_clients && self.plan.is_some() && self.request.is_some()
    }

    /// The shard that must vote next.
    pub(crate) fn awaited_shard(&self) -> Option<ShardIndex> {
        self.sent.as_ref()?;
        let last = self.steps.last()?;
        (last.state == StepState::Asked).then_some(last.to)
    }

    /// Time at which the transaction is given up, if no vote comes.
    pub(in crate::state::txn) fn deadline(&self, votes_wait: u64) -> Option<u64> {
        if !self.may_be_given_up() || self.awaited_shard().is_none() {
            return None;
        }
        let in_all = self.begun_at.saturating_add(votes_wait.saturating_mul(WAITS_MAX));
        Some(self.asked_at.saturating_add(votes_wait).min(in_all))
    }

    /// When the transaction has last sent something, nanoseconds.
    pub(in crate::state::txn) const fn sent_at(&self) -> u64 {
        self.sent_at
    }

    /// Notes what is sent now, and again if no answer comes.
    pub(in crate::state::txn) fn note_sent(&mut self, message: Option<Message>, now: u64) {
        (self.sent, self.sent_at) = (message, now);
    }

    /// The messages to send again now: the unanswered one, or those of the decision.
    pub(in crate::state::txn) fn send_again(&mut self, now: u64) -> Vec<Message> {
        self.sent_at = now;
        if let Some(message) = &self.sent {
            return alloc::vec![message.clone()];
        }
        let finish = |changes: &Vec<Change>| PeerMessage::Finish(Some(changes.clone()));
        let left = self.finishing.iter();
        left.map(|(step, to, changes)| (*to, *step, finish(changes))).collect()
    }
}
