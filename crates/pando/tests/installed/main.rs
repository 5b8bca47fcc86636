//! Pando as a part of a system: mount(8), fstab, service managers, packages.

#[path = "../common/mod.rs"]
mod common;

mod fstab;
mod helper;
mod manager;
mod notify;
mod package;
mod pages;
mod stage;
mod units;
