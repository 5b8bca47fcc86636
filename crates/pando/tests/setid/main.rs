//! Setuid and setgid are cleared as Linux clears them. Every operation that may clear them is run
//! by every kind of caller on every kind of file, and compared with a local file system.

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod acts;
mod imposed;
mod promises;
mod table;
