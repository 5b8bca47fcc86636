//! A whole cluster in one thread, by one seed.

pub mod check;
pub mod random;
