//! A [`Vfs`](crate::Vfs) behind the [`device`](crate::device): requests become calls, and their
//! results become answers.

#[macro_use]
mod macros;

pub mod answers;
pub mod callers;
pub mod convert;
pub mod file_system;
pub mod grounds;
pub mod hold;
pub mod removed;
pub mod requests;
pub mod state;
