//! The log: every insert group, in order, before anything else on disk knows of it.
//!
//! A database has a sequence of log files with consecutive numbers. A new one begins at every
//! opening and every freeze; one is deleted when a checkpoint holds all its groups.
//!
//! ```text
//! log-0000000000000007
//! 0        file header (64 bytes, `header`)
//! 512      mark slot A (32 bytes)  ┐ what is known durable, written after each sync into the slots in turn; each in a
//! 1024     mark slot B (32 bytes)  ┘ sector of its own. The first sync of a new log marks the log before it as well
//! 4096     group, group, group …   (`group`), each padded to 8 bytes
//! end      zeros up to what is preallocated
//! ```
//!
//! # Torn tail or damage?
//!
//! A group that cannot be read was either cut off by a crash, which is legal and must be forgotten,
//! or damaged later, which must be reported. "It is the last" does not tell them apart: writes that
//! were not synced may survive a loss of power in any order, so a whole group may legally follow a
//! hole; and a file's last group may be one that somebody was promised. What does tell is *whether
//! the group had been durable*:
//!
//! 1. Each group carries the highest LSN that was durable when it was made, and each sync leaves a
//!    mark with the LSN it made durable, unless more was written meanwhile, which the next sync
//!    makes durable and marks. Both are written after that sync, so neither ever claims too much.
//! 2. Let D be the highest such claim in any intact group or mark of the logs of the last opening,
//!    wherever it stands, also behind a hole.
//! 3. If the first group missing or unreadable is ≤ D, it is damage: the opening is refused. Marks
//!    also name the newest log that is durable: if that or an earlier one is missing, cut off below
//!    4096, or has an unreadable header, it is damage too.
//! 4. Otherwise the log was torn there. That group and everything after it are cut, and reported as
//!    a fact.
//! 5. Logs of earlier openings have their end, to the byte, in the manifest: every fault in them is
//!    damage.
//!
//! Nothing is appended behind a cut: an opening begins a new file, so what was cut can never come
//! back to life. What the tail holds beyond D is written again, over itself, before it is believed
//! (`again`): a sync that failed before this opening may have left it in memory only, and taken for
//! written. (What the rule cannot see: damage to a group that was synced while, in addition, power
//! was lost before the next sync and the mark with it; or, where writing went on during the sync,
//! while no sync and no group came after it.)

mod again;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod reader;
pub(crate) mod recover;
pub(crate) mod sync;
pub(crate) mod window;
pub(crate) mod writer;

use crate::lsn::{Epoch, Lsn};

/// A log file that will not grow any more, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SealedLog {
    pub(crate) number: u64,
    pub(crate) epoch: Epoch,
    /// The last group before this file.
    pub(crate) base: Lsn,
    /// The last group in it.
    pub(crate) last: Lsn,
    /// Where that group ends.
    pub(crate) end_offset: u64,
}

const LOG_PREFIX: &str = "log-";

pub(crate) fn log_name(number: u64) -> String {
    format!("{LOG_PREFIX}{number:016x}")
}

pub(crate) fn log_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(LOG_PREFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (log_name(number) == name).then_some(number)
}
