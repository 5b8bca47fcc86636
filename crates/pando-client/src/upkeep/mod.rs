//! What keeps a client going: its sessions, their end, and what is left of them.

pub mod alone;
pub mod connect;
pub mod maintain;
pub mod reopen;
pub mod unlocks;
