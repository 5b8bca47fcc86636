//! What the threads of a host do: the timer, the syncers, and the one that makes checkpoints.

mod scrubbing;
pub mod syncing;
pub mod timing;
