//! Sessions, and what they hold: identities, doubts, locks.

pub mod doubts;
pub mod holds;
pub mod leases;
pub mod locks;
pub mod releases;
pub mod sessions;
