//! `pando-bench trees`: the work of real programs on trees, on several systems in turn.
//!
//! # Rooms
//!
//! Each imports only what stands above it here:
//!
//! | folder or file | holds |
//! |---|---|
//! | `row.rs`, `bar.rs`, `args.rs` | rows and systems by name, what is asked of each, arguments |
//! | `pass/` | a FUSE that passes reads through to a local folder, and remembers nothing |
//! | `made/` | what programs work on: a source tree, a C project, a repository |
//! | `system/` | a system that is up: where programs work, how it is mounted anew |
//! | `kit/` | programs and how they are run, and what all rows share |
//! | `work/` | what is measured, row by row |
//! | `figures.rs`, `show.rs` | figures and their ratios; a table of them |
//! | `run.rs` | the rounds |

pub mod args;
mod bar;
mod figures;
mod kit;
mod made;
pub mod pass;
mod row;
pub mod run;
mod show;
mod system;
mod work;
