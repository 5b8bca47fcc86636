//! `pando umount`: unmounts a tree, and waits until its process has stored all data.

mod args;
mod command;
mod ending;
mod find;
mod patience;
mod unanswered;

pub use args::UmountArgs;
pub use command::run;
