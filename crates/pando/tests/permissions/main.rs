//! Who may do what, compared with the local disk beside it: callers of many kinds, all calls, on a
//! volume alone and on two mounts.
//!
//! [`fuzz`] makes up calls by seed; `worker.py` carries out, and whose answers must be the same
//! everywhere, but for what [`listed`] names.

#[path = "../common/mod.rs"]
mod common;

mod arena;
mod callers;
mod calls;
mod fuzz;
mod held;
mod listed;
mod table;
