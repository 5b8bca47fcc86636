//! Deadlines of votes. Before the decision only the coordinator may undo a transaction.
//!
//! 1. If a vote does not come within `votes_wait` ([`Config`](crate::Config)), the coordinator
//!    undoes the transaction. With other votes coming, a transaction may take three times as long
//!    in all. The coordinator tells every step, and answers a later vote so, too. The client hears
//!    `EBUSY`, and asks anew under a new identity. So a shard that is away does not hold others'
//!    locks for longer. Once its patience is over, the client answers `ETIMEDOUT` instead, and
//!    nothing was done. Only a call whose coordinator did not answer at all may yet take effect.
//! 2. The shard with the missing vote counts as *silent* until a message comes from it. No client's
//!    transaction waits for its vote. Otherwise the client's next attempt would hold the locks for
//!    as long again.
//! 3. A silent shard is probed each second. The probe asks about a transaction that does not exist,
//!    which every shard answers.

use alloc::vec::Vec;
use pando_types::peer::PeerMessage;
use pando_types::reply::Refusal;
use pando_types::{Errno, ShardIndex, TxnId};

use crate::contract::{Halt, Need};
use crate::counters::TxnKind;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::{StepState, Txn};

/// Time between two probes of a silent shard, nanoseconds.
const PROBE_EVERY: u64 = 1_000_000_000;
/// Most time that a transaction may take in all, in units of `votes_wait`.
const WAITS_MAX: u64 = 3;

impl Txn {
    /// Whether it can be undone because of a missing vote: a client waits for it, and asks anew.
    /// Sessions, splits and handovers have rules of their own.
    fn may_be_given_up(&self) -> bool {
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
    fn awaited(&self) -> Option<ShardIndex> {
        self.sent.as_ref()?;
        let last = self.steps.last()?;
        (last.state == StepState::Asked).then_some(last.to)
    }

    /// Time at which the transaction is given up, if no vote comes.
    pub(super) fn deadline(&self, votes_wait: u64) -> Option<u64> {
        if !self.may_be_given_up() || self.awaited().is_none() {
            return None;
        }
        let in_all = self.begun_at.saturating_add(votes_wait.saturating_mul(WAITS_MAX));
        Some(self.asked_at.saturating_add(votes_wait).min(in_all))
    }
}

impl Shard {
    /// Notes that a message came from another shard.
    pub(crate) fn has_spoken(&mut self, shard: ShardIndex) {
        if !self.coordinator.silent.is_empty() {
            self.coordinator.silent.remove(&shard);
        }
    }

    /// Whether a transaction must not wait for this shard.
    pub(super) fn is_not_awaited(&self, txn: &Txn, shard: ShardIndex) -> bool {
        self.coordinator.silent.contains_key(&shard) && txn.may_be_given_up()
    }

    /// Notes the deadline of a transaction that has just asked for a vote. It stays until the vote
    /// comes.
    pub(super) fn note_deadline(&mut self, number: u64) {
        let txn = self.coordinator.txns.get(&number);
        if let Some(at) = txn.and_then(|txn| txn.deadline(self.config.votes_wait)) {
            self.coordinator.deadlines.note(at, number);
        }
    }

    /// Undoes transactions with a missing vote, and probes silent shards.
    pub(super) fn give_up_votes(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let (now, wait, own) = (ctx.now.nanos, self.config.votes_wait, self.config.shard);
        let txns = &self.coordinator.txns;
        let deadline = |number| txns.get(&number).and_then(|txn| txn.deadline(wait));
        for number in self.coordinator.deadlines.take_due(now, txns.len(), deadline) {
            let Some(txn) = self.coordinator.txns.remove(&number) else { continue };
            if let Some(shard) = txn.awaited().filter(|shard| *shard != own) {
                self.coordinator.silent.entry(shard).or_insert(0);
            }
            self.give_up(ctx, number, txn)?;
        }
        let probed: Vec<ShardIndex> = (self.coordinator.silent.iter_mut())
            .filter(|(_, asked)| asked.saturating_add(PROBE_EVERY) <= now)
            .map(|(shard, asked)| {
                *asked = now;
                *shard
            })
            .collect();
        for shard in probed {
            // No transaction has this number.
            self.tell(
                ctx,
                Need::Committed,
                shard,
                (TxnId { shard, number: 0 }, 0),
                PeerMessage::Ask,
            );
        }
        Ok(())
    }

    /// Undoes a transaction, so that its client asks anew.
    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_>, number: u64, txn: Txn) -> Result<(), Halt> {
        self.counters.votes_given_up += 1;
        self.undo(ctx, number, txn, Some(Refusal::Errno(Errno::EBUSY)))
    }

    /// The next time at which a transaction is given up or a shard probed.
    pub(super) fn votes_wake(&mut self) -> Option<u64> {
        let (wait, txns) = (self.config.votes_wait, &self.coordinator.txns);
        let deadline = |number| txns.get(&number).and_then(|txn| txn.deadline(wait));
        let deadline = self.coordinator.deadlines.next(txns.len(), deadline).map(|(at, _)| at);
        let probes =
            self.coordinator.silent.values().map(|asked| asked.saturating_add(PROBE_EVERY));
        deadline.into_iter().chain(probes).min()
    }
}
