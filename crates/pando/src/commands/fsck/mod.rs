//! `pando fsck`: the check, its source, its progress and its report.

mod command;
mod report;
mod source;
mod watch;

pub use command::{FsckArgs, run};
