//! One operation from its first request to its final answer.

pub mod backoff;
pub mod chase;
pub mod outcome;
pub mod pending;
pub mod run;
pub mod wake;
