//! The thread that scrubs the stores of all shards: it reads their index files, slowly.
//!
//! The thread has the lowest priority. While writers of a shard are slowed or stopped, that shard
//! is not scrubbed. The shard is held only to begin a step and to note it, not while the disk is
//! read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use babu::{Pressure, ScrubJob};

use crate::host::shared::Shared;
use crate::shard::cell::Cell;
use crate::store::pace::TICK;

/// The lowest priority of a thread. The kernel derives that of its reads from it.
const NICE: i32 = 19;

impl Shared {
    /// Body of the thread.
    pub(crate) fn scrub_loop(&self) {
        // Without the lower priority the pace is still slow.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
        while !self.is_stopped() {
            self.scrub.wait(Duration::from_nanos(TICK));
            self.scrub_round(self.scrub_nanos);
        }
    }

    /// Reads of each shard what is due now, if everything is to be read within `period`,
    /// nanoseconds.
    pub(crate) fn scrub_round(&self, period: u64) {
        for cell in self.hosted() {
            if !self.is_stopped()
                && let Some(job) = self.begin_scrub(&cell, period)
            {
                self.finish_scrub(&cell, job);
            }
        }
    }

    fn begin_scrub(&self, cell: &Arc<Cell>, period: u64) -> Option<ScrubJob> {
        let now = self.timer.clock.mono();
        self.with(cell, |state| {
            let is_idle = state.pressed().pressure == Pressure::None
                && !state.leaving.is_frozen()
                && !cell.has_failed();
            if is_idle { state.store.begin_scrub(now, period) } else { None }
        })
    }

    fn finish_scrub(&self, cell: &Arc<Cell>, job: ScrubJob) {
        let done = job.run();
        let (now, wall) = (self.timer.clock.mono(), self.timer.clock.wall() / 1_000_000_000);
        let step = self.with(cell, |state| {
            // The next batch tells what was found.
            cell.attention.store(true, Ordering::SeqCst);
            state.store.install_scrub(done, now, wall)
        });
        cell.counters.scrub_bytes.add(step.bytes);
        cell.counters.scrub_damaged.add(step.found);
        cell.counters.scrub_passes.add(step.has_ended.into());
        if let Some(Err(error)) = step.note.map(babu::ScrubNote::write) {
            cell.complain(&format!("the scrub begins anew at the next start: {error}"));
        }
    }
}
