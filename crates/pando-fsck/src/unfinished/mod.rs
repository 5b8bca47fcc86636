//! Transactions that are not finished, and the places that they hold.

pub mod busy;
pub mod place;
