//! The blocking code of mounts, in a simulation without threads.

pub mod baton;
pub mod desk;
pub mod metadata;
