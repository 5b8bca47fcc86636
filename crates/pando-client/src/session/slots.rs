//! Request slots of a session. They make changing requests run exactly once
//! (docs/design/sessions.md).
//!
//! ```text
//!   free ──acquire (sequence + 1)──► pending ────answered──► free
//!                                        └──given up──► doubtful ──answered after all──► free
//! ```
//!
//! While it is in doubt whether a request ran, its slot is not used ([`crate::session::doubts`]). A
//! copy of the request may still be on its way, and a shard that has not seen the slot's next
//! sequence would run it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// All slots of a session.
pub(crate) struct Slots {
    state: Mutex<State>,
}

struct State {
    /// Slots without a request that is pending or in doubt, with the last sequence each has used.
    free: Vec<Slot>,
    /// Ticket and waker of each request that waits for a slot, oldest first.
    waiting: VecDeque<(u64, Waker)>,
    /// Tickets given out so far.
    tickets: u64,
    /// The session is over.
    is_closed: bool,
}

/// A slot and the sequence of its newest request. It must be given back with [`Slots::free`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) struct Slot {
    /// Index of the slot.
    pub(crate) index: u16,
    /// Sequence of the request.
    pub(crate) sequence: u64,
}

impl Slot {
    /// The slot with the sequence of its next request.
    fn next(self) -> Self {
        match is_planted!(SequenceReused) && self.sequence > 0 {
            true => self,
            false => Self { sequence: self.sequence + 1, ..self },
        }
    }
}

/// The session is over: no slot is given out any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl Slots {
    pub(crate) fn new(count: u16) -> Self {
        let free = (0..count).rev().map(|index| Slot { index, sequence: 0 }).collect();
        Self {
            state: Mutex::new(State {
                free,
                waiting: VecDeque::new(),
                tickets: 0,
                is_closed: false,
            }),
        }
    }

    /// Waits for a free slot.
    pub(crate) fn acquire(&self) -> Acquire<'_> {
        Acquire { slots: self, ticket: None }
    }

    /// A free slot, if there is one now.
    pub(crate) fn acquire_now(&self) -> Option<Slot> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.free.pop().map(Slot::next)
    }

    /// Frees a slot. Its newest request has its final answer, or was never sent.
    pub(crate) fn free(&self, slot: Slot) {
        let woken = {
            let mut state = self.state.lock();
            state.free.push(slot);
            state.waiting.pop_front()
        };
        if let Some((_, waker)) = woken {
            waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Closes the session: no slot is given out any more.
    pub(crate) fn close(&self) {
        let woken = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// The future of [`Slots::acquire`].
pub(crate) struct Acquire<'a> {
    slots: &'a Slots,
    ticket: Option<u64>,
}

impl Future for Acquire<'_> {
    type Output = Result<Slot, Closed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slots = self.slots;
        let mut state = slots.state.lock();
        if state.is_closed {
            self.ticket = None;
            return Poll::Ready(Err(Closed));
        }
        if let Some(slot) = state.free.pop() {
            if let Some(ticket) = self.ticket.take() {
                state.waiting.retain(|(waiting, _)| *waiting != ticket);
            }
            return Poll::Ready(Ok(slot.next()));
        }
        let waker = context.waker().clone();
        let place = state.waiting.iter_mut().find(|(waiting, _)| Some(*waiting) == self.ticket);
        if let Some((_, old)) = place {
            *old = waker;
        } else {
            state.tickets += 1;
            let ticket = state.tickets;
            state.waiting.push_back((ticket, waker));
            self.ticket = Some(ticket);
        }
        Poll::Pending
    }
}

impl Drop for Acquire<'_> {
    /// A request that was woken, and does not take the slot, wakes the next one.
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.slots.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|(waiting, _)| *waiting != ticket);
        let was_woken = state.waiting.len() == before;
        let next =
            if was_woken && !state.free.is_empty() { state.waiting.pop_front() } else { None };
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
