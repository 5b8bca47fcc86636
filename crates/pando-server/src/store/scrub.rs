//! The scrub of a store, in the words of the host.

use babu::{ScrubDone, ScrubJob, ScrubNote, ScrubStats};
use serde::{Deserialize, Serialize};

use crate::store::records::Store;

/// How far the scrub of a store is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Scrubbing {
    /// When the last whole pass ended, seconds since 1970. 0: none has.
    pub ended: u64,
    /// Bytes of index files that the present pass has read.
    pub read_bytes: u64,
    /// Bytes that the present pass has still to read.
    pub left_bytes: u64,
    /// Damaged places that the scrub knows of.
    pub damaged: u64,
}

/// What a step of the scrub has come to.
pub(crate) struct Step {
    pub(crate) bytes: u64,
    /// Damage that nobody has been told of.
    pub(crate) found: u64,
    pub(crate) has_ended: bool,
    /// To be written outside of the shard's lock.
    pub(crate) note: Option<ScrubNote>,
}

impl Store {
    /// The stretch that is to be read now. `None`: none is due.
    pub(crate) fn begin_scrub(&mut self, now: u64, period: u64) -> Option<ScrubJob> {
        let bytes = self.pace.due(now, period, || self.db.scrub_bytes())?;
        self.db.scrub_job(bytes)
    }

    /// Notes what was read. `wall`: seconds since 1970.
    pub(crate) fn install_scrub(&mut self, done: ScrubDone, now: u64, wall: u64) -> Step {
        let scrubbed = self.db.install_scrub(done);
        self.pace.spend(scrubbed.bytes);
        let found = scrubbed.found.len() as u64;
        scrubbed.found.iter().for_each(|damage| self.keep_in_mind(damage.to_string()));
        let has_ended = scrubbed.has_ended;
        let mark = if has_ended { wall } else { self.db.scrub_mark() };
        let is_due = self.pace.wants_note(now) || has_ended;
        let note = is_due.then(|| self.db.scrub_note(mark));
        Step { bytes: scrubbed.bytes, found, has_ended, note }
    }

    /// How far the scrub is.
    pub fn scrubbing(&self) -> Scrubbing {
        let ScrubStats { read_bytes, left_bytes, damaged, .. } = self.db.scrub_stats();
        Scrubbing { ended: self.db.scrub_mark(), read_bytes, left_bytes, damaged }
    }
}
