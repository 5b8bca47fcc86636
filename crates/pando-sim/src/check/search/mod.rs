//! The search for an order of all operations.

mod attempt;
pub mod closely;
pub mod footprint;
mod frontier;
pub mod order;
pub mod simple;
