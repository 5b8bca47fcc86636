//! Writing the end of the log again, before an opening believes it.
//!
//! After a failed fsync the kernel takes pages for written that are not on disk, and a later fsync
//! of them succeeds. A process that opens the log afterwards reads these pages from memory, and
//! cannot tell. So the opening writes that part again which no earlier sync is known to have
//! covered, over itself, and syncs it. That fsync vouches for this write. It needs no space. After
//! a clean end all is covered, and nothing is written again.
//!
//! The kernel may have dropped such pages before the opening. Then it reads old bytes from disk,
//! and the log ends there as after a torn write.

use std::sync::Arc;

use crate::disk::traits::{Disk, DiskFile};
use crate::log::SealedLog;
use crate::log::header::{LOG_DATA_OFFSET, LOG_HEADER_BYTES};
use crate::log::log_name;
use crate::log::reader::LogReader;
use crate::log::recover::Tail;
use crate::types::error::{IoContext, ReadError};
use crate::types::ids::Lsn;

/// Bytes that are copied in one step.
const STEP: u64 = 1 << 20;

impl Tail {
    /// Makes these logs durable, whatever the results of earlier syncs.
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

/// Offset at which group `lsn` of a log ends. If the group is in an earlier log, the offset of the
/// first group.
fn end_of(disk: &dyn Disk, database_id: u64, log: &SealedLog, lsn: Lsn) -> Result<u64, ReadError> {
    let (mut at, mut reached) = (LOG_DATA_OFFSET, log.base);
    let mut reader = LogReader::open(disk, database_id, log.number, (log.epoch, log.base))?;
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
