//! Sending of peer messages, to other shards and to this one.

use alloc::boxed::Box;
use pando_types::peer::{Behalf, Floor, Peer, PeerMessage};
use pando_types::{ShardIndex, TxnId};

use crate::contract::{Input, Need, Out};
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;

impl Shard {
    /// Sends a message to another shard, or queues it if it is for this one.
    pub(crate) fn tell(
        &mut self,
        ctx: &mut Ctx<'_>,
        need: Need,
        to: ShardIndex,
        (txn, step): (TxnId, u16),
        message: PeerMessage,
    ) {
        let coordinates = txn.shard == self.config.shard;
        let floor = if coordinates { self.floor_beside(txn.number) } else { Floor::default() };
        let from = self.config.shard;
        let (trace, clock) = (self.trace_of(ctx, txn), ctx.now.wall);
        let own = self.coordinator.get(txn.number).filter(|_| coordinates);
        let behalf = match &message {
            // Only a lying client claims to have heard more than its coordinator.
            PeerMessage::Prepare(..) => {
                let behalf = own.map(Txn::behalf).unwrap_or_default();
                Behalf { heard: behalf.heard.min(self.sessions_heard()), ..behalf }
            }
            _ => Behalf::default(),
        };
        let peer = Box::new(Peer { from, trace, clock, behalf, txn, step, floor, message });
        if to == from {
            self.queue.push(Input::Peer(peer));
        } else {
            ctx.send(need, Out::Peer(to, peer));
        }
    }

    /// The trace of a message about a transaction: that of the request for which it began, if this
    /// shard knows it.
    fn trace_of(&self, ctx: &Ctx<'_>, txn: TxnId) -> u64 {
        let own = self.coordinator.get(txn.number).filter(|_| txn.shard == self.config.shard);
        own.and_then(Txn::trace).unwrap_or(ctx.trace)
    }
}
