//! Sessions, and what they hold: opens, locks of programs, outcomes.

mod alone;
mod ends;
mod file_locks;
mod floors;
mod local;
mod releases;
