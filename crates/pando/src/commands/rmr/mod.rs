//! `pando rmr`: removes a tree.

mod command;
mod tree;

pub use command::{RmrArgs, run};
