//! `pando stats`: what a mount does, a line at each interval.

mod command;
mod rates;

pub use command::{StatsArgs, run};
