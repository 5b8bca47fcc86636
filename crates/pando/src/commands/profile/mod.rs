//! `pando profile`: which programs ask a mount for what.

mod command;
mod shown;

pub use command::{ProfileArgs, run};
