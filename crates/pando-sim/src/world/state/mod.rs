//! The state of the simulation, without what changes it.

pub mod beliefs;
pub mod event;
pub mod moves;
pub mod world;
