//! What a session says of what its kernel remembers (docs/design/holds.md).

use serde::{Deserialize, Serialize};

use crate::Epoch;

/// For how long the kernel of a session of another process may remember after it has asked,
/// nanoseconds. The mount counts from when it sent the question. The shard counts a quarter more
/// from when it got that.
pub const HOLD_TIME: u64 = 4_000_000_000;
/// For how long shard 0 lets a question whether a hold is recalled wait, nanoseconds. A client
/// takes a call that is silent for some seconds for a lost one.
pub const AWAIT_TIME: u64 = 500_000_000;

/// What a session says to shard 0 of what its kernel remembers, and of what it changes
/// (docs/design/holds.md). A statement may come late, or again. So `Ask` and `End` of a session
/// have ascending numbers, and so have `Wake` and `Quiet`. Shard 0 ignores one with a lower number
/// than it has heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Holding {
    /// The session asks that its kernel may remember names and attributes from now on.
    /// [`Body::Holds`](crate::reply::Body::Holds) tells whether it may. A session of another
    /// process *holds* for [`HOLD_TIME`], and asks again. A local one holds until it says `End`.
    Ask(u64),
    /// The shard answers when another session wants to write, or at once if this session does not
    /// hold. To a session of another process it answers after [`AWAIT_TIME`] in any case:
    /// [`Body::Holds`](crate::reply::Body::Holds) if none wants to. That prolongs nothing.
    Await,
    /// The session's kernel remembers nothing. A repetition changes nothing.
    End(Said),
    /// The session wants to change what other kernels may remember. `EBUSY`, and all other holds
    /// are recalled, until none is left. From the answer on, no other session begins to hold.
    Wake(u64),
    /// The session changes nothing that another kernel may remember, until its next `Wake` is
    /// answered. None of its changes is unanswered.
    Quiet(Said),
}

/// A statement that shard 0 may have to believe though it was started since.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Said {
    /// Its number.
    pub number: u64,
    /// The start of shard 0 of which the session has heard last. Of another one, the shard believes
    /// nothing: it has forgotten the numbers.
    pub epoch: Epoch,
}
