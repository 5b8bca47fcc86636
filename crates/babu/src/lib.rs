//! Babu: an embedded database for file system metadata, after BabuDB (Stender, Kolbeck, Högqvist
//! 2010).
//!
//! Keys and values are opaque bytes, and keys are ordered. One database is one folder, reached
//! through a [`Disk`]. It has one writer and any number of readers. The crate has no threads and no
//! clock: syncing, checkpoints and merges are blocking calls, which the caller makes from any
//! thread.
//!
//! ```text
//!              apply                  write              sync (any thread)
//! Batch ──┬──────────► log, pending ────────► log, kernel ────────► log, durable
//!         └──────────► active trees ──freeze──► frozen layers ──checkpoint──► levels of index files
//!                           ▲                        ▲                                ▲
//!                           └────────── get, scan: the newest layer wins ─────────────┘
//! ```
//!
//! ```
//! use babu::{Batch, Db, MemDisk, Options};
//! use std::sync::Arc;
//!
//! let disk = MemDisk::new();
//! let (mut db, _) = Db::open(Arc::new(disk.clone()), Options::default())?;
//! let mut batch = Batch::new();
//! batch.put(b"name", b"value");
//! let lsn = db.apply(&batch, b"");
//! db.write()?;
//! assert_eq!(db.syncer().sync()?, lsn);
//! assert_eq!(db.get(b"name")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! 1. An insert group is logged, applied and recovered as one.
//! 2. Recovery brings back a prefix of the groups applied, with at least all durable ones.
//! 3. Altered bytes are never used: the reader gets an error with file and offset. The one
//!    exception is a log tail that was never durable: see [the rule](#torn-tail-or-damage).
//! 4. After a failed write or sync of log or manifest, nothing more is written ([`Fatal`]).
//! 5. A full disk is noticed before anything is applied ([`Db::reserve`]).
//!
//! # Files
//!
//! | name | content | changes |
//! |---|---|---|
//! | `MANIFEST` | which files make up the database | replaced as a whole |
//! | `log-` 16 hex digits | insert groups | appended to |
//! | `idx-` 16 hex digits | sorted entries | never |
//! | `UNFINISHED-EXPORT` | marks an export that did not end; becomes `MANIFEST` | once |
//! | `SPARE-LOG`, `BALLAST` | nothing: room for a full disk ([`Options::ballast_bytes`]) | used up and made anew |
//!
//! All numbers are little-endian. Every structure has a CRC-32C, seeded with the kind of file,
//! database id, file number and offset. So a structure in the wrong place is not accepted.
//!
//! ```text
//! MANIFEST: see manifest.rs              log file
//!  0 [u8;8] "babuMAN\n"                   0     header
//!  8 u16 version (2, 3), u16 0            512   mark place A
//! 12 u32 checksum                         1024  mark place B
//! 16 u64 database id                      4096  groups
//! 24 u64 epoch                                  zeros (preallocated)
//! 32 u64 last group in index files       header
//! 40 u64 first log of this epoch          0 [u8;8] "babuLOG\n"
//! 48 u64 next index file number           8 u16 version (2), 6 zeros
//! 56 indices, with the files of          16 u64 database id
//!    each level and their spans          24 u64 log number
//!    snapshots, the same                 32 u64 epoch
//!    sealed logs, kept logs              40 u64 base LSN, 12 zeros
//!                                        60 u32 checksum
//! index file: see index/mod.rs           mark
//!  0     header, version 2                0 u64 epoch, u64 durable LSN
//!  32    blocks (index/block.rs)         16 u64 newest durable log
//!        filter, hidden ranges,          24 u32 0, u32 checksum
//!          block list                    group
//!  end-96 footer                          0 u16 0xBA 0xB2, u32 checksum
//!                                         6 u32 length, with a bit for a claim
//! change: see batch.rs                   10 u32 low half of the LSN
//!                                        14 u64 durable LSN, if there is a claim
//!                                           varint meta length, varint changes
//!                                           meta, changes, zeros to 4
//! ```
//!
//! Logs of version 1 can be read: see `log/group.rs`. Earlier programs refuse those of version 2.
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `types` | keys, numbers, errors, options, the encoding of fields |
//! | `disk` | the trait [`Disk`], a real disk, one in memory |
//! | `index` | index files: blocks, filters, the block cache, writing and reading |
//! | `tree` | the active tree, in memory |
//! | `log` | insert groups, the log, its recovery, space kept for a full disk |
//! | `levels` | layers of trees and files: read as one, merged, named by the manifest |
//! | `db` | [`Db`]: opening, state, checkpoints, snapshots, ingestion |
//! | `tools` | checks and figures of a database that is not open |
//!
//! # Torn tail or damage?
//!
//! A crash may leave the end of the log unfinished. An opening cuts that end, and reports it in
//! [`Recovered::torn`]. If a group that had been durable is missing, that is damage, and the
//! database refuses to open.
//!
//! Marks, and the first group of a write, claim the highest LSN that was known to be durable when
//! they were written. The highest claim anywhere in the last epoch's logs decides.
//!
//! A failed sync may leave the kernel with unwritten pages that it takes for written. What an
//! opening on the same boot reads from them is only as durable as the disk is honest.
#![deny(unsafe_code)]

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
mod planted;

mod db;
mod disk;
#[cfg(test)]
mod fuzz;
mod index;
mod levels;
mod log;
mod tools;
mod tree;
mod types;

pub use db::checkpoint::{CheckpointDone, CheckpointJob, CheckpointNowError};
pub use db::database::Db;
pub use db::export::{ExportError, ExportJob, Exported};
pub use db::ingest::{IngestError, Ingestion, MAX_PENDING_RUNS, Run, RunError, RunFiles};
pub use db::merge::{MergeDone, MergeJob};
pub use db::open::Recovered;
pub use db::pressure::{Behind, Pressure};
pub use db::retired::Retired;
pub use db::scrub::{ScrubDone, ScrubJob, ScrubNote, ScrubStats, Scrubbed};
pub use db::snapshot::SnapshotError;
pub use db::state::scan::Scan;
pub use db::state::snapshot::Snapshot;
pub use db::state::stats::{LevelStats, ReadStats, Stats, WriteStats};
pub use db::state::view::View;
pub use disk::memdisk::{self, MemDisk};
pub use disk::realdisk::RealDisk;
pub use disk::room::DiskRoom;
pub use disk::traits::{Appender, Disk, DiskFile};
pub use index::value::Value;
pub use levels::MAX_LEVELS;
pub use levels::manifest::UNFINISHED_EXPORT;
pub use log::batch::{Batch, Change, Changes, MAX_GROUP_BYTES};
pub use log::ingested::IngestedFile;
pub use log::reader::{LogGroup, LogGroups};
pub use log::recover::TornTail;
pub use log::sync::{Around, Syncer};
pub use log::writer::Priority;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use tools::check::{check, check_deep};
pub use tools::inspect::{Facts, FileInfo, Inspection};
pub use tools::report::Report;
pub use types::definition::{Definition, MAX_NAME_BYTES};
pub use types::error::{
    CheckpointError, Damage, Fatal, FreezeError, Full, IoFailure, KeepLogError, LogReadError,
    OpenError, ReadError, ReserveError,
};
pub use types::ids::{Epoch, IndexId, Lsn};
pub use types::key::{Key, MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use types::options::{Durability, Options};
pub use types::select::{Part, Pattern, Selection};
