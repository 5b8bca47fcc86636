//! The log: every insert group, in order. A group is in the log before any other file has its
//! changes.
//!
//! A database has a sequence of log files with consecutive numbers. Every opening and every freeze
//! begins a new one. A log is deleted once a checkpoint holds all its groups.
//!
//! ```text
//! log-0000000000000007
//! 0        file header (64 bytes, `header`)
//! 512      mark place A (32 bytes) ┐ what is known durable, written after each sync into the places in turn; each in a
//! 1024     mark place B (32 bytes) ┘ sector of its own. The first sync of a new log marks the log before it as well
//! 4096     group, group, group …   (`group`), each padded to 4 bytes
//! end      zeros up to what is preallocated
//! ```
//!
//! # Torn tail or damage?
//!
//! A group that cannot be read was cut off by a crash, or damaged later. The first is legal and
//! must be forgotten. The second must be reported.
//!
//! The position of the group does not tell them apart. Unsynced writes may survive a loss of power
//! in any order, so a whole group may legally follow a hole. And the last group of a file may have
//! been promised to a caller. The test is *whether the group had been durable*:
//!
//! 1. The first group of a write carries the highest LSN that was durable when the group was made,
//!    if the log does not claim it yet. Each sync leaves a mark with the LSN that it made durable,
//!    unless more was written meanwhile. The next sync then covers and marks that. Both are written
//!    after the sync they claim, so neither claims too much.
//! 2. Let D be the highest claim in any intact group or mark of the last opening's logs, wherever
//!    it stands, even after a hole.
//! 3. If the first group that is missing or unreadable is ≤ D, it is damage, and the opening is
//!    refused. Marks also name the newest durable log. If that log or an earlier one is missing,
//!    cut off below 4096, or has an unreadable header, that is damage too.
//! 4. Otherwise the log was torn there. That group and everything after it are cut and reported.
//! 5. The manifest has the end of each log of an earlier opening, to the byte. Every fault in such
//!    a log is damage.
//!
//! Nothing is appended after a cut: an opening begins a new file. So a cut group never comes back.
//!
//! Before the tail beyond D is believed, it is written again over itself (`again`). A sync that
//! failed before this opening may have left it in memory only, and marked as written.
//!
//! The rule misses two cases of damage to a synced group. In the first, a loss of power also takes
//! the mark, before the next sync, and the one group with the claim, if there was a write since. In
//! the second, more was written during the sync, and no later sync or group left its claim.

mod again;
pub mod ballast;
pub mod batch;
pub(crate) mod group;
pub(crate) mod header;
pub mod ingested;
pub(crate) mod reader;
pub(crate) mod recover;
pub(crate) mod sync;
pub(crate) mod window;
pub(crate) mod writer;

use crate::types::ids::{Epoch, Lsn};

/// A log file that no longer grows, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SealedLog {
    pub(crate) number: u64,
    pub(crate) epoch: Epoch,
    /// The last group before this file.
    pub(crate) base: Lsn,
    /// The last group in this file.
    pub(crate) last: Lsn,
    /// Offset at which that group ends.
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

pub(crate) const GROUP_ALIGNMENT: u64 = 4;

/// Most bytes of a group beside meta and changes: its head, a claim, and two varints.
pub(crate) const GROUP_OVERHEAD_BYTES: usize = 14 + 8 + 2 * 5;

/// Rounds a length up to where the next group begins.
pub(crate) fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GROUP_ALIGNMENT)
}
