//! `pando up`: one process with all shards of a volume and its mount.
//!
//! ```text
//! lock the folder ─ format if empty ─ recover shards, listen ─ end old sessions ─ connect ─ mount ─ admin socket
//!       … until a signal, `pando down`, or an `umount` from outside …
//! unmount ─ flush data ─ end the session ─ sync logs ─ release the lock
//! ```

mod args;
mod command;
mod running;
mod serve;

pub use args::UpArgs;
pub use command::run;
