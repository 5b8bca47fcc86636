//! Operations of clients, a file per family. What one shard can decide alone is done here in one
//! insert group; what spans several places is begun here and carried on in `txn`.

pub(crate) mod attr;
mod create;
pub(crate) mod data;
mod dir;
mod lock;
pub(crate) mod lookup;
mod names;
mod open;
mod readdir;
mod xattr;

pub(crate) use names::{moved, new_dir_attr};
