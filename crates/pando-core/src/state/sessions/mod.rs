//! State of sessions, their leases and their ends.

pub mod holds;
pub mod leases;
pub mod log;
pub mod over;
pub mod parts;
pub mod running;
