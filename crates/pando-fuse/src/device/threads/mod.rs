//! What the threads of a session share: their posts, their tasks, and the pauses of the watch.

pub mod reader_pool;
pub mod task;
pub mod watch;
