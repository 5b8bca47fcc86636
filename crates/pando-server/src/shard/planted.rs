//! What the planted faults of a batch do.

use std::time::Instant;

use pando_core::contract::{Need, Out};

use crate::calls::outbox::Outbox;
use crate::common::options::Durability;
use crate::common::planted::Planted;
use crate::shard::cell::Cell;
use crate::shard::state::State;

impl State {
    pub(crate) const fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
    }

    /// Whether this fault is planted.
    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    pub(crate) fn reply_early(&mut self, cell: &Cell, outbox: &mut Outbox) {
        if self.planted != Some(Planted::ReplyBeforeLogWrite) || cell.has_failed() {
            return;
        }
        let durable = self.store.durable();
        for out in self.held.take(|out| matches!(out, Out::Reply(..))) {
            self.route(out, durable, Instant::now(), cell, outbox);
        }
        for (to, reply) in outbox.replies.drain(..) {
            to.answer(reply, &mut outbox.sinks);
        }
        outbox.sinks.drain(..).for_each(|sink| sink.flush());
    }

    /// The mode and the need that decide what a message waits for.
    pub(crate) fn waits_for(&self, waits: (Durability, Need), out: &Out) -> (Durability, Need) {
        match (self.planted, out) {
            (Some(Planted::ReplyBeforeSync), Out::Reply(..)) => (Durability::Os, waits.1),
            (Some(Planted::PeersBeforeSync), Out::Peer(..)) => (Durability::Os, Need::Committed),
            _ => waits,
        }
    }
}
