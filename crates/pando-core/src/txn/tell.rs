//! Sending of peer messages, to other shards and to this one.
//!
//! Each message of a coordinator tells participants which of its transactions are over: its floor.
//! A participant remembers each step that it has finished until it hears that the transaction is
//! over. A transaction may wait for long, for a shard that is away or for a handover. The floor
//! names it as an exception, so that participants can forget the steps of later ones.

use alloc::boxed::Box;
use pando_types::peer::{
    Arrival, Behalf, Floor, HashSlotArrival, Peer, PeerMessage, Prepare, RowChange,
};
use pando_types::{ShardIndex, TxnId};

use crate::contract::{Input, Need, Out};
use crate::counters::TxnKind;
use crate::records::keys;
use crate::state::ctx::Ctx;
use crate::state::shard::Shard;
use crate::state::txn::transaction::Txn;

/// How safe the log must be before a coordinator's message leaves. A decision waits for a sync. So
/// does a page of a move that names objects, since the target may sync it at any time.
pub(super) fn need_of(message: &PeerMessage) -> Need {
    let names_object = |row: &RowChange| match row {
        RowChange::Put(key, _) => keys::is_slice(key),
        RowChange::Delete(_) | RowChange::DeleteRange(..) => false,
    };
    match message {
        PeerMessage::Finish(_)
        | PeerMessage::Page { synced: true, .. }
        | PeerMessage::HashSlotPage { synced: true, .. } => Need::Synced,
        PeerMessage::Page { rows, .. }
        | PeerMessage::HashSlotPage { rows, .. }
        | PeerMessage::Prepare(
            _,
            Prepare::Arrive(Arrival { rows, .. })
            | Prepare::TakeHashSlot(HashSlotArrival { rows, .. }),
        ) if rows.iter().any(names_object) => Need::Synced,
        _ => Need::Committed,
    }
}

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
                // What is counted is changed at the coordinator only. A directory's entry, of which
                // mode and owner change, may be elsewhere.
                let of_entry = own.filter(|txn| txn.kind() == Some(TxnKind::DirSetAttr));
                let under = match (&message, of_entry) {
                    (PeerMessage::Prepare(_, Prepare::Name { .. }), Some(txn)) => txn.entry(),
                    _ => behalf.under.filter(|_| to == from),
                };
                Behalf { heard: behalf.heard.min(self.sessions_heard()), under, ..behalf }
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

    /// The floor, as far as a message about this transaction may tell it.
    fn floor_beside(&self, number: u64) -> Floor {
        let pinned = self.coordinator.pinned();
        let from = pinned.last().map_or(0, |last| last + 1);
        let lowest = self.coordinator.first_from(from);
        #[cfg(feature = "planted")]
        let lowest = lowest.filter(|_| !self.is_planted(crate::Planted::FloorOverLiving));
        let mut below = lowest.unwrap_or(self.numbers.next_txn());
        // The transaction may be out of the table just now.
        if pinned.binary_search(&number).is_err() {
            below = below.min(number);
        }
        let but = pinned.iter().copied().take_while(|pinned| *pinned < below).collect();
        Floor { below, but }
    }
}
