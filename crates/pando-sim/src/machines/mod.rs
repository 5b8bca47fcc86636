//! Processes and their machines: shards, disks, clocks, folders and objects.

pub mod bucket;
pub mod clocks;
pub mod flawed;
pub mod folder;
pub mod host;
pub mod journals;
pub mod objects;
pub mod post;
pub mod server;
mod watched;
