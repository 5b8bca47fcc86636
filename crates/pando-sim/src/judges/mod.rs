//! What judges note while a run goes on, and judge by themselves.

pub mod applied;
pub mod contents;
pub mod ear;
pub mod loans;
pub mod lock_watch;
pub mod locks;
pub mod mark;
pub mod promises;
