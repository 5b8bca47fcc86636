//! `pando doctor`: one text file with all that helps to find out what is wrong, without secrets.

mod command;
mod files;
mod processes;
mod report;

pub use command::{DoctorArgs, run};
