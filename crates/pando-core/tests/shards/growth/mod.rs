//! Splits, merges, handovers and added shards.

pub mod bare;
pub mod counts;
pub mod given_in_part;
pub mod growing;
pub mod handovers;
pub mod independent;
pub mod many_outcomes;
pub mod merges;
pub mod splits;
