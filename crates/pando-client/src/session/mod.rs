//! Sessions, and what belongs to one: request slots, requests in doubt, locks.

pub mod doubts;
pub mod locks;
pub mod sessions;
pub mod slots;
pub mod unlocks;
