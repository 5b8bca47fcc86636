//! Babu: an embedded database for file system metadata, after BabuDB (Stender, Kolbeck, Högqvist 2010).
//!
//! Keys and values are opaque bytes; keys are ordered. One database is one folder, reached through a [`Disk`]. There
//! is one writer and any number of readers; there are no threads and no clock inside: syncing and checkpointing are
//! calls that block, made from whatever thread the caller likes.
//!
//! ```text
//!              apply                  write              sync (any thread)
//! Batch ──┬──────────► log, pending ────────► log, kernel ────────► log, durable
//!         └──────────► active tree ──freeze──► frozen trees ──checkpoint──► index file
//!                           ▲                       ▲                           ▲
//!                           └───────── get, scan: the newest layer wins ────────┘
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
//! 2. What recovery brings back is a prefix of the groups applied, and holds at least all that were durable.
//! 3. Bytes that are not as they were written are never used: the reader gets an error with file and offset. The one
//!    exception is a log tail that was never durable, see [the rule](#torn-tail-or-damage).
//! 4. After a failed write or sync of log or manifest nothing is written any more ([`Fatal`]).
//! 5. A full disk is noticed before anything is applied ([`Db::reserve`]).
//!
//! # Files
//!
//! | name | content | changes |
//! |---|---|---|
//! | `MANIFEST` | which files make up the database | replaced as a whole |
//! | `log-` 16 hex digits | insert groups | appended to |
//! | `idx-` 16 hex digits | sorted entries | never |
//!
//! All numbers are little-endian. Every structure has a CRC-32C, seeded with the kind of file, database id, file
//! number and offset, so that a structure in the wrong place is not accepted.
//!
//! ```text
//! MANIFEST                               log file                              index file
//!  0 [u8;8] "babuMAN\n"                   0     header                          0      header
//!  8 u16 version (1), u16 0               512   mark slot A                     32     blocks
//! 12 u32 checksum                         1024  mark slot B                            block list: per block
//! 16 u64 database id                      4096  groups                                  u64 offset, u32 length,
//! 24 u64 epoch                                  zeros (preallocated)                    u16 key length, first key
//! 32 u64 last group in the index         header                                end-64 footer
//! 40 u64 first log of this epoch          0 [u8;8] "babuLOG\n"                 header
//! 48 u64 next index file number           8 u16 version (1), 6 zeros            0 [u8;8] "babuIDX\n"
//! 56 u32 index files, u32 sealed logs    16 u64 database id                     8 u16 version (1), 6 zeros
//! 64 per index file:                     24 u64 log number                     16 u64 file number
//!      u64 number, u64 length            32 u64 epoch                          24 u32 0, u32 checksum
//!    per sealed log:                     40 u64 base LSN, 12 zeros             block
//!      u64 number, u64 epoch,            60 u32 checksum                        0 u32 checksum, u32 entries
//!      u64 base LSN, u64 last LSN,       mark                                   8 u8 codec (0), 7 zeros
//!      u64 end offset                     0 u64 epoch, u64 durable LSN         16 entries: u16 key length,
//!                                        16 u64 newest durable log                u32 value length, key, value
//!                                        24 u32 0, u32 checksum                   u32 offset per entry
//!                                        group                                 footer
//!                                         0 [u8;4] "bGRP", u32 checksum         0 u64 offset, u64 length,
//!                                         8 u16 version (1), u16 0                u64 blocks of the block list
//!                                        12 u32 length of meta and changes
//!                                        16 u64 epoch, u64 LSN                 24 u64 entries
//!                                        32 u64 durable LSN                    32 u32 checksum of the block list
//!                                        40 u32 meta length, u32 changes       36 20 zeros
//!                                        48 meta, changes, zeros to 8          56 [u8;4] "bFTR", u32 checksum
//!
//! change:  1 u16 key length  u32 value length  key  value     put
//!          2 u16 key length  key                              delete
//!          3 u16 from length u16 to length  from  to          delete range
//! ```
//!
//! # Torn tail or damage?
//!
//! A crash may leave the end of the log unfinished; that end is cut. A group that had been durable may not be
//! missing; that is damage, and the database refuses to open. Groups and marks carry the highest LSN known durable
//! when they were written; the highest such claim found anywhere in the last epoch's logs decides. What is cut is
//! reported in [`Recovered::torn`]. (A sync that failed may leave the kernel with pages it believes are written; what
//! an opening on the same boot reads from them is then only as durable as the disk is honest.)
#![deny(unsafe_code)]

mod batch;
mod check;
mod checkpoint;
mod codec;
mod db;
mod disk;
mod error;
mod index;
mod key;
mod log;
mod lsn;
mod manifest;
pub mod memdisk;
mod open;
mod options;
mod realdisk;
mod scan;
mod tree;
mod value;

pub use batch::{Batch, Change, Changes, MAX_GROUP_BYTES, MAX_VALUE_BYTES};
pub use check::{Report, check};
pub use checkpoint::{CheckpointDone, CheckpointJob, CheckpointNowError, Retired};
pub use db::{Db, Stats};
pub use disk::{Disk, DiskFile};
pub use error::{
    CheckpointError, Damage, Fatal, FreezeError, Full, IoFailure, LogReadError, OpenError,
    ReadError, ReserveError,
};
pub use key::{Key, MAX_KEY_BYTES};
pub use log::reader::{LogGroup, LogGroups};
pub use log::recover::TornTail;
pub use log::sync::Syncer;
pub use log::writer::Priority;
pub use lsn::{Epoch, Lsn};
pub use memdisk::MemDisk;
pub use open::Recovered;
pub use options::Options;
pub use realdisk::RealDisk;
pub use scan::Scan;
pub use value::Value;
