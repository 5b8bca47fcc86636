//! The subcommands: each in a file or a folder of its name, with its arguments.

pub mod auth;
pub mod completions;
pub mod doctor;
pub mod down;
pub mod drop_pages;
pub mod fill;
pub mod format;
pub mod fsck;
pub mod gc;
pub mod info;
pub mod man;
pub mod manifest;
pub mod mount;
pub mod profile;
pub mod rmr;
pub mod server;
pub mod shard;
pub mod stats;
pub mod status;
pub mod store;
pub mod sync;
pub mod umount;
pub mod up;
