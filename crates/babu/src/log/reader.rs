//! Reading the groups of logs in order.

use std::sync::Arc;

use crate::disk::traits::Disk;
use crate::log::batch::Batch;
use crate::log::group::{self, Fault, GROUP_HEAD_BYTES, GROUP_VERSION_1, Group, Place};
use crate::log::header::{self, LOG_DATA_OFFSET};
use crate::log::window::Window;
use crate::log::{SealedLog, log_name};
use crate::types::codec::Seal;
use crate::types::error::{Damage, IoContext, IoFailure, LogReadError, ReadError};
use crate::types::ids::{Epoch, Lsn};

/// A reader of one log file. It begins at the first group.
pub(crate) struct LogReader {
    pub(crate) window: Window,
    seal: Seal,
    epoch: Epoch,
    /// The last group before the log, if that is known.
    pub(crate) base: Lsn,
    pub(crate) offset: u64,
}

impl LogReader {
    pub(crate) fn open(
        disk: &dyn Disk,
        database_id: u64,
        number: u64,
        (epoch, base): (Epoch, Lsn),
    ) -> Result<Self, IoFailure> {
        let name = log_name(number);
        let file = Arc::from(disk.open(&name).during("open", &name)?);
        Ok(LogReader {
            window: Window::new(file, name)?,
            seal: header::seal(database_id, number),
            epoch,
            base,
            offset: LOG_DATA_OFFSET,
        })
    }

    /// Opens a log that must exist. A missing file is damage.
    fn open_sealed(disk: &dyn Disk, database_id: u64, log: &SealedLog) -> Result<Self, ReadError> {
        let groups = (log.epoch, log.base);
        Self::open(disk, database_id, log.number, groups).map_err(|failure| {
            match failure.source.kind() {
                std::io::ErrorKind::NotFound => {
                    let what = format!("the log is missing{}", lost(log.base.next(), log.last));
                    Damage::new(&failure.file, 0, what).into()
                }
                _ => failure.into(),
            }
        })
    }

    /// The group at `offset` and the offset of its end. Does not move the reader.
    pub(crate) fn group_at(
        &mut self,
        offset: u64,
    ) -> Result<Result<(Group<'_>, u64), Fault>, IoFailure> {
        const ABSENT: Fault = Fault::Broken("is cut short");
        let Some(head) = self.window.get(offset, GROUP_HEAD_BYTES as u64)? else {
            return Ok(Err(ABSENT));
        };
        let head_bytes = group::head_bytes(head) as u64;
        let Some(head) = self.window.get(offset, head_bytes)? else {
            return Ok(Err(ABSENT));
        };
        let Some(count) = group::encoded_bytes(head) else {
            return Ok(Err(Fault::Broken("does not begin as a group does")));
        };
        let place = Place { seal: self.seal, epoch: self.epoch, base: self.base, offset };
        Ok(match self.window.get(offset, count)? {
            None => Err(ABSENT),
            Some(bytes) => group::decode(bytes, place).map(|group| (group, offset + count)),
        })
    }

    /// The error for a fault that is not a legal cut.
    pub(crate) fn refuse(&self, fault: Fault, offset: u64, lsn: Lsn, why: &str) -> ReadError {
        let what = match fault {
            Fault::Broken(how) => format!("group {lsn} {how}{why}"),
            Fault::Nonsense => format!("group {lsn} is intact but cannot be decoded{why}"),
            Fault::Version(found) => {
                return ReadError::Version {
                    file: self.window.name().to_owned(),
                    found,
                    supported: GROUP_VERSION_1,
                };
            }
        };
        Damage::new(self.window.name(), offset, what).into()
    }
}

