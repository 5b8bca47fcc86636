//! Kernel adaptor of Pando: turns FUSE requests into calls of the file system and its answers into replies.
//!
//! The types of the FUSE library stay within [`kernel`].

pub mod kernel;

pub use kernel::session::{Mounted, Options};
