//! Opening on a full disk: finding room for the first log and the manifest.
//!
//! 1. Nothing that a repeated opening needs is given up. So the opening may stop between any two
//!    steps, with the disk still full.
//! 2. From the first step that gives room up, other databases of this process wait: see
//!    [`crate::disk::room`]. They go on once the opening has filled its ballast.
//! 3. Files that nothing needs are removed first: an earlier opening or checkpoint had no time for
//!    that. Then kept room is used: `SPARE-LOG`, or the unused log of an incomplete opening. Then
//!    preallocated log that was never written to is cut. Last comes `BALLAST`.

use std::collections::BTreeSet;

use crate::db::open::listing::Listing;
use crate::db::open::listing::clean_up;
use crate::disk::room::{Held, Share};
use crate::disk::traits::Disk;
use crate::levels::manifest::Manifest;
use crate::log::ballast::{Made, SPARE_LOG, become_log, give_back, spare_bytes};
use crate::log::header::{LOG_DATA_OFFSET, LogHeader};
use crate::log::log_name;
use crate::log::recover::Tail;
use crate::log::writer::create_log;
use crate::types::error::{IoContext, IoFailure};
use crate::types::options::Options;

/// Space is given up in pieces of this size, in bytes.
const PAGE: u64 = 4096;

/// An opening that looks for room, and the files that may have more than they need.
pub(crate) struct Cramped<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) options: &'a Options,
    /// The manifest before the opening.
    pub(crate) manifest: &'a Manifest,
    pub(crate) listing: &'a mut Listing,
    pub(crate) tail: &'a Tail,
    /// Numbers of index files that only the log names.
    pub(crate) ingested: &'a BTreeSet<u64>,
    pub(crate) share: &'a Share,
    /// The exchange of room that the opening has begun.
    pub(crate) held: Option<Held>,
}

impl Cramped<'_> {
    /// Makes the first log of the new epoch. If there is no other way, the log is smaller than
    /// usual, and ends soon.
    pub(crate) fn first_log(&mut self, header: &LogHeader) -> Result<Made, IoFailure> {
        let create = |options: &Options| unless_full(create_log(self.disk, header, options));
        if let Some(made) = self.share.grow(|| create(self.options)).transpose()?.flatten() {
            return Ok(made);
        }
        // The failed attempt may have taken a part of what another database exchanges.
        let _ = self.disk.remove(&log_name(header.number));
        self.hold();
        self.remove_unneeded()?;
        if self.held.is_some()
            && let Some(made) = create(self.options)?
        {
            return Ok(made);
        }
        if let Some(made) = self.kept_log(header)? {
            return Ok(made);
        }
        self.cut_tail()?;
        give_back(self.disk, spare_bytes(self.options))?;
        let mut small = Options { log_chunk_bytes: PAGE, ..self.options.clone() };
        loop {
            match create_log(self.disk, header, &small) {
                Err(failure) if failure.is_full() && small.reserve_bytes > 0 => {
                    small.reserve_bytes = small.reserve_bytes / 2 / PAGE * PAGE;
                }
                Err(failure) => {
                    // The file is empty, and no later attempt needs it.
                    let _ = self.disk.remove(&log_name(header.number));
                    return Err(failure);
                }
                made => return made,
            }
        }
    }

    /// Writes the manifest of the new epoch durably.
    pub(crate) fn write(&mut self, manifest: &Manifest, log: &mut Made) -> Result<(), IoFailure> {
        let room = (manifest.encoded_len() + PAGE).next_multiple_of(PAGE);
        for attempt in 0.. {
            match manifest.write(self.disk) {
                Err(failure) if failure.is_full() => match attempt {
                    0 => {
                        self.hold();
                        self.remove_unneeded()?;
                    }
                    1 => self.cut_tail()?,
                    2 => give_back(self.disk, room)?,
                    _ if log.1 <= LOG_DATA_OFFSET => return Err(failure),
                    _ => {
                        log.1 = log.1.saturating_sub(room).max(LOG_DATA_OFFSET);
                        let name = log_name(manifest.first_log);
                        log.0.set_len(log.1).during("cut", &name)?;
                    }
                },
                result => return result,
            }
        }
        Ok(())
    }

    /// Keeps other databases from taking what this opening gives up. If one has lent its room, the
    /// opening takes its chance.
    fn hold(&mut self) {
        if self.held.is_none() {
            self.held = self.share.exchange();
        }
    }

    /// Removes files that the old manifest does not name, and cuts logs to the end that it records.
    fn remove_unneeded(&mut self) -> Result<(), IoFailure> {
        // A loss of power must not bring back a manifest that names these files.
        self.disk.sync_dir().during("sync", ".")?;
        let named: BTreeSet<u64> = self.manifest.files().map(|facts| facts.number).collect();
        let is_named = |number| named.contains(&number) || self.ingested.contains(&number);
        let first = self.manifest.first_log;
        clean_up(self.disk, self.listing, self.manifest, |number| number >= first, is_named)
    }

    /// Makes the log of `SPARE-LOG`, or of an unused log that an incomplete opening has left.
    fn kept_log(&mut self, header: &LogHeader) -> Result<Option<Made>, IoFailure> {
        if let Some(made) = become_log(self.disk, SPARE_LOG, header)? {
            return Ok(Some(made));
        }
        for &number in &self.tail.unused {
            if let Some(made) = become_log(self.disk, &log_name(number), header)? {
                self.listing.logs.retain(|&other| other != number);
                return Ok(Some(made));
            }
        }
        Ok(None)
    }

    /// Cuts logs to the end of what was written to them.
    fn cut_tail(&self) -> Result<(), IoFailure> {
        let is_there = |number| self.listing.logs.contains(number);
        for &(number, end) in self.tail.ends.iter().filter(|(number, _)| is_there(number)) {
            let name = log_name(number);
            let end = end.next_multiple_of(PAGE);
            let file = self.disk.open(&name).during("open", &name)?;
            if file.len().during("read", &name)? > end {
                file.set_len(end).during("cut", &name)?;
            }
        }
        Ok(())
    }
}

/// Turns the error of a full disk into `None`.
fn unless_full<T>(result: Result<T, IoFailure>) -> Result<Option<T>, IoFailure> {
    match result {
        Err(failure) if failure.is_full() => Ok(None),
        result => result.map(Some),
    }
}
