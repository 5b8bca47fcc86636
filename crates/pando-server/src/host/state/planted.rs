//! Faults of the shell that tests plant, to see that they are found.

use std::time::Instant;

use pando_core::contract::Out;

use super::{Cell, Outbox, State};

/// A fault of the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Replies leave before the log is written.
    ReplyBeforeLogWrite,
}

impl State {
    pub(crate) const fn plant(&mut self, planted: Option<Planted>) {
        self.planted = planted;
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
}
