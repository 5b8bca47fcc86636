//! File contents of Pando.
//!
//! Small files are inline, in the metadata. All other contents are in immutable objects. The shards
//! keep the metadata that says where each byte of a file is ([`Metadata`]). This crate buffers
//! writes, stores them as objects, tells the shards, and reads back. It also deletes objects that
//! are not needed any more.
//!
//! ```text
//! write ──> dirty extents (per inode) ──flush──> ObjectStore::put ──then──> Metadata::write_data
//! read  <── dirty extents over ( inline bytes | cached, checked blocks of objects | zeros )
//! ```
//!
//! 1. Metadata names an object only after the object is stored.
//! 2. An answered write stays readable on this mount, flushed or not, whatever fails, until its
//!    file is closed for the last time. Bytes that cannot be stored by then are counted in
//!    [`DataFs::lost_bytes`].
//! 3. A byte of an object is handed out only after its block's checksum was compared.
//!
//! This crate knows nothing of names, directories, permissions or the kernel.
//!
//! # Rooms
//!
//! Each file or folder imports only what stands above it here:
//!
//! | file or folder | holds |
//! |---|---|
//! | [`cache`] | blocks in memory |
//! | [`object`] | the format of an object |
//! | [`store`] | where objects are: a local folder, or a remote store |
//! | [`objects`] | objects, read through the cache |
//! | [`metadata`], `client.rs` | what the shards are asked, and asking them by a client |
//! | `inode` | an open file: its unflushed bytes, and how its data is kept |
//! | `fs` | all open files: reading, writing, flushing, what was lost |
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod planted;

pub mod cache;
mod client;
mod fs;
mod inode;
pub mod metadata;
pub mod object;
pub mod objects;
pub mod store;

pub use fs::files::DataFs;
pub use fs::limits::{Limits, OpenInfo, SyncObjects};
pub use fs::losses::Loss;
pub use fs::maintenance::Maintenance;
pub use fs::range::{Allocate, Seek};
pub use metadata::{Metadata, WriteError};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use store::{
    Listing, LocalStore, ObjectStore, RemoteStore, Space, StoreError, SyncHook, Syncs, sync_hook,
};
