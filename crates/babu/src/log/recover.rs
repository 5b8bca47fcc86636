//! Reading the logs of the last opening. No manifest has their end. This module finds it by the
//! rule in the head of [`crate::log`].

use std::ops::ControlFlow;

use crate::disk::traits::Disk;
use crate::log::GROUP_ALIGNMENT;
use crate::log::group::{Fault, begins};
use crate::log::header::{
    self, Claim, HeaderFault, LOG_DATA_OFFSET, LOG_HEADER_BYTES, LOG_VERSION, LogHeader,
    MARK_BYTES, MARK_OFFSETS,
};
use crate::log::reader::{LogReader, lost};
use crate::log::{SealedLog, log_name};
use crate::types::codec::Seal;
use crate::types::error::{Damage, ReadError};
use crate::types::ids::{Epoch, Lsn};

/// The end of the log that an opening cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The file that was cut.
    pub file: String,
    /// Offset at which it was cut.
    pub offset: u64,
    /// Bytes cut, in this file and later ones, without trailing zeros.
    pub bytes: u64,
    /// Number of whole groups among the cut bytes. They followed a hole.
    pub whole_groups: u64,
}

/// The logs of the last opening, each with the end that the rule gives it.
#[derive(Default)]
pub(crate) struct Tail {
    pub(crate) logs: Vec<SealedLog>,
    pub(crate) torn: Option<TornTail>,
    /// What earlier syncs are known to have made durable.
    pub(crate) claim: Claim,
    /// Numbers of logs in which no group was ever durable. Openings and freezes that did not
    /// complete leave such logs.
    pub(crate) unused: Vec<u64>,
    /// Numbers of the logs of this epoch, each with the end of what was written to it.
    pub(crate) ends: Vec<(u64, u64)>,
}

/// What one log holds, read before the rule judges its faults.
struct Survey {
    number: u64,
    len: u64,
    header: Result<LogHeader, Fault>,
    /// First group of the unbroken run at the beginning. `last` and `end_offset` are the run's end.
    first: Option<Lsn>,
    last: Option<Lsn>,
    end_offset: u64,
    /// The fault that ended the run. `None` if nothing is written after the run.
    fault: Option<Fault>,
    /// End of the last byte that is not zero.
    nonzero_end: u64,
    groups_after_fault: u64,
    /// What marks and groups in this log claim to be durable.
    claim: Claim,
}

impl Survey {
    /// True if the log holds no groups, whole or torn.
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.nonzero_end <= LOG_DATA_OFFSET
    }

    /// The fault that ended the run after group `last`, if a crash may have caused it.
    fn legal_fault(&self, last: Lsn) -> Result<Option<Fault>, ReadError> {
        match self.fault {
            Some(Fault::Version(found)) => Err(version_error(log_name(self.number), found)),
            Some(Fault::Nonsense) => {
                let what = format!("group {} is intact but cannot be decoded", last.next());
                Err(Damage::new(&log_name(self.number), self.end_offset, what).into())
            }
            fault => Ok(fault),
        }
    }
}

/// Finds the end of the log. `numbers` are the numbers of all log files from `first` on, ascending.
/// `base` is the last group before them.
pub(crate) fn find_tail(
    disk: &dyn Disk,
    database_id: u64,
    epoch: Epoch,
    first: u64,
    base: Lsn,
    numbers: &[u64],
) -> Result<Tail, ReadError> {
    let mut surveys = Vec::new();
    let mut unused = Vec::new();
    for &number in numbers {
        let survey = survey(disk, database_id, epoch, number)?;
        // An opening that did not reach its manifest left an empty log of a later epoch.
        match matches!(survey.header, Ok(header) if header.epoch > epoch) {
            true => unused.push(number),
            false => surveys.push(survey),
        }
    }
    // The first log was durable before the manifest that names it.
    let known = Claim { lsn: base, log: first };
    let claim = surveys.iter().map(|s| s.claim).fold(known, Claim::max);
    let newest = surveys.last().map_or(0, |survey| survey.number);
    if newest < claim.log {
        let last = surveys.iter().filter_map(|survey| survey.last).max().unwrap_or(base);
        return Err(missing(claim.log, last, claim));
    }
    let is_unused = |s: &&Survey| s.number > claim.log && s.header.is_err() && s.is_empty();
    unused.extend(surveys.iter().filter(is_unused).map(|survey| survey.number));
    let ends = surveys.iter().map(|s| (s.number, s.nonzero_end)).collect();
    let mut tail = Tail { logs: Vec::new(), torn: None, claim, unused, ends };
    let mut last = base;
    for (position, survey) in surveys.iter().enumerate() {
        let number = first + position as u64;
        let due = Due { number, epoch, last, is_first: position == 0, claim };
        let header = match due.header(survey)? {
            ControlFlow::Continue(header) => header,
            ControlFlow::Break(fault) => {
                tail.tear(last, claim, &surveys[position..], fault)?;
                return Ok(tail);
            }
        };
        last = survey.last.unwrap_or(last);
        tail.logs.push(SealedLog {
            number,
            epoch,
            base: header.base,
            last,
            end_offset: survey.end_offset,
        });
        if let Some(fault) = survey.legal_fault(last)? {
            tail.tear(last, claim, &surveys[position..], Some(fault))?;
            return Ok(tail);
        }
    }
    if last < claim.lsn {
        tail.tear(last, claim, &[], None)?;
    }
    Ok(tail)
}

