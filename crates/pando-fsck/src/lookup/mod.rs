//! Reading again: single records at their places, and where numbers are named.

pub mod locate;
pub mod probe;
