//! What clients, and the kernels before them, remember of what they have read.

mod forgets;
mod remembers;
