//! The part of a shard that holds inputs for later.

use alloc::collections::{BTreeMap, VecDeque};

use crate::contract::Input;

/// Inputs that are handled later.
#[derive(Default)]
pub struct RunQueue {
    /// Inputs that have finished waiting: each `Input::Ready` takes one.
    ready: VecDeque<Input>,
    /// Inputs to handle again later, by time and ticket.
    later: BTreeMap<(u64, u64), Input>,
    /// Counter of tickets, which tell apart equal times and questions.
    ticket: u64,
}

impl RunQueue {
    /// Whether an input has finished waiting.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the input that has finished waiting first.
    pub(crate) fn next_ready(&mut self) -> Option<Input> {
        self.ready.pop_front()
    }

    /// Queues an input that need not wait, behind all others.
    pub(crate) fn push(&mut self, input: Input) {
        self.ready.push_back(input);
    }

    /// Queues inputs that have finished waiting.
    pub(crate) fn resume(&mut self, woken: impl IntoIterator<Item = Input>) {
        self.ready.extend(woken);
    }

    /// Puts an input off until `at`, nanoseconds.
    pub(crate) fn put_off(&mut self, at: u64, input: Input) {
        let ticket = self.take_ticket();
        self.later.insert((at, ticket), input);
    }

    /// Queues the inputs that were put off until `now`.
    pub(crate) fn resume_due(&mut self, now: u64) {
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 <= now
        {
            self.ready.push_back(entry.remove());
        }
    }

    /// When the next input is due that was put off, nanoseconds.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.later.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes a number that no other ticket of this shard's run has.
    pub(crate) fn take_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// Takes over from `old`, when the shard begins anew, the inputs for which `goes_on` is true.
    /// `woken` are inputs that waited for locks of the old state.
    pub(crate) fn keep(
        &mut self,
        old: Self,
        woken: impl Iterator<Item = Input>,
        goes_on: impl Fn(&Input) -> bool,
    ) {
        self.ticket = old.ticket;
        self.ready.extend(old.ready.into_iter().chain(woken).filter(&goes_on));
        self.later = old.later;
        self.later.retain(|_, input| goes_on(input));
    }
}
