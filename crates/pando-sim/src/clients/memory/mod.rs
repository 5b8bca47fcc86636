//! What clients, and the kernels before them, remember of what they have read.

pub mod kernel;
mod remembers;
