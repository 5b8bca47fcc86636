//! Volumes to measure, and the processes that serve them.

pub mod beside;
pub mod durability;
pub mod here;
pub mod make;
pub mod mounts;
pub mod named;
pub mod net;
pub mod process;
pub mod program;
pub mod servers;
