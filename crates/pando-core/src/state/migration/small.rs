//! A partition that is small enough for a merge.

/// A partition that is small enough for a merge.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// Number of attempts in vain.
    pub(crate) tries: u32,
    /// Time of the next attempt. `None`: one is queued or begun.
    pub(crate) at: Option<u64>,
}
