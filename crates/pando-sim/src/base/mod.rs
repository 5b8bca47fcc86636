//! What everything else is built from: time, random numbers, locks, tasks and the trace.

pub mod executor;
pub mod lock;
pub mod random;
pub mod time;
pub mod trace;
