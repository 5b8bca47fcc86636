//! Requests by path: versions, guesses, refusals.

pub mod births;
pub mod births_model;
pub mod glimpses;
pub mod invalidation;
pub mod lost_trails;
