//! The kernel remembers directories for long, and never leads astray: what one mount has renamed,
//! closed or removed, no call on another takes for what it was, once it has returned. Nor do many
//! directories on a path cost more than one.

#[path = "../common/mod.rs"]
mod common;

mod acts;
mod counted;
mod matrix;
mod strict;
mod who;
