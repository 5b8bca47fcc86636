//! Parts of directories that a session has to itself (docs/design/delegations.md). A grant is a
//! record, and a lock of the part's partition that the grant's generation holds ([`Hold::Lent`]).
//!
//! ```text
//!  holder                                        shard
//!   | -- Borrow ----------------------------------->|  nobody uses the part: record, lock, synced
//!   |<--------------------------- Lent(generation) -|
//!   | -- LentRows … -------------------------------->|
//!   answers its programs; journals each change
//!   | -- Stream(elements n, n + 1 …) --------------->|  each is an input: runs, compares, "applied up to n"
//!   |<------------------------ Streamed(applied) ----|
//!   | -- Attend (waits) ---------------------------->|        another session's request ──► waits for the lock
//!   |<------------------- Attended(recalled) --------|  recall
//!   | -- Stream(the rest, Return) ------------------>|  unlocks, and the request runs
//! ```
//!
//! 1. What comes to a lent part waits for the partition's lock, as for any other. Whoever waits
//!    recalls. Transactions of other sessions are told `Busy`, as at any partition that is held.
//! 2. A part is free after a return, or when its holder does not use it any more ([`Recall`]).
//! 3. An element is applied once: its number is in the grant's record, in the insert group of its
//!    change. What is applied of a grant is a prefix of its elements.
//! 4. A holder's own `Mkdir` or `Rmdir` passes the lock of its part, and changes a name there by a
//!    transaction. The grant counts that: later elements say that they rest on it.
//!
//! [`Hold::Lent`]: crate::state::lock_key::Hold::Lent
//! [`Recall`]: crate::state::grants::held::Recall

mod attend;
mod births;
mod digest;
mod fence;
mod gate;
mod lend;
mod read;
pub mod run;
pub mod stream;
mod under;
