//! The simulated network, and the clients' end of it.

pub mod connections;
pub mod cuts;
pub mod end;
pub mod line;
pub mod mail;
