//! State of transactions, at their coordinator and at their participants.

pub mod agenda;
pub mod coordinator;
pub mod deadlines;
pub mod graph;
pub mod participant;
pub mod pinned;
pub mod plan;
pub mod recent;
pub mod silent;
pub mod step_lock;
pub mod transaction;
