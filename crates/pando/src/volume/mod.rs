//! A volume as the user names it: its keys, and connections to its servers.

pub mod connect;
pub mod format;
pub mod keys;
pub mod map;
pub mod named;
pub mod questioner;
pub mod settle;
pub mod syncing;
