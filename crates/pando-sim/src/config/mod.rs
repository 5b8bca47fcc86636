//! The parameters of runs, and the kinds of runs.

pub mod kinds;
pub mod parameters;
pub mod planted;
