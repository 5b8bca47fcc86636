//! What the papers claim of placement, what must hold under any history, and the formats that may
//! never change.

mod format;
mod gigaplus;
mod growing;
mod infinifs;
mod rng;
mod shrinking;
mod slots;
mod splits;
mod stale;
mod tree;
