//! How running a request ends, and why it may stop before its end.

use alloc::string::String;
use pando_types::Errno;
use pando_types::reply::{Body, Refusal};

use crate::contract::{Halt, Need};
use crate::records::keys::Table;
use crate::state::lock_key::LockKey;

/// Why an operation did not come to its end.
#[derive(Debug)]
pub enum Stop {
    /// The operation is refused with this answer.
    Refuse(Refusal),
    /// The operation waits for this lock, and runs again when the lock is free.
    Wait(LockKey),
    /// The operation cannot run.
    Halt(Halt),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Refuse(Refusal::Errno(errno))
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// The error of a store that holds an invalid record.
pub fn broken(what: &str) -> Halt {
    Halt::Broken(String::from(what))
}

/// The error of a store that holds an invalid key in one of the shard's own tables.
pub fn bad_key(table: Table) -> Halt {
    Halt::Broken(alloc::format!("a key of its table {table:?} is damaged"))
}

/// How an operation ended, so far.
pub enum Ran {
    /// It ended with this answer, which must not leave before the need is met.
    Answer(Body, Need),
    /// A transaction has begun, and answers when it ends.
    Later,
}

impl From<Body> for Ran {
    fn from(body: Body) -> Self {
        Self::Answer(body, Need::Committed)
    }
}

/// Refusal of an operation that only the coordinator shard runs, when another shard gets it.
pub fn not_here() -> Stop {
    Errno::EINVAL.into()
}
