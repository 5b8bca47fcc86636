//! Sessions, and what belongs to one: request slots, requests in doubt, locks, whether it writes.

pub mod doubts;
pub mod hold;
pub mod locks;
pub mod sessions;
pub mod slots;
pub mod stance;
pub mod unlocks;
