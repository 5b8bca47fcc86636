//! The subcommands that measure Pando, and the floors below which it cannot get.

pub mod args;
pub mod floor;
pub mod growth;
pub mod metadata;
pub mod mix;
pub mod null;
pub mod pairs;
pub mod parts;
mod show;
pub mod worker;
