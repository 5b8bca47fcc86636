//! Connections that were admitted, and the threads that serve them.

pub mod client;
pub mod peer;
pub mod sink;
pub mod threads;
pub mod tool;
pub mod worker;
