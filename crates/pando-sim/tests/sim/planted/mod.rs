//! Planted faults: each is found, by the check that is there for it. Only a build with the feature
//! `planted` has them.

mod faults;
mod lending;
mod objects;
mod shards;
