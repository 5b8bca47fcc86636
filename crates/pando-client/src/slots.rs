//! Slots of a session: what makes changing requests run exactly once (DESIGN §6).
//!
//! ```text
//!   free ──acquire (sequence + 1)──► under way ──answered──► free
//!                                        └──dropped unanswered──► abandoned, for ever
//! ```
//!
//! A slot whose request was given up is never used again: the request may still be on its way, and a shard that has not
//! seen the slot's next sequence would run it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// All slots of one session.
pub(crate) struct Slots {
    state: Mutex<State>,
}

struct State {
    /// Slots without a request under way, with the last sequence each has used.
    free: Vec<(u16, u64)>,
    /// Who waits for one, oldest first.
    waiting: VecDeque<(u64, Waker)>,
    /// Tickets given to those who wait.
    tickets: u64,
    /// Slots that are not abandoned.
    usable: usize,
}

/// A slot with one request under way. Dropping it without [`Slot::answered`] abandons the slot.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    /// Which slot.
    pub(crate) index: u16,
    /// The request's sequence.
    pub(crate) sequence: u64,
    answered: bool,
}

/// All slots are abandoned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Slots {
    pub(crate) fn new(count: u16) -> Self {
        let free = (0..count).rev().map(|index| (index, 0)).collect();
        Self {
            state: Mutex::new(State {
                free,
                waiting: VecDeque::new(),
                tickets: 0,
                usable: usize::from(count),
            }),
        }
    }

    /// Waits for a free slot.
    pub(crate) fn acquire(&self) -> Acquire<'_> {
        Acquire { slots: self, ticket: None }
    }
}

impl Slot<'_> {
    /// The request has its final answer: the slot is free.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let woken: Option<Waker>;
        let all: VecDeque<(u64, Waker)>;
        {
            let mut state = self.slots.state.lock();
            if self.answered {
                state.free.push((self.index, self.sequence));
                woken = state.waiting.pop_front().map(|(_, waker)| waker);
                all = VecDeque::new();
            } else {
                state.usable -= 1;
                woken = None;
                all = if state.usable == 0 {
                    std::mem::take(&mut state.waiting)
                } else {
                    VecDeque::new()
                };
            }
        }
        woken.into_iter().chain(all.into_iter().map(|(_, waker)| waker)).for_each(Waker::wake);
    }
}

/// Future of [`Slots::acquire`].
pub(crate) struct Acquire<'a> {
    slots: &'a Slots,
    ticket: Option<u64>,
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Slot<'a>, Exhausted>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slots = self.slots;
        let mut state = slots.state.lock();
        if let Some((index, last)) = state.free.pop() {
            if let Some(ticket) = self.ticket.take() {
                state.waiting.retain(|(waiting, _)| *waiting != ticket);
            }
            return Poll::Ready(Ok(Slot { slots, index, sequence: last + 1, answered: false }));
        }
        if state.usable == 0 {
            self.ticket = None;
            return Poll::Ready(Err(Exhausted));
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
    /// Whoever was woken and does not take the slot passes the wake-up on.
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
#[path = "slots_tests.rs"]
mod tests;
