//! Votes that do not come. Until its decision the coordinator, and nobody else, may undo a
//! transaction: it tells every step so, a vote that comes later is told the same, and the client
//! hears `EBUSY`, upon which it asks anew. So a shard that is away holds no lock of others for
//! longer than [`Config::votes_wait`](crate::Config), three times as long if other votes come, and
//! `ETIMEDOUT` of a coordinator that lives means that nothing was done.
//!
//! A client asks anew at once. So that its next transaction does not hold the same locks for as
//! long again, a shard whose vote did not come is taken for *silent* until something comes from it:
//! no transaction waits for its vote. It is asked each second for a transaction that is none, which
//! each shard answers.

use alloc::vec::Vec;
use pando_types::peer::Say;
use pando_types::reply::Refusal;
use pando_types::{Errno, ShardIndex, TxnId};

use super::{StepState, Txn};
use crate::contract::{Halt, Need};
use crate::counters::TxnKind;
use crate::ctx::Ctx;
use crate::shard::Shard;

/// How often a silent shard is asked, nanoseconds.
const PROBE_EVERY: u64 = 1_000_000_000;
/// How many times `votes_wait` a transaction may take in all, if one vote after the other comes.
const WAITS_MAX: u64 = 3;

impl Txn {
    /// Whether it can be undone because of a vote that does not come: its client asks anew.
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

    /// Whose vote is awaited.
    fn awaited(&self) -> Option<ShardIndex> {
        self.sent.as_ref()?;
        let last = self.steps.last()?;
        (last.state == StepState::Asked).then_some(last.to)
    }

    /// When it is given up, if nothing comes.
    pub(super) fn deadline(&self, votes_wait: u64) -> Option<u64> {
        if !self.may_be_given_up() || self.awaited().is_none() {
            return None;
        }
        let in_all = self.begun_at.saturating_add(votes_wait.saturating_mul(WAITS_MAX));
        Some(self.asked_at.saturating_add(votes_wait).min(in_all))
    }
}

impl Shard {
    /// Something came from another shard.
    pub(crate) fn has_spoken(&mut self, shard: ShardIndex) {
        if !self.silent.is_empty() {
            self.silent.remove(&shard);
        }
    }

    /// Whether a transaction is not to wait for this shard.
    pub(super) fn is_not_awaited(&self, txn: &Txn, shard: ShardIndex) -> bool {
        self.silent.contains_key(&shard) && txn.may_be_given_up()
    }

    /// Undoes transactions whose votes did not come, and asks shards that are silent.
    pub(super) fn give_up_votes(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let (now, wait, own) = (ctx.now.nanos, self.config.votes_wait, self.config.shard);
        let is_due = |txn: &Txn| txn.deadline(wait).is_some_and(|at| at <= now);
        let due: Vec<u64> =
            self.txns.iter().filter(|(_, txn)| is_due(txn)).map(|(number, _)| *number).collect();
        for number in due {
            let Some(txn) = self.txns.remove(&number) else { continue };
            if let Some(shard) = txn.awaited().filter(|shard| *shard != own) {
                self.silent.entry(shard).or_insert(0);
            }
            self.give_up(ctx, number, txn)?;
        }
        let probed: Vec<ShardIndex> = (self.silent.iter_mut())
            .filter(|(_, asked)| asked.saturating_add(PROBE_EVERY) <= now)
            .map(|(shard, asked)| {
                *asked = now;
                *shard
            })
            .collect();
        for shard in probed {
            // No transaction has this number.
            self.tell(ctx, Need::Committed, shard, (TxnId { shard, number: 0 }, 0), Say::Ask);
        }
        Ok(())
    }

    /// Undoes a transaction that is to be asked for anew.
    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_>, number: u64, txn: Txn) -> Result<(), Halt> {
        self.counters.votes_given_up += 1;
        self.undo(ctx, number, txn, Some(Refusal::Errno(Errno::EBUSY)))
    }

    /// When there is something to give up, or to ask.
    pub(super) fn votes_wake(&self) -> Option<u64> {
        let wait = self.config.votes_wait;
        let deadlines = self.txns.values().filter_map(|txn| txn.deadline(wait));
        let probes = self.silent.values().map(|asked| asked.saturating_add(PROBE_EVERY));
        deadlines.chain(probes).min()
    }
}
