//! `pando store`: inspects the stores of shards while their volume is stopped.

mod args;
mod check;
mod command;
mod dump;
mod open;
mod stats;

pub use args::StoreArgsGroup;
pub use command::run;
