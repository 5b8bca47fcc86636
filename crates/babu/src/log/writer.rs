//! The writer of the active log.
//!
//! ```text
//! │ written          │ pending (in memory) │ preallocated                 │ reserve │
//! 4096            end_offset                                                  allocated_end
//! ```
//!
//! Groups collect in memory and go to the disk in one write. Space is taken in chunks ahead of
//! need. So `reserve` notices a full disk before anything is applied.

use std::io;
use std::sync::Arc;

use crate::disk::traits::{Appender, Disk, DiskFile};
use crate::log::ballast::{Ballast, Made};
use crate::log::batch::Batch;
use crate::log::group::{self, Place};
use crate::log::header::{self, LOG_DATA_OFFSET, LogHeader};
use crate::log::sync::LogState;
use crate::log::{SealedLog, log_name};
use crate::types::codec::Seal;
use crate::types::error::{Fatal, Full, IoContext, IoFailure, ReserveError};
use crate::types::ids::Lsn;
use crate::types::options::Options;

/// Number of writes after a sync that bypass the [`Appender`]. A caller that syncs after every few
/// groups would pay for the pages that each sync leaves protected. A caller that syncs seldom does
/// not notice these few writes (docs/BENCHMARKS-HISTORY.md, "fsync").
const ORDINARY_WRITES: u32 = 16;

/// Which changes may use the last of the log space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Changes that take space.
    Normal,
    /// Changes that must go on when the disk is full: deletions, recovery.
    Reserve,
}

pub(crate) struct LogWriter {
    state: Arc<LogState>,
    file: Arc<dyn DiskFile>,
    appender: Option<Box<dyn Appender>>,
    /// The last durable group, as of the last write.
    durable: Lsn,
    /// Writes since `durable` last changed, counted up to [`ORDINARY_WRITES`].
    writes_since_sync: u32,
    number: u64,
    name: String,
    seal: Seal,
    base: Lsn,
    end_offset: u64,
    allocated_end: u64,
    pending: Vec<u8>,
    pending_last: Lsn,
    /// The highest LSN that groups of this log claim to be durable.
    claimed: Lsn,
    chunk_bytes: u64,
    reserve_bytes: u64,
    ballast: Arc<Ballast>,
    /// What the next checkpoint has to write besides this log.
    ahead: Ahead,
    /// Bytes of log that even deletions may not use: see [`Ballast::held_back`].
    held_back: u64,
    /// Deletions have used up half of the reserve, and the disk has no more.
    is_low: bool,
    /// Bytes of groups written to all logs since the database was opened.
    bytes_written: u64,
}

/// Amounts of data that the next checkpoint has to write at most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ahead {
    /// Bytes of logs that have ended.
    pub(crate) log_bytes: u64,
    /// Bytes of index files.
    pub(crate) index_bytes: u64,
}

/// Creates a log file and writes its header. Returns the file and the offset up to which it is
/// preallocated.
pub(crate) fn create_log(
    disk: &dyn Disk,
    header: &LogHeader,
    options: &Options,
) -> Result<Made, IoFailure> {
    let name = log_name(header.number);
    let file: Arc<dyn DiskFile> = Arc::from(disk.create(&name).during("create", &name)?);
    let chunk_bytes = options.log_chunk_bytes.max(1);
    let wanted = (LOG_DATA_OFFSET + options.reserve_bytes).next_multiple_of(chunk_bytes);
    file.allocate(wanted).during("allocate", &name)?;
    file.write_at(0, &header.encode()).during("write", &name)?;
    Ok((file, wanted))
}

impl LogWriter {
    /// A writer that continues after group `base` in a log made by [`create_log`].
    pub(crate) fn new(
        state: Arc<LogState>,
        ballast: Arc<Ballast>,
        (file, allocated_end): Made,
        number: u64,
        base: Lsn,
        options: &Options,
    ) -> LogWriter {
        LogWriter {
            seal: header::seal(state.database_id, number),
            appender: file.appender(),
            durable: state.durable(),
            writes_since_sync: ORDINARY_WRITES,
            state,
            file,
            number,
            name: log_name(number),
            base,
            end_offset: LOG_DATA_OFFSET,
            allocated_end,
            pending: Vec::new(),
            pending_last: base,
            claimed: Lsn(0),
            chunk_bytes: options.log_chunk_bytes.max(1),
            reserve_bytes: options.reserve_bytes,
            ballast,
            ahead: Ahead::default(),
            held_back: 0,
            is_low: false,
            bytes_written: 0,
        }
    }

