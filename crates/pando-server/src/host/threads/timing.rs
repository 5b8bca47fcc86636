//! The events of the timer, as they come due.

use std::sync::atomic::Ordering;

use crate::host::shared::Shared;
use crate::shard::timer::Event;

impl Shared {
    /// Body of the timer's thread.
    pub(crate) fn serve_timer(&self) {
        self.timer.serve(|at, event| fire(self, at, event));
    }

    /// Runs the timer's events that are due, without a thread.
    #[cfg(feature = "driven")]
    pub(crate) fn fire_due(&self) {
        self.timer.fire_due(|at, event| fire(self, at, event));
    }
}

fn fire(shared: &Shared, at: u64, event: Event) {
    match event {
        Event::Wake(waker) => waker.wake(),
        Event::Run(shard) => shared.run(shard),
        Event::Attend(shard) => {
            let Some(cell) = shared.cell(shard) else { return };
            cell.attention.store(true, Ordering::SeqCst);
            shared.run(shard);
        }
        Event::Thaw(shard, token) => shared.thaw(shard, token, "its move did not end in time"),
        Event::Tick(shard) => {
            let Some(cell) = shared.cell(shard) else { return };
            let planned = &cell.wake_at;
            // If the exchange fails, an earlier tick has taken this one's place.
            if planned.compare_exchange(at, u64::MAX, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                cell.set_tick();
                shared.run(shard);
            }
        }
    }
}
