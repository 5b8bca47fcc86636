//! Faults of the shell that tests plant, to see that the checks find them.

use std::time::Instant;

use pando_core::contract::{Need, Out};

use super::{Cell, Durability, Outbox, State};

/// A fault of the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Replies leave before the log is written.
    ReplyBeforeLogWrite,
    /// Messages to other shards leave when the log is written, though they need a sync.
    PeersBeforeSync,
    /// In mode `disk` replies leave when the log is written.
    ReplyBeforeSync,
    /// The shard's ticks are never planned.
    NoTicks,
    /// `GiveAway` is answered with `Given`, and `given-K` is not written.
    GivenUnwritten,
    /// A shard that has thawed, and has run since, may be given away.
    ThawedAndGiven,
    /// The target asks for the shard before its copy is durable.
    CopyUnsynced,
    /// The target drops the last groups, which a frozen source has sent.
    LastChangesLost,
}

impl State {
    pub(crate) const fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
    }

    /// Whether this fault is planted.
    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    pub(super) fn reply_early(&mut self, cell: &Cell, outbox: &mut Outbox) {
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
    pub(super) fn waits_for(&self, waits: (Durability, Need), out: &Out) -> (Durability, Need) {
        match (self.planted, out) {
            (Some(Planted::ReplyBeforeSync), Out::Reply(..)) => (Durability::Os, waits.1),
            (Some(Planted::PeersBeforeSync), Out::Peer(..)) => (Durability::Os, Need::Committed),
            _ => waits,
        }
    }
}
