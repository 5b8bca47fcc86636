//! Keys and certificates, through the commands that people type.

#[path = "../common/mod.rs"]
mod common;

mod coming;
mod commands;
mod squash;