/// Calls `each` with every group of a log with a known end, and with the group's offset. Every
/// fault is damage.
pub(crate) fn read_sealed(
    disk: &dyn Disk,
    database_id: u64,
    log: &SealedLog,
    mut each: impl FnMut(&Group<'_>, u64) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = LogReader::open_sealed(disk, database_id, log)?;
    let mut lsn = log.base;
    while reader.offset < log.end_offset {
        lsn = lsn.next();
        reader.offset = read_expected(&mut reader, log, lsn, &mut each)?;
    }
    if lsn != log.last || reader.offset != log.end_offset {
        let affected = lost(lsn.next().min(log.last), log.last);
        let what = format!("the log ends with group {lsn}, not {}{affected}", log.last);
        return Err(Damage::new(reader.window.name(), reader.offset, what).into());
    }
    Ok(())
}

/// Reads the group at the reader's offset, which must be group `lsn`. Returns the offset of its
/// end.
fn read_expected(
    reader: &mut LogReader,
    log: &SealedLog,
    lsn: Lsn,
    each: &mut impl FnMut(&Group<'_>, u64) -> Result<(), ReadError>,
) -> Result<u64, ReadError> {
    let offset = reader.offset;
    let fault = match reader.group_at(offset)? {
        Ok((group, end)) if group.epoch == log.epoch && group.lsn == lsn => {
            each(&group, offset)?;
            return Ok(end);
        }
        Ok(_) => Fault::Broken("has another group in its place"),
        Err(fault) => fault,
    };
    Err(reader.refuse(fault, offset, lsn, &lost(lsn, log.last)))
}

/// Names the groups that are lost, for an error message. A damaged log loses the unreadable group
/// and all later ones.
pub(crate) fn lost(from: Lsn, to: Lsn) -> String {
    match from < to {
        true => format!("; affected are the groups from {from} to {to}"),
        false => format!("; affected is group {from}"),
    }
}

/// An insert group as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogGroup {
    /// The epoch of the opening that made the group.
    pub epoch: Epoch,
    /// Number of the group.
    pub lsn: Lsn,
    /// The meta data that the caller gave with the changes.
    pub meta: Vec<u8>,
    /// The changes of the group.
    pub batch: Batch,
}

impl LogGroup {
    fn of(group: &Group<'_>) -> LogGroup {
        LogGroup {
            epoch: group.epoch,
            lsn: group.lsn,
            meta: group.meta.to_vec(),
            batch: Batch::from_parts(group.encoded_changes.to_vec(), group.change_count),
        }
    }
}

/// Iterator over the groups in the log. See [`crate::Db::log_groups_from`].
pub struct LogGroups<'a> {
    disk: &'a dyn Disk,
    database_id: u64,
    /// Logs that are not read yet, newest first.
    logs: Vec<SealedLog>,
    current: Option<(LogReader, SealedLog)>,
    next: Lsn,
    from: Lsn,
}

impl<'a> LogGroups<'a> {
    /// Groups from `from` on. `logs` are all logs that are there, oldest first.
    pub(crate) fn new(
        disk: &'a dyn Disk,
        database_id: u64,
        mut logs: Vec<SealedLog>,
        from: Lsn,
    ) -> Result<Self, LogReadError> {
        let oldest = logs.first().map_or(Lsn(0), |log| log.base).next();
        if from < oldest {
            return Err(LogReadError::Gone { oldest: oldest.0 });
        }
        logs.retain(|log| log.last >= from);
        logs.reverse();
        Ok(LogGroups { disk, database_id, logs, current: None, next: from, from })
    }

    fn advance(&mut self) -> Result<Option<LogGroup>, ReadError> {
        loop {
            let Some((reader, log)) = &mut self.current else {
                let Some(log) = self.logs.pop() else {
                    return Ok(None);
                };
                let reader = LogReader::open_sealed(self.disk, self.database_id, &log)?;
                self.next = log.base.next();
                self.current = Some((reader, log));
                continue;
            };
            if reader.offset >= log.end_offset {
                self.current = None;
                continue;
            }
            let mut found = None;
            let from = self.from;
            reader.offset = read_expected(reader, log, self.next, &mut |group, _| {
                if group.lsn >= from {
                    found = Some(LogGroup::of(group));
                }
                Ok(())
            })?;
            self.next = self.next.next();
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

impl Iterator for LogGroups<'_> {
    type Item = Result<LogGroup, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance().transpose();
        if let Some(Err(_)) = item {
            self.logs.clear();
            self.current = None;
        }
        item
    }
}
