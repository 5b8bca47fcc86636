//! Simulated clients, and what their programs do.

pub mod blocking;
pub mod borrows;
pub mod client;
mod connect;
pub mod execute;
mod holder;
pub mod kernel;
mod lane;
pub mod local;
mod memory;
pub mod noted;
mod perform;
pub mod programs;
pub mod workload;