    /// Bytes of groups written since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    pub(crate) fn state(&self) -> &Arc<LogState> {
        &self.state
    }

    pub(crate) fn ballast(&self) -> &Arc<Ballast> {
        &self.ballast
    }

    /// Bytes of groups in the active log, written or pending.
    pub(crate) fn group_bytes(&self) -> u64 {
        self.end_offset - LOG_DATA_OFFSET + self.pending.len() as u64
    }

    /// The active log up to its last written group.
    pub(crate) fn as_sealed(&self) -> SealedLog {
        SealedLog {
            number: self.number,
            epoch: self.state.epoch,
            base: self.base,
            last: self.state.written(),
            end_offset: self.end_offset,
        }
    }

    /// Adds a group to those that the next `write` writes.
    pub(crate) fn append(&mut self, lsn: Lsn, meta: &[u8], batch: &Batch) {
        let offset = self.end_offset + self.pending.len() as u64;
        let (seal, epoch, base) = (self.seal, self.state.epoch, self.base);
        let claim = match self.pending.is_empty() {
            true => Some(self.state.durable()).filter(|&durable| durable > self.claimed),
            false => None,
        };
        self.claimed = claim.unwrap_or(self.claimed);
        let place = Place { seal, epoch, base, offset };
        group::encode(&mut self.pending, place, lsn, claim, meta, batch);
        self.pending_last = lsn;
    }

    /// Hands all pending groups to the disk. Returns the last LSN written.
    pub(crate) fn write(&mut self) -> Result<Lsn, Fatal> {
        self.state.check()?;
        if !self.pending.is_empty() {
            self.write_pending()
                .during("write", &self.name)
                .map_err(|failure| self.state.fail(failure))?;
            self.end_offset += self.pending.len() as u64;
            self.bytes_written += self.pending.len() as u64;
            self.pending.clear();
            self.state.set_written(self.pending_last);
        }
        Ok(self.state.written())
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let end = self.end_offset + self.pending.len() as u64;
        if end > self.allocated_end {
            // The caller has not reserved enough. If there is no space, the write reports it.
            self.allocated_end = end.next_multiple_of(self.chunk_bytes);
            let _ = self.file.allocate(self.allocated_end);
            self.ballast.expect_log(self.ahead.log_bytes + (self.allocated_end - LOG_DATA_OFFSET));
        }
        let Some(appender) = &mut self.appender else {
            return self.file.write_at(self.end_offset, &self.pending);
        };
        let durable = self.state.durable();
        if durable != self.durable {
            self.durable = durable;
            self.writes_since_sync = 0;
            appender.synced();
        }
        if self.writes_since_sync < ORDINARY_WRITES {
            self.writes_since_sync += 1;
            return self.file.write_at(self.end_offset, &self.pending);
        }
        appender.append(self.end_offset, &self.pending)
    }

    /// Makes sure that `wanted_bytes` more of log fit.
    pub(crate) fn reserve(
        &mut self,
        wanted_bytes: u64,
        priority: Priority,
    ) -> Result<(), ReserveError> {
        self.state.check()?;
        let is_normal = priority == Priority::Normal;
        if !is_normal && self.held_back > 0 && self.ballast.is_whole() {
            // The end of a loan has filled the ballast since.
            self.held_back = self.ballast.held_back().min(self.held_back);
        }
        let kept_bytes = if is_normal { self.reserve_bytes } else { self.held_back };
        let used_end = self.end_offset + self.pending.len() as u64;
        let needed_end = used_end.saturating_add(wanted_bytes).saturating_add(kept_bytes);
        if needed_end <= self.allocated_end {
            // While a running checkpoint has the room of the ballast, space that the log already
            // has may be used.
            let is_short = is_normal && !self.ballast.is_whole() && !self.ballast.is_lent();
            if is_short && !self.try_fill(self.allocated_end)? {
                return Err(Full { wanted_bytes, spare_bytes: 0 }.into());
            }
            if !is_normal && !self.is_low && self.is_in_reserve(needed_end) {
                // This is set early: the caller then still has the rest of the reserve until its
                // checkpoint.
                self.is_low = !self.extend(needed_end + self.chunk_bytes)?;
            }
            return Ok(());
        }
        let has_room = match needed_end.checked_next_multiple_of(self.chunk_bytes) {
            None => false,
            Some(end) => (!is_normal || self.try_fill(end)?) && self.extend(end)?,
        };
        if !has_room {
            self.is_low |= !is_normal;
            // Nothing that needs this space has been applied, so the store is intact.
            let kept_end = used_end.saturating_add(kept_bytes);
            let spare_bytes = self.allocated_end.saturating_sub(kept_end);
            return Err(Full { wanted_bytes, spare_bytes }.into());
        }
        Ok(())
    }

    /// Takes log space up to `end`, rounded up to a chunk. The ballast may then be too small.
    /// Returns false if the disk has no room.
    fn extend(&mut self, end: u64) -> Result<bool, Fatal> {
        let end = end.next_multiple_of(self.chunk_bytes);
        match self.ballast.share().grow(|| self.file.allocate(end).during("allocate", &self.name)) {
            Some(Ok(())) => {
                self.allocated_end = end;
                self.is_low = false;
                self.ballast.expect_log(self.ahead.log_bytes + (end - LOG_DATA_OFFSET));
                Ok(true)
            }
            Some(Err(failure)) if !failure.is_full() => Err(self.state.fail(failure)),
            Some(Err(_)) | None => Ok(false),
        }
    }

    fn is_in_reserve(&self, needed_end: u64) -> bool {
        self.allocated_end - needed_end < self.reserve_bytes / 2
    }

    /// True if deletions have used up much of their reserve, and a checkpoint would make room.
    pub(crate) fn is_low(&self) -> bool {
        self.is_low
    }

    fn try_fill(&mut self, end: u64) -> Result<bool, Fatal> {
        self.fill_ballast(end).map_err(|failure| self.state.fail(failure))
    }

    /// Makes the ballast large enough for a log that is preallocated up to `end`. Returns false if
    /// there is no room for it.
    fn fill_ballast(&mut self, end: u64) -> Result<bool, IoFailure> {
        let log_bytes = self.ahead.log_bytes + (end - LOG_DATA_OFFSET);
        let filled = self.ballast.fill(log_bytes, self.ahead.index_bytes);
        let quarter = (self.allocated_end - LOG_DATA_OFFSET) / 4;
        self.held_back = self.ballast.held_back().min(quarter);
        filled
    }

    /// Notes that the next checkpoint has other amounts to write, and adapts the ballast.
    pub(crate) fn expect(&mut self, ahead: Ahead) -> Result<(), IoFailure> {
        self.ahead = ahead;
        self.fill_ballast(self.allocated_end).map(drop)
    }

    /// Writes pending groups, begins the next log, and returns the one that ends here. If there is
    /// no space for the next log, the active log stays. `may_cut`: what is given back to the disk
    /// reaches the ballast.
    pub(crate) fn rotate(
        &mut self,
        options: &Options,
        may_cut: bool,
    ) -> Result<SealedLog, ReserveError> {
        let last = self.write()?;
        let header = LogHeader {
            database_id: self.state.database_id,
            number: self.number + 1,
            epoch: self.state.epoch,
            base: last,
        };
        let made = match self.next_log(&header, options) {
            Ok(Some(made)) => made,
            Ok(None) => {
                return Err(Full { wanted_bytes: options.log_chunk_bytes, spare_bytes: 0 }.into());
            }
            Err(failure) => return Err(self.state.fail(failure).into()),
        };
        let sealed = self.as_sealed();
        self.state.begin_log(header.number, made.0.clone());
        let (state, ballast) = (self.state.clone(), self.ballast.clone());
        let next = LogWriter::new(state, ballast, made, header.number, last, options);
        // Keeps the memory of the buffer, which is empty.
        let pending = std::mem::take(&mut self.pending);
        let bytes_written = self.bytes_written;
        let writes_since_sync = self.writes_since_sync;
        let next = LogWriter { pending, bytes_written, writes_since_sync, ..next };
        let ended = std::mem::replace(self, next);
        if may_cut && !self.ballast.is_whole() {
            // The unused end of the log gives room to the ballast. Nothing may append to this file
            // any more, so the appender is dropped first.
            let LogWriter { file, name, appender, .. } = ended;
            drop(appender);
            let cut = file.set_len(sealed.end_offset).during("cut", &name);
            cut.map_err(|failure| self.state.fail(failure))?;
        }
        Ok(sealed)
    }

    /// Makes the file of the next log. `None`: there is no room for one.
    fn next_log(&self, header: &LogHeader, options: &Options) -> Result<Option<Made>, IoFailure> {
        let disk = &*self.state.disk;
        match self.ballast.share().grow(|| create_log(disk, header, options)) {
            Some(Err(failure)) if failure.is_full() => {}
            Some(made) => return made.map(Some),
            None => {}
        }
        let made = self.ballast.take_log(header)?;
        if made.is_none() {
            // If the file stays, it is an empty log without a header, which the next attempt
            // replaces.
            let _ = disk.remove(&log_name(header.number));
        }
        Ok(made)
    }
}
