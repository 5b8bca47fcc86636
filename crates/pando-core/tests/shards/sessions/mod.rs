//! Sessions, and what they hold: opens, locks of programs, outcomes.

mod ends;
mod file_locks;
mod floors;
pub mod holds;
mod local;
mod releases;
