//! What keeps a client going: its sessions, their end, and what is left of them.

pub mod connect;
pub mod hold;
pub mod maintain;
pub mod reopen;
pub mod unlocks;