/// What must come next: a log of this number and epoch, after group `last`.
struct Due {
    number: u64,
    epoch: Epoch,
    last: Lsn,
    is_first: bool,
    claim: Claim,
}

impl Due {
    /// Judges the header of the log that comes next. `Break` tells that the log may rightly end
    /// before it, and with which fault.
    fn header(&self, survey: &Survey) -> Result<ControlFlow<Option<Fault>, LogHeader>, ReadError> {
        let &Due { number, epoch, last, is_first, claim } = self;
        if survey.number != number {
            return match number <= claim.log {
                true => Err(missing(number, last, claim)),
                false => Ok(ControlFlow::Break(None)),
            };
        }
        let log = log_name(number);
        let header = match survey.header {
            Ok(header) => header,
            Err(Fault::Version(found)) => return Err(version_error(log, found)),
            Err(_) if number <= claim.log => {
                let what =
                    format!("the header of the log is unreadable{}", durable_lost(last, claim));
                return Err(Damage::new(&log, 0, what).into());
            }
            Err(fault) => return Ok(ControlFlow::Break(Some(fault))),
        };
        if header.epoch != epoch || header.base < last || (is_first && header.base != last) {
            let what = format!(
                "the log follows group {} of epoch {}, not group {last} of epoch {epoch}",
                header.base, header.epoch
            );
            return Err(Damage::new(&log, 0, what).into());
        }
        if number <= claim.log && survey.len < LOG_DATA_OFFSET {
            let what = format!("the log is cut off{}", durable_lost(last, claim));
            return Err(Damage::new(&log, survey.len, what).into());
        }
        if header.base > last {
            // The end of the previous log was lost, and no torn group shows it.
            return Ok(ControlFlow::Break(None));
        }
        Ok(ControlFlow::Continue(header))
    }
}

/// Names the groups that are lost with a log, for an error message. `last` is the last group before
/// the log. Lost are all durable groups after it, and all that were written later.
fn durable_lost(last: Lsn, claim: Claim) -> String {
    match last < claim.lsn {
        true => lost(last.next(), claim.lsn) + ", and all later ones",
        false => format!("; affected are groups from {} on, if there were any", last.next()),
    }
}

fn missing(number: u64, last: Lsn, claim: Claim) -> ReadError {
    let what = format!("the log is missing{}", durable_lost(last, claim));
    Damage::new(&log_name(number), 0, what).into()
}

fn version_error(file: String, found: u16) -> ReadError {
    ReadError::Version { file, found, supported: LOG_VERSION }
}

