//! `pando store`: inspects and exports the stores of shards while their volume is stopped.

mod args;
mod check;
mod command;
mod dump;
mod export;
mod open;
mod stats;

pub use args::StoreArgsGroup;
pub use command::run;
