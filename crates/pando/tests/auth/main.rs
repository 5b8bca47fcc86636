//! Keys and certificates by the commands that people type.

#[path = "../common/mod.rs"]
mod common;

mod coming;
mod commands;
mod squash;