impl Tail {
    /// Judges a log that stops after group `last`. It is damage if a later group was durable, and a
    /// legal cut otherwise. `rest` begins with the file that is cut.
    fn tear(
        &mut self,
        last: Lsn,
        claim: Claim,
        rest: &[Survey],
        fault: Option<Fault>,
    ) -> Result<(), ReadError> {
        // Where the missing group should stand: after the last group found.
        let (file, offset) = match self.logs.last() {
            Some(log) => (log_name(log.number), log.end_offset),
            None => (rest.first().map_or_else(String::new, |s| log_name(s.number)), 0),
        };
        if last < claim.lsn {
            let how = match fault {
                Some(Fault::Broken(how)) => how,
                _ => "is missing",
            };
            let what = format!(
                "group {} {how}, though group {} and all before it had been durable{}",
                last.next(),
                claim.lsn,
                durable_lost(last, claim)
            );
            return Err(Damage::new(&file, offset, what).into());
        }
        let cut_here = self.logs.last().map(|log| (log.number, log.end_offset));
        let mut torn = TornTail { file, offset, bytes: 0, whole_groups: 0 };
        for survey in rest {
            let (kept_end, groups_in_run) = match cut_here {
                Some((number, end)) if number == survey.number => (end, 0),
                _ => (
                    LOG_DATA_OFFSET,
                    match (survey.first, survey.last) {
                        (Some(first), Some(last)) => last.0 - first.0 + 1,
                        _ => 0,
                    },
                ),
            };
            torn.bytes += survey.nonzero_end.saturating_sub(kept_end);
            torn.whole_groups += groups_in_run + survey.groups_after_fault;
        }
        if torn.bytes > 0 {
            self.torn = Some(torn);
        }
        Ok(())
    }
}

fn survey(
    disk: &dyn Disk,
    database_id: u64,
    epoch: Epoch,
    number: u64,
) -> Result<Survey, ReadError> {
    let mut reader = LogReader::open(disk, database_id, number, (epoch, Lsn(0)))?;
    let header = match reader.window.get(0, LOG_HEADER_BYTES as u64)? {
        None => Err(HeaderFault::Broken),
        Some(bytes) => LogHeader::decode(bytes, database_id, number),
    }
    .map_err(|fault| match fault {
        HeaderFault::Broken => Fault::Broken("is behind an unreadable header"),
        HeaderFault::Version(found) => Fault::Version(found),
    });
    reader.base = header.map_or(Lsn(0), |header| header.base);
    let claim = marked(&mut reader, header::seal(database_id, number), epoch)?;
    let mut survey = Survey {
        number,
        len: reader.window.len(),
        header,
        first: None,
        last: None,
        end_offset: LOG_DATA_OFFSET,
        fault: None,
        nonzero_end: 0,
        groups_after_fault: 0,
        claim,
    };
    let fault = loop {
        let expected = match (survey.last, survey.header) {
            (Some(last), _) => Some(last.next()),
            (None, Ok(header)) => Some(header.base.next()),
            (None, Err(_)) => None,
        };
        match reader.group_at(survey.end_offset)? {
            Ok((group, end))
                if group.epoch == epoch && expected.is_none_or(|lsn| lsn == group.lsn) =>
            {
                survey.first.get_or_insert(group.lsn);
                survey.last = Some(group.lsn);
                survey.claim.lsn = survey.claim.lsn.max(group.durable);
                survey.end_offset = end;
            }
            Ok(_) => break Fault::Broken("has another group in its place"),
            Err(fault) => break fault,
        }
    };
    survey.nonzero_end = reader.window.nonzero_end(survey.end_offset)?;
    if survey.nonzero_end > survey.end_offset {
        survey.fault = Some(fault);
        claims_behind(&mut reader, epoch, &mut survey)?;
    }
    Ok(survey)
}

/// What the marks of a log claim to be durable.
fn marked(reader: &mut LogReader, seal: Seal, epoch: Epoch) -> Result<Claim, ReadError> {
    let mut claim = Claim::default();
    for mark_place in MARK_OFFSETS {
        if let Some(bytes) = reader.window.get(mark_place, MARK_BYTES as u64)? {
            claim =
                claim.max(header::decode_mark(bytes, seal, mark_place, epoch).unwrap_or_default());
        }
    }
    Ok(claim)
}

/// Looks after a fault for whole groups, and adds what they claim to be durable.
fn claims_behind(
    reader: &mut LogReader,
    epoch: Epoch,
    survey: &mut Survey,
) -> Result<(), ReadError> {
    let mut offset = survey.end_offset;
    while offset < survey.nonzero_end {
        let is_begin = reader.window.get(offset, GROUP_ALIGNMENT)?.is_some_and(begins);
        if is_begin
            && let Ok((group, end)) = reader.group_at(offset)?
            && group.epoch == epoch
        {
            survey.claim.lsn = survey.claim.lsn.max(group.durable);
            survey.groups_after_fault += 1;
            offset = end;
        } else {
            offset += GROUP_ALIGNMENT;
        }
    }
    Ok(())
}
