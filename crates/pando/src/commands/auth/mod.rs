//! `pando auth`: issues, lists, revokes and renews the keys that clients use over TCP.

mod add;
pub mod args;
mod command;
mod handing;
mod init;
mod list;
mod renew;
mod revoke;
mod rotate;
mod volume;

pub use args::AuthArgs;
pub use command::run;
