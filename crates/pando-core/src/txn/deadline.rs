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

use pando_types::peer::PeerMessage;
use pando_types::reply::Refusal;
use pando_types::{Errno, ShardIndex, TxnId};

use crate::contract::{Halt, Need};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;

impl Shard {
    /// Whether a transaction must not wait for this shard.
    pub(super) fn is_not_awaited(&self, txn: &Txn, shard: ShardIndex) -> bool {
        self.coordinator.silent.has(shard) && txn.may_be_given_up()
    }

    /// Undoes transactions with a missing vote, and probes silent shards.
    pub(super) fn give_up_votes(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let (now, wait, own) = (ctx.now.nanos, self.config.votes_wait, self.config.shard);
        for number in self.coordinator.take_late(now, wait) {
            let Some(txn) = self.coordinator.take_out(number) else { continue };
            if let Some(shard) = txn.awaited_shard().filter(|shard| *shard != own) {
                self.coordinator.silent.add(shard);
            }
            self.give_up(ctx, number, txn)?;
        }
        for shard in self.coordinator.silent.take_due(now) {
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
        self.undo_taken(ctx, number, txn, Some(Refusal::Errno(Errno::EBUSY)))
    }

    /// The next time at which a transaction is given up or a shard probed.
    pub(super) fn votes_wake(&mut self) -> Option<u64> {
        let deadline = self.coordinator.next_deadline(self.config.votes_wait);
        deadline.into_iter().chain(self.coordinator.silent.next_probe()).min()
    }
}
