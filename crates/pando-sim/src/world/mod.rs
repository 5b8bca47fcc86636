//! The event loop: shards, network, disks and time.

mod deliver;
pub mod disks;
pub mod faults;
mod handover;
pub mod local;
pub mod locks;
pub mod moves;
pub mod objects;
mod start;
pub mod state;
mod steps;
mod tally;
pub mod work;
