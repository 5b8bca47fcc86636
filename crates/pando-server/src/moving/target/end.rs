//! How a move ends, or an attempt.

use crate::store::error::StoreError;

/// How a move ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The shard is served here.
    Served,
    /// The shard stays at the source, for this reason. The copy is removed, if the disk allows it.
    Stays(String),
    /// A later process of this place must look again, for this reason.
    Later(String),
}

/// Why a step has ended the move, or an attempt.
pub(crate) enum End {
    /// The shard stays at the source, for this reason.
    Failed(String),
    /// The step may be tried again.
    Again(String),
    /// This process does nothing more about the move.
    Later(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.what)
    }
}
