//! Tests of the papers' claims on placement, of invariants under any history, and of the formats
//! that may never change.

mod format;
mod gigaplus;
mod growing;
mod hash_slots;
mod infinifs;
mod shrinking;
mod splits;
mod stale;
mod tree;
