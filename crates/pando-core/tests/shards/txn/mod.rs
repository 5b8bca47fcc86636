//! Transactions over several shards.

mod clocks;
mod killed;
mod messages;
mod moves;
mod namespace;
mod power;
mod silent;
mod syncs;
mod three_renames;
mod traces;
