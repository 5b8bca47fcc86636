//! The commands of the program: what they do, say and refuse.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod bench;
mod fsck;
mod gc;
mod messages;
mod metrics;
mod rmr;
mod store;
mod sync;
