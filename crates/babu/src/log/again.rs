//! Writing the end of the log again before it is believed.
//!
//! After a failed fsync the system takes pages for written that are not on disk, and a later fsync
//! of them succeeds. A process that opens the log after one that ended so reads them from memory,
//! and nothing tells it. So what no earlier sync is known to have covered is written once more,
//! over itself, and synced: that fsync vouches for this write. It needs no space. What a clean end
//! leaves is covered as a whole.
//!
//! Pages that the system had dropped in between were read from disk: they end the log as a torn
//! write does.

use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::{IoContext, ReadError};
use crate::log::SealedLog;
use crate::log::header::{LOG_DATA_OFFSET, LOG_HEADER_BYTES};
use crate::log::log_name;
use crate::log::reader::LogReader;
use crate::log::recover::Tail;
use crate::lsn::Lsn;

/// Bytes that are copied at once.
const STEP: u64 = 1 << 20;

impl Tail {
    /// Makes these logs durable, whatever became of earlier syncs.
    pub(crate) fn make_durable(&self, disk: &dyn Disk, database_id: u64) -> Result<(), ReadError> {
        for log in &self.logs {
            let name = log_name(log.number);
            let file: Arc<dyn DiskFile> = Arc::from(disk.open(&name).during("open", &name)?);
            if log.number > self.claim.log {
                write_again(&*file, &name, 0, LOG_HEADER_BYTES as u64)?;
            }
            if log.last > self.claim.lsn {
                let from = end_of(disk, database_id, log, self.claim.lsn)?;
                write_again(&*file, &name, from, log.end_offset)?;
            }
            file.sync().during("sync", &name)?;
        }
        Ok(())
    }
}

/// Where group `lsn` of a log ends; where the first one begins, if it is in an earlier log.
fn end_of(disk: &dyn Disk, database_id: u64, log: &SealedLog, lsn: Lsn) -> Result<u64, ReadError> {
    let (mut at, mut reached) = (LOG_DATA_OFFSET, log.base);
    let mut reader = LogReader::open(disk, database_id, log.number)?;
    while reached < lsn {
        match reader.group_at(at)? {
            Ok((group, end)) => (reached, at) = (group.lsn, end),
            Err(fault) => return Err(reader.refuse(fault, at, reached.next(), "")),
        }
    }
    Ok(at)
}

fn write_again(file: &dyn DiskFile, name: &str, from: u64, to: u64) -> Result<(), ReadError> {
    let mut buffer = Vec::new();
    let mut at = from;
    while at < to {
        buffer.resize(STEP.min(to - at) as usize, 0);
        file.read_at(at, &mut buffer).during("read", name)?;
        file.write_at(at, &buffer).during("write", name)?;
        at += buffer.len() as u64;
    }
    Ok(())
}
