//! Simulated clients, and what their programs do.

pub mod blocking;
pub mod borrows;
pub mod client;
mod connect;
pub mod execute;
mod holder;
mod lane;
pub mod local;
pub mod memory;
pub mod noted;
mod perform;
pub mod programs;
pub mod workload;
