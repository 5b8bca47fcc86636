//! Plans: what each kind of transaction locks, in which order, and what it changes in the end.
//!
//! The engine asks a plan again after every vote, with all steps so far. The plan keeps little
//! state of its own: what was seen is in the steps.

mod claim;
mod dir_setattr;
pub mod dispatch;
mod exchange;
mod link;
mod lock;
mod mkdir;
mod rename;
mod rmdir;
mod unlink;
pub mod view;
