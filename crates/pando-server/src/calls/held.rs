//! What may leave a shard, and when. All messages and replies pass this place that tell changes not
//! yet written. Answers that tell none leave at once (`shard/write.rs`).
//!
//! | need | mode `os` | mode `disk` |
//! |---|---|---|
//! | committed | written | fsynced; the syncer is woken |
//! | synced | fsynced; the syncer is woken | fsynced; the syncer is woken |
//! | durable | fsynced, whenever that comes | fsynced, whenever that comes |
//!
//! Invariant: log positions in the queue ascend, since each message is queued with the position
//! applied last. The reasons are in docs/design/durability.md.

use std::collections::VecDeque;

use pando_core::contract::{Need, Out};
use pando_types::Lsn;

use crate::common::options::Durability;

/// Messages of one shard, in order.
#[derive(Default)]
pub(crate) struct Held {
    waiting: VecDeque<(Lsn, Out)>,
    written: Vec<Out>,
}

impl Held {
    /// Takes a message that has seen `lsn`. Answers whether the syncer must be woken for it.
    pub(crate) fn push(
        &mut self,
        durability: Durability,
        need: Need,
        lsn: Lsn,
        durable: Lsn,
        out: Out,
    ) -> bool {
        let now = match (need, durability) {
            (Need::Committed, Durability::Os) => true,
            _ => lsn <= durable,
        };
        if now {
            self.written.push(out);
            return false;
        }
        self.waiting.push_back((lsn, out));
        need != Need::Durable
    }

    /// Moves the messages that may leave to `leave`. The caller has written the log before.
    pub(crate) fn release(&mut self, durable: Lsn, leave: &mut Vec<Out>) {
        while self.waiting.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            leave.extend(self.waiting.pop_front().map(|(_, out)| out));
        }
        leave.append(&mut self.written);
    }

    /// The shard has failed: takes out all messages.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Out> {
        let written = std::mem::take(&mut self.written);
        self.waiting.drain(..).map(|(_, out)| out).chain(written)
    }

    /// Takes out the messages for which `which` holds, whatever they wait for.
    #[cfg(feature = "planted")]
    pub(crate) fn take(&mut self, which: impl Fn(&Out) -> bool) -> Vec<Out> {
        let (taken, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(_, out)| which(out));
        self.waiting = waiting;
        taken
            .into_iter()
            .map(|(_, out)| out)
            .chain(self.written.extract_if(.., |out| which(out)))
            .collect()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
