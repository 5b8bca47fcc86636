//! File contents of Pando.
//!
//! Small files are inline, in the metadata; everything else is in immutable objects. What says
//! which bytes of a file are where is metadata, kept by the shards ([`Metadata`]). This crate has
//! the other half: it buffers writes, stores them as objects, tells the shards, reads back, and
//! deletes objects that nobody needs any more.
//!
//! ```text
//! write ──> dirty extents (per inode) ──flush──> ObjectStore::put ──then──> Metadata::write_data
//! read  <── dirty extents over ( inline bytes | cached, checked blocks of objects | zeros )
//! ```
//!
//! 1. Metadata names an object only after the object is stored.
//! 2. A write that was answered stays readable on this mount, flushed or not, whatever fails, until
//!    its file is closed for the last time. What cannot be stored by then is counted in
//!    [`DataFs::lost_bytes`].
//! 3. No byte of an object is handed out whose checksum was not compared.
//!
//! It knows nothing of names, directories, permissions or the kernel.

#[macro_use]
mod planted;

pub mod cache;
mod client;
mod dirty;
mod fs;
mod inode;
pub mod metadata;
pub mod object;
pub mod objects;
pub mod store;

pub use fs::losses::Loss;
pub use fs::maintenance::Maintenance;
pub use fs::range::{Allocate, Seek};
pub use fs::{DataFs, Limits, OpenInfo, SyncObjects};
pub use metadata::{Metadata, WriteError};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use store::{
    Listing, LocalStore, ObjectStore, RemoteStore, Space, StoreError, SyncHook, Syncs, sync_hook,
};
