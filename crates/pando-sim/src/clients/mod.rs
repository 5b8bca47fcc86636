//! Simulated clients, and what their programs do.

pub mod blocking;
pub mod client;
mod connect;
pub mod execute;
mod lane;
pub mod local;
pub mod noted;
mod perform;
pub mod programs;
pub mod workload;
