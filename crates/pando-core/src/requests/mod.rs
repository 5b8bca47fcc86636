//! A client's request: whether it may run, exactly once, on a full disk too.

pub mod admission;
pub mod at_once;
pub mod client;
pub mod outcomes;
pub mod room;
mod run;
pub mod watch;
