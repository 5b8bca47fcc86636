//! The part of a shard that holds inputs for later.

use alloc::collections::{BTreeMap, VecDeque};

use crate::contract::Input;

/// Inputs that are handled later.
#[derive(Default)]
pub struct RunQueue {
    /// Inputs that have finished waiting: each `Input::Ready` takes one.
    pub(crate) ready: VecDeque<Input>,
    /// Inputs to handle again later, by time and ticket.
    pub(crate) later: BTreeMap<(u64, u64), Input>,
    /// Counter of tickets, which tell apart equal times and questions.
    pub(crate) ticket: u64,
}
