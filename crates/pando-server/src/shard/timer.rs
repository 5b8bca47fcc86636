//! Everything that waits for a time: ticks of shards, back-off of clients, thawing. One thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use pando_types::ShardIndex;
use pando_wire::MoveToken;
use parking_lot::{Condvar, Mutex};

use crate::common::clock::Clock;
use crate::shard::cell::Cell;

pub(crate) struct Timer {
    pub(crate) clock: Clock,
    inner: Mutex<Inner>,
    condition: Condvar,
}

#[derive(Default)]
struct Inner {
    due: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next: u64,
    stopped: bool,
}

/// What happens at a time.
pub(crate) enum Event {
    Tick(ShardIndex),
    Run(ShardIndex),
    /// The shard has something to do, though no input came.
    Attend(ShardIndex),
    Wake(Waker),
    Thaw(ShardIndex, MoveToken),
}

impl Timer {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, inner: Mutex::default(), condition: Condvar::default() }
    }

    /// Plans a tick for the shard, unless an earlier one is planned.
    pub(crate) fn tick_at(&self, cell: &Cell, at_nanos: u64) {
        if cell.wake_at.fetch_min(at_nanos, Ordering::AcqRel) > at_nanos {
            self.add(at_nanos, Event::Tick(cell.shard));
        }
    }

    /// Makes the timer's thread run the shard.
    pub(crate) fn hand_over(&self, shard: ShardIndex) {
        self.add(0, Event::Run(shard));
    }

    /// Makes the timer's thread run the shard at that time, though no input comes.
    pub(crate) fn attend_at(&self, at_nanos: u64, shard: ShardIndex) {
        self.add(at_nanos, Event::Attend(shard));
    }

    pub(crate) fn wake_at(&self, at_nanos: u64, waker: Waker) {
        self.add(at_nanos, Event::Wake(waker));
    }

    /// Thaws the shard at that time, unless it was given away by then.
    pub(crate) fn thaw_at(&self, at_nanos: u64, shard: ShardIndex, token: MoveToken) {
        self.add(at_nanos, Event::Thaw(shard, token));
    }

    pub(crate) fn stop(&self) {
        self.inner.lock().stopped = true;
        self.condition.notify_one();
    }

    /// When the next event is due, in nanoseconds. `None`: there is no event.
    #[cfg(feature = "driven")]
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.inner.lock().due.peek().map(|Reverse((at, _))| *at)
    }

    /// Calls `fire` with the events that are due and their times, without a thread. An event that
    /// is added meanwhile waits for the next call.
    #[cfg(feature = "driven")]
    pub(crate) fn fire_due(&self, fire: impl Fn(u64, Event)) {
        let now = self.clock.mono();
        let mut inner = self.inner.lock();
        let last = inner.next;
        let mut later = Vec::new();
        while let Some(&Reverse((at, id))) = inner.due.peek()
            && at <= now
        {
            inner.due.pop();
            if id >= last {
                later.push(Reverse((at, id)));
                continue;
            }
            let Some(event) = inner.events.remove(&id) else { continue };
            drop(inner);
            fire(at, event);
            inner = self.inner.lock();
        }
        inner.due.extend(later);
    }

    fn add(&self, at_nanos: u64, event: Event) {
        let mut inner = self.inner.lock();
        let is_earliest = inner.due.peek().is_none_or(|Reverse((first, _))| at_nanos < *first);
        let id = inner.next;
        inner.next += 1;
        inner.due.push(Reverse((at_nanos, id)));
        inner.events.insert(id, event);
        if is_earliest {
            self.condition.notify_one();
        }
    }

    /// Body of the timer's thread: calls `fire` with each event and its time. Ends after
    /// [`Timer::stop`].
    pub(crate) fn serve(&self, fire: impl Fn(u64, Event)) {
        let mut inner = self.inner.lock();
        while !inner.stopped {
            let now = self.clock.mono();
            match inner.due.peek() {
                None => self.condition.wait(&mut inner),
                Some(&Reverse((at, _))) if at > now => {
                    self.condition.wait_for(&mut inner, Duration::from_nanos(at - now));
                }
                Some(&Reverse((at, id))) => {
                    inner.due.pop();
                    let Some(event) = inner.events.remove(&id) else { continue };
                    drop(inner);
                    fire(at, event);
                    inner = self.inner.lock();
                }
            }
        }
        for (_, event) in std::mem::take(&mut inner.events) {
            if let Event::Wake(waker) = event {
                waker.wake();
            }
        }
    }
}
