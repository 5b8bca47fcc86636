//! Checks whether a volume is whole: every invariant that spans records or shards. On request it
//! mends what needs no guess.
//!
//! ```text
//!  rows of all shards ──► sweep ──► suspects ──► judge ──► findings ──► confirm (running) ──► report
//!  (pages, key order)      │ maps of directories,  │ single rows,                              │
//!                          │ bitmaps of inos       │ read again                                ▼ repair (stopped)
//!  objects (listed) ───────┘                       └ locate: a second pass, if called for     writes per shard
//! ```
//!
//! Each kind of fault has a stable [`Code`]. Unfinished work is no damage: what transactions hold
//! is not judged ([`Report::pending`] counts it).
//!
//! # Running volumes
//!
//! Pages of a running volume show different moments, and operations go on. So a finding counts only
//! if
//!
//! 1. everything that it follows from, absent rows included, is read again twice, later, and is
//!    unchanged each time. Rows carry numbers and times that do not come back, so all of it held at
//!    one moment;
//! 2. between those two reads no transaction's record names a place that it concerns. A
//!    transaction's record exists for as long as its changes differ between places; and
//! 3. it concerns no partition and no hash slot that a decision gave to a shard which heard of it
//!    only during the check. That shard may have given it away again, and no further reading would
//!    show that.
//!
//! Such a check may miss what changes all the time; it tells how much it did not judge. It reports
//! no false faults. Some faults can be told only from a whole, unchanging view: objects that no
//! file needs, and wrong counts of `df`. These are left to stopped volumes.
//!
//! # Repair
//!
//! Only stopped volumes are repaired. A finding is repairable if the right state follows from other
//! records, and nothing that can be reached is lost. An object is called unneeded only if nothing
//! else is wrong. Each repair is one insert group on each shard concerned. It is made only while
//! everything that it follows from is unchanged. Then the volume is checked again, until nothing is
//! left that can be mended.
//!
//! # What cannot be read
//!
//! A range of rows that cannot be read is a finding. It hides only findings that may follow from
//! it. While there is one, nothing is mended: a missing row might be in it.
//!
//! # Memory
//!
//! | what | bytes |
//! |---|---|
//! | directory | about 250, and 56 for each partition |
//! | file with one name | a bit of its number, in compressed bitmaps (at worst 2) |
//! | file with several names, or open without a name | about 100 |
//! | open file | about 150 |
//! | object that a file needs | 8 |
//! | object to be deleted | 16 |
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `rows` | the interfaces to rows and objects; cursors, keys, the volume |
//! | `unfinished` | transactions that are not finished, and the places that they hold |
//! | `findings` | codes, findings, their evidence, the report; rows that cannot be read |
//! | `learned` | what the sweep learns of directories, files, data and tables |
//! | `lookup` | single records read again; a second pass for given numbers |
//! | `sweep` | the first pass over all rows |
//! | `judge` | the closer look at what the sweep suspects |
//! | `confirm.rs` | findings of a running volume, read again until each held at one moment |
//!
//! [`check`](check()), [`repair`](repair()) and [`collect`](collect()) stand above all of them.
#![forbid(unsafe_code)]
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod planted;

mod check;
mod collect;
mod confirm;
mod findings;
mod judge;
mod learned;
mod lookup;
mod repair;
mod rows;
mod sweep;
mod unfinished;

pub use check::check;
pub use collect::{Collected, Unneeded, Watched, collect};
pub use findings::code::Code;
pub use findings::finding::Finding;
pub use findings::report::{Pending, Report};
pub use pando_core::Write;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use repair::{Repaired, repair};
pub use rows::mode::Mode;
pub use rows::source::{
    Gap, Objects, Page, Progress, Repairs, Row, Rows, Stored, Unwatched, Watch,
};
pub use rows::volume::Volume;
