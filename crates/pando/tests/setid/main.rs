//! Setuid and setgid, as Linux takes them off: every operation that may, by every kind of caller,
//! on every kind of file, beside a local file system.

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod acts;
mod imposed;
mod promises;
mod table;
