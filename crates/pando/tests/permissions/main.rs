//! Permissions compared with the local disk: many kinds of callers make all calls, on a volume of
//! `pando up` and on two mounts.
//!
//! [`fuzz`] makes random calls from a seed, and `worker.py` carries them out. Their answers must be
//! equal everywhere, except for what [`listed`] names.

#[path = "../common/mod.rs"]
mod common;

mod arena;
mod callers;
mod calls;
mod fuzz;
mod held;
mod listed;
mod table;
