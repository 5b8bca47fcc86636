//! `pando status`: shows the state of a mount, of a `pando up`, or of all servers of a volume.

mod cluster;
mod command;
mod tables;

pub use cluster::ask_all;
pub use command::{StatusArgs, run};
