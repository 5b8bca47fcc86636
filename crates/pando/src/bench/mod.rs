//! `pando bench`: measures a folder of a mount, by the system calls of a program.
//!
//! ```text
//!   run   a new folder below the user's ──► steps, one after another, by threads ──► removed again
//!                                             └─► measured   rates and latencies ──► a line, or JSON
//! ```

pub mod args;
mod calls;
mod measured;
mod run;
mod steps;

pub use run::run;
