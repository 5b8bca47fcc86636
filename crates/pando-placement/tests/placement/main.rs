//! Tests of the papers' claims on placement, of invariants under any history, and of the formats
//! that may never change.

mod format;
mod gigaplus;
mod growing;
mod infinifs;
mod shrinking;
mod slots;
mod splits;
mod stale;
mod tree;
