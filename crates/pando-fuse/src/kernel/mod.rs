//! Everything that knows the FUSE library.

pub mod session;
