//! What an open database holds in memory, and how it is read.

pub mod ahead;
pub mod current;
pub mod debt;
pub mod frozen;
pub mod scan;
pub mod scrub;
pub mod snapshot;
pub mod stats;
pub mod view;
