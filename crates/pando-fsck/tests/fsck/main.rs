//! Tests of the check: whole volumes, each kind of damage and its repair, running volumes.
//!
//! `planted` needs the feature of that name.

mod collect;
mod damage;
mod every_row;
mod healthy;
#[cfg(feature = "planted")]
mod planted;
mod powerless;
mod support;
mod underway;
mod unreadable;
