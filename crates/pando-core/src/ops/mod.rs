//! Operations of clients, one file per family. An operation that one shard can run alone runs here,
//! in one insert group. One that spans several places begins here, and continues in `txn`.

pub(crate) mod attr;
mod create;
pub(crate) mod data;
mod dir;
mod lock;
pub(crate) mod lookup;
mod names;
mod open;
mod read_files;
mod readdir;
mod xattr;
